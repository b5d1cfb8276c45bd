"""Rights of Kafka users, and a deployment on Kubernetes with Strimzi: topics, users, workers, page.

This is the only declaration of rights. docs/security.md has them as commands; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from streamer.storage.kafka import Names

User = Literal["publisher", "reader", "viewer", "worker", "operator"]

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Right:
    """The rights of a user on topics and consumer groups, named without a namespace."""

    user: User
    operations: tuple[str, ...]
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


USERS: dict[User, str] = {
    "publisher": "harnesses",
    "reader": "dashboards and `streamer subscribe`",
    "viewer": "`streamer notify`, and a `streamer serve` that shows messages, labels and files of trials",
    "worker": "the workers",
    "operator": "people who run `verify`, `status`, `events`, `gate`, `rejections`, `delete`, `archive`, "
    "`restore`",
}

_EVENTS, _REJECTIONS = ("trial-events",), ("trial-rejections",)
_SUMMARIES = ("run-summaries", "run-comparisons", "agent-model-summaries", "tier-summaries")
_NEWS = ("scored-trials", "grade-changes")
_PRIVATE = ("trials-changelog", "streamer-meta")
_GROUP = ("streamer",)

RIGHTS = (
    Right("publisher", ("Describe", "Write"), _EVENTS),
    Right("reader", ("Describe", "Read"), _SUMMARIES + _NEWS),
    Right("viewer", ("Describe", "Read"), _EVENTS + _SUMMARIES + _NEWS),
    Right("worker", ("Create", "Describe", "Read", "Write"), _EVENTS + _SUMMARIES + _PRIVATE),
    Right("worker", ("Create", "Describe", "Write"), _REJECTIONS + _NEWS),
    Right("worker", ("DescribeConfigs",), _EVENTS),
    Right("worker", ("Read",), groups=_GROUP),
    Right("operator", ("Describe", "Read"), _SUMMARIES + _NEWS + _REJECTIONS),
    Right("operator", ("Describe", "DescribeConfigs", "Read", "Write"), _EVENTS),
    Right("operator", ("Describe",), _PRIVATE),
    Right("operator", ("Describe",), groups=_GROUP),
)
"""The rights of every user. `Create` is needed only if no operator creates the topics."""

# -----------------------------------------------------------------------------
# The manifests.


_NAME, _MOST_CHARACTERS = r"[a-z]([-a-z0-9]*[a-z0-9])?", 63


class BadName(Exception):
    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(
            f"namespace {namespace!r} gives the name {name!r}, which Kubernetes does not allow. Use "
            f"letters, digits and -, a letter first, and names of at most {_MOST_CHARACTERS} "
            "characters"
        )


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment on Kubernetes; `namespace` is streamer's prefix of every name ("": the default)."""

    cluster: str
    namespace: str
    image: str
    partitions: int
    replication: int
    host_names: tuple[str, ...] = ()

    def named(self, name: str) -> str:
        """The name of an object, in lower case; raises BadName instead of changing it to a name in use.

        >>> Deployment("kafka", "Team-A", "streamer:1", 8, 3).named("streamer-page")
        'team-a-streamer-page'
        """
        whole = (f"{self.namespace}-{name}" if self.namespace else name).lower()
        if len(whole) > _MOST_CHARACTERS or not re.fullmatch(_NAME, whole):
            raise BadName(self.namespace, whole)
        return whole


STRIMZI = "kafka.strimzi.io/v1"
METRICS_PORT, PAGE_PORT = 9464, 8720
IDS = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
_POD_SECURITY = IDS | {"seccompProfile": {"type": "RuntimeDefault"}}


def manifests(of: Deployment, topics: Iterable[tuple[str, int, Mapping[str, str]]]) -> list[Manifest]:
    """Topics, users, workers with their autoscaling, and the page, in the order to apply them."""
    return [
        *(_topic(of, *topic) for topic in topics),
        *(_user(of, user) for user in USERS),
        _workload(of, "worker", of.named("streamer-worker")),
        _autoscaler(of),
        _workload(of, "viewer", of.named("streamer-page")),
        _service(of),
    ]


def as_yaml(documents: Iterable[Manifest]) -> bytes:
    """The documents as one stream for `kubectl apply -f`; JSON is YAML."""
    return b"".join(b"---\n" + orjson.dumps(one, option=orjson.OPT_INDENT_2) + b"\n" for one in documents)


def _object(version: str, kind: str, name: str, labels: Mapping[str, str], spec: Manifest) -> Manifest:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _topic(of: Deployment, name: str, partitions: int, config: Mapping[str, str]) -> Manifest:
    spec = {"topicName": name, "partitions": partitions, "replicas": of.replication, "config": dict(config)}
    return _object(
        STRIMZI, "KafkaTopic", of.named(name.rpartition(".")[2]), {"strimzi.io/cluster": of.cluster}, spec
    )


