"""The rights are declared once: the page and the manifests of Kubernetes say the same."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from starlette.applications import Starlette
from starlette.testclient import TestClient

from streamer.settings import Settings
from streamer.storage.rights import RIGHTS, USERS
from streamer.terminal.local import serve_command
from streamer.web.protocols.connections import RequestChecks
from streamer.worker.process import plan
from tests.house.repository import ROOT
from tests.security.secured import GROUP, PAGE, TOPIC, Permission, environment, kafka_permissions
from tests.support.cli import streamer
from tests.support.peers import peer_environment, run_in_peer

KUBERNETES = "kubernetes-validate==1.37.0"
CRDS = {
    "KafkaTopic": "strimzi-crd-kafkatopic-1.3.0-snapshot.yaml.gz",
    "KafkaUser": "strimzi-crd-kafkauser-1.3.0-snapshot.yaml.gz",
}
"""Strimzi's own definitions (Apache-2.0), at commit 8541da1e of its main branch, unchanged but compressed."""


def declared(prefix: str = "") -> set[Permission]:
    return {
        Permission(right.user, operation, kind, prefix + name)
        for right in RIGHTS
        for operation in right.operations
        for kind, names in ((TOPIC, right.topics), (GROUP, right.groups))
        for name in names
    }


def made(*options: str, **given: str) -> list[dict[str, Any]]:
    done = streamer("schema", "--format", "strimzi", *options, environment=given)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(documents: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def closed(schema: Any) -> Any:
    """The schema without room for fields that it does not name, which Kubernetes would drop in silence."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return inner | ({"additionalProperties": False} if named and not is_open else {})


def schema_of(kind: str, version: str) -> Any:
    text = gzip.decompress((ROOT / "tests" / "house" / CRDS[kind]).read_bytes())
    [of] = [one for one in yaml.safe_load(text)["spec"]["versions"] if one["name"] == version]
    assert of["served"]
    return closed(of["schema"]["openAPIV3Schema"])


def test_the_page_allows_what_is_declared_and_nothing_else() -> None:
    assert set(kafka_permissions()) == declared()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    assert {name: rows[name] for name in USERS} == USERS


@pytest.mark.parametrize("namespace", ["", "Team-A"])
def test_topics_and_users_fit_the_definitions_of_strimzi(namespace: str) -> None:
    documents = made("--cluster", "ours", STREAMER_NAMESPACE=namespace, STREAMER_REPLICATION="3")
    for document in documents:
        group, _, version = document["apiVersion"].partition("/")
        if group == "kafka.strimzi.io":
            validator = Draft7Validator(schema_of(document["kind"], version))
            body = document | {"metadata": {}}
            assert [error.message for error in validator.iter_errors(body)] == [], document
            assert not validator.is_valid(body | {"spec": document["spec"] | {"unheard-of": 1}})
            assert document["metadata"]["labels"] == {"strimzi.io/cluster": "ours"}
    names = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) for _, name in names)


def test_topics_are_those_that_workers_create() -> None:
    given: dict[str, Any] = {"namespace": "team-a", "partitions": 12, "replication": 3}
    topics = of_kind(made(**environment(given)), "KafkaTopic")
    specs = [topic["spec"] for topic in topics.values()]
    found = {of["topicName"]: (of["partitions"], of["config"], of["replicas"]) for of in specs}
    planned = plan(Settings(**given))
    assert found == {one.name: (one.partitions, one.config, 3) for one in planned}


@pytest.mark.parametrize(("namespace", "prefix"), [("", ""), ("Team-A", "Team-A.")])
def test_users_have_the_rights_of_the_page_without_creating_topics(namespace: str, prefix: str) -> None:
    users = of_kind(made(STREAMER_NAMESPACE=namespace), "KafkaUser")
    allowed = {
        Permission(name.rpartition("streamer-")[2], operation, {"topic": TOPIC, "group": GROUP}[kind], of)
        for name, user in users.items()
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
        for kind, of in [(acl["resource"]["type"], acl["resource"]["name"])]
    }
    assert allowed == {one for one in declared(prefix) if one.operation != "Create"}


def test_workers_never_outnumber_partitions_and_use_their_own_user() -> None:
    documents = made("--image", "here/streamer:1", STREAMER_PARTITIONS="5")
    [scaler] = of_kind(documents, "HorizontalPodAutoscaler").values()
    assert scaler["spec"]["maxReplicas"] == 5
    deployments = of_kind(documents, "Deployment")
    assert scaler["spec"]["scaleTargetRef"]["name"] in deployments
    for name, user in (("streamer-worker", "streamer-worker"), ("streamer-page", "streamer-viewer")):
        pod = deployments[name]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert container["image"] == "here/streamer:1"
        given = {one["name"]: one.get("value") for one in container["env"]}
        assert given["STREAMER_SASL_USERNAME"] == user
        assert user in of_kind(documents, "KafkaUser")
        assert {"name": "kafka", "secret": {"secretName": user}} in pod["volumes"]
        assert not [one for one in given if "PASSWORD" in one and not one.endswith("_FILE")]


@pytest.mark.parametrize("namespace", ["Team_A", "9teams", "team.a", "t" * 42])
def test_a_namespace_that_kubernetes_cannot_write_is_refused(namespace: str) -> None:
    done = streamer("schema", "--format", "strimzi", environment={"STREAMER_NAMESPACE": namespace})
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"namespace '{namespace}' gives the name".encode() in done.stderr


@pytest.mark.parametrize("namespace", ["", "Team-A"])
def test_the_page_answers_by_the_name_of_its_service_and_by_those_that_were_given(namespace: str) -> None:
    documents = made("--host-name", "boards.example", STREAMER_NAMESPACE=namespace)
    [service] = of_kind(documents, "Service")
    [container] = of_kind(documents, "Deployment")[service]["spec"]["template"]["spec"]["containers"]
    given = serve_command.make_context("serve", container["args"][2:], resilient_parsing=True)
    names = given.params["host_names"]
    for name, status in ((service, 404), ("boards.example", 404), ("evil.example", 421)):
        assert asked(names, f"{name}:8720") == status


def test_the_page_of_compose_answers_by_the_name_of_its_service() -> None:
    page = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["page"]
    given = serve_command.make_context("serve", page["command"][2:], resilient_parsing=True)
    assert [asked(given.params["host_names"], host) for host in ("page:8720", "evil:8720")] == [404, 421]


def asked(host_names: tuple[str, ...], host: str) -> int:
    """What a server that is called by these names answers to a request for another path than it has."""
    with TestClient(RequestChecks(Starlette(), "token", None, host_names)) as client:
        return client.get("/none", headers={"Host": host}).status_code


def test_pods_fit_the_restricted_standard_of_kubernetes() -> None:
    for name, deployment in of_kind(made(), "Deployment").items():
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in pod["containers"]:
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["allowPrivilegeEscalation"] is False


VALIDATE = """
import json, sys
import kubernetes_validate
for document in json.load(open(sys.argv[1])):
    kubernetes_validate.validate(document, "1.37", strict=True)
    spoiled = document | {"spec": document["spec"] | {"unheardOf": 1}}
    try:
        kubernetes_validate.validate(spoiled, "1.37", strict=True)
    except kubernetes_validate.ValidationError:
        print(document["kind"])
"""


@pytest.mark.peer
def test_kubernetes_takes_workers_page_and_autoscaling(tmp_path: Path) -> None:
    own = [one for one in made(STREAMER_NAMESPACE="Team-A") if not one["apiVersion"].startswith("kafka")]
    (tmp_path / "own.json").write_text(json.dumps(own))
    environment = peer_environment(KUBERNETES, with_base=False)
    done = run_in_peer(environment, "python", "-c", VALIDATE, "own.json", cwd=tmp_path)
    kinds = ["Deployment", "HorizontalPodAutoscaler", "Deployment", "Service"]
    assert done.stdout.split() == kinds == [one["kind"] for one in own]