def _user(of: Deployment, user: User) -> Manifest:
    spec = {
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"type": "simple", "acls": list(_acls(of, user))},
    }
    name = of.named(f"streamer-{user}")
    return _object(STRIMZI, "KafkaUser", name, {"strimzi.io/cluster": of.cluster}, spec)


def _acls(of: Deployment, user: User) -> Iterator[Manifest]:
    """The rights of a user, without `Create`: Strimzi makes the topics."""
    names = Names(of.namespace)
    for right in RIGHTS:
        if right.user == user:
            operations = [one for one in right.operations if one != "Create"]
            for kind, among in (("topic", right.topics), ("group", right.groups)):
                for name in among:
                    resource = {"type": kind, "name": names.topic(name), "patternType": "literal"}
                    yield {"resource": resource, "operations": operations}


def _probe(port: str, path: str | None, **more: int) -> Manifest:
    """A probe of a path, or only of the port, because every path of the page needs its token."""
    how = {"tcpSocket": {"port": port}} if path is None else {"httpGet": {"port": port, "path": path}}
    return how | {"periodSeconds": 10, "timeoutSeconds": 5} | more


_WORKER_PROBES = {
    "startupProbe": _probe("metrics", "/healthz", failureThreshold=30),
    "livenessProbe": _probe("metrics", "/healthz", failureThreshold=3),
    "readinessProbe": _probe("metrics", "/readyz", failureThreshold=1),
}
"""A worker is ready once it has caught up, so an upgrade waits for each before it stops the next."""


def _workload(of: Deployment, user: User, name: str) -> Manifest:
    is_page = user == "viewer"
    port = PAGE_PORT if is_page else METRICS_PORT
    kafka_user = of.named(f"streamer-{user}")
    redis_user = "reader" if is_page else "worker"
    serve = ["streamer", "serve", "--host", "0.0.0.0", "--port", str(PAGE_PORT)]  # noqa: S104 its Service leads here
    for host_name in (name, *of.host_names):
        serve += ["--host-name", host_name]
    variables = {
        "STREAMER_BOOTSTRAP": f"{of.cluster}-kafka-bootstrap:9093",
        "STREAMER_NAMESPACE": of.namespace,
        "STREAMER_PARTITIONS": str(of.partitions),
        "STREAMER_SECURITY_PROTOCOL": "SASL_SSL",
        "STREAMER_SASL_MECHANISM": "SCRAM-SHA-512",
        "STREAMER_SASL_USERNAME": kafka_user,
        "STREAMER_SASL_PASSWORD_FILE": "/run/secrets/kafka/password",
        "STREAMER_SSL_CAFILE": "/run/secrets/kafka-ca/ca.crt",
        "STREAMER_METRICS_ADDRESS": f"0.0.0.0:{METRICS_PORT}",
        "STREAMER_LOG_FORMAT": "json",
    }
    secrets = {"STREAMER_REDIS": ("redis", redis_user)}
    if is_page:
        secrets |= {"STREAMER_WEB_TOKEN": ("web", "token")}
    container = {
        "name": "streamer",
        "image": of.image,
        "args": serve if is_page else ["streamer", "worker"],
        "env": [
            *({"name": key, "value": value} for key, value in variables.items()),
            *(_secret_variable(of, key, *where) for key, where in secrets.items()),
        ],
        "ports": [{"name": "page" if is_page else "metrics", "containerPort": port}],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "kafka", "mountPath": "/run/secrets/kafka", "readOnly": True},
            {"name": "kafka-ca", "mountPath": "/run/secrets/kafka-ca", "readOnly": True},
        ],
        **({"readinessProbe": _probe("page", None)} if is_page else _WORKER_PROBES),
    }
    pod = {
        "securityContext": _POD_SECURITY,
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
        "volumes": [
            {"name": "kafka", "secret": {"secretName": kafka_user}},
            {"name": "kafka-ca", "secret": {"secretName": f"{of.cluster}-cluster-ca-cert"}},
        ],
    }
    labels = {"app.kubernetes.io/name": name}
    spec = {
        **({"replicas": 1} if is_page else {}),  # the autoscaler says how many workers there are
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", name, labels, spec)


def _secret_variable(of: Deployment, variable: str, secret: str, key: str) -> Manifest:
    reference = {"name": of.named(f"streamer-{secret}"), "key": key}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def _autoscaler(of: Deployment) -> Manifest:
    """An autoscaler. It removes workers only after ten quiet minutes, since each change moves partitions."""
    name = of.named("streamer-worker")
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": min(2, of.partitions),
        "maxReplicas": of.partitions,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
    }
    return _object("autoscaling/v2", "HorizontalPodAutoscaler", name, {"app.kubernetes.io/name": name}, spec)


def _service(of: Deployment) -> Manifest:
    name = of.named("streamer-page")
    labels = {"app.kubernetes.io/name": name}
    spec = {"selector": labels, "ports": [{"name": "page", "port": PAGE_PORT, "targetPort": "page"}]}
    return _object("v1", "Service", name, labels, spec)
