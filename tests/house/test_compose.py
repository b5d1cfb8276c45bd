"""docker-compose.yml and Dockerfile: what can be known about them without starting anything."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.terminal.local import URLS
from tests.house.repository import ROOT
from tests.support.cli import COMMAND
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for

FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
OURS = {"worker", "page", "notify"}
EXACT_VERSION = re.compile(r"[^:@]+:\d+\.\d+\.\d+(-[a-z0-9.]+)*")


def test_the_compose_file_is_valid_by_the_specification() -> None:
    """The Compose Specification's own JSON Schema (Apache-2.0), unchanged but compressed."""
    packed = (ROOT / "tests" / "house" / "compose-spec.json.gz").read_bytes()
    validator = Draft7Validator(json.loads(gzip.decompress(packed)))
    assert [error.message for error in validator.iter_errors(COMPOSE)] == []
    assert not validator.is_valid({"services": {"worker": {"imaeg": "x"}}})


def test_docker_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip(
            "SKIPPED LOUDLY: no `docker compose` here, so docker-compose.yml was checked against the "
            "specification's schema only, and neither it nor the Dockerfile was built or started"
        )
    command = [docker, "compose", "--file", str(FILE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_or_built_here_says_when_it_is_healthy_and_is_open_to_this_machine_only(
    name: str,
) -> None:
    """No registry is asked for our services, and their environment is understood."""
    service = SERVICES[name]
    assert EXACT_VERSION.fullmatch(service["image"])
    built = (".", "never") if name in OURS else (None, None)
    assert (service.get("build"), service.get("pull_policy")) == built
    known = {f"STREAMER_{name.upper()}" for name in Settings.model_fields} | {"STREAMER_WEB_TOKEN", URLS}
    assert name not in OURS or service["environment"].keys() <= known
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries"} <= set(service["healthcheck"])
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_broker_and_store_have_volumes_and_a_worker_that_can_be_scaled_waits_for_them() -> None:
    assert set(SERVICES) == {"kafka", "redis"} | OURS
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {"notify"}
    for name in ("kafka", "redis"):
        mounted = {volume.split(":")[0] for volume in SERVICES[name]["volumes"]}
        assert mounted & set(COMPOSE["volumes"]) == mounted != set()
    worker = SERVICES["worker"]
    assert not {"container_name", "ports", "hostname", "volumes"} & set(worker)
    assert worker["depends_on"] == {n: {"condition": "service_healthy"} for n in ("kafka", "redis")}


def test_the_page_starts_as_it_stands_there_and_its_health_is_looked_at(
    session_redis: RedisServer, embedded_broker: str, tmp_path: Path
) -> None:
    port = str(free_port())
    environment = {**os.environ, "STREAMER_REDIS": session_redis.url, "STREAMER_BOOTSTRAP": embedded_broker}
    [token] = re.findall(r":-(.+)}", SERVICES["page"]["environment"]["STREAMER_WEB_TOKEN"])
    environment["STREAMER_WEB_TOKEN"] = token
    program, *arguments = (word.replace("8720", port) for word in SERVICES["page"]["command"])
    check = [word.replace("8720", port) for word in SERVICES["page"]["healthcheck"]["test"]]
    assert (program, check[:3]) == ("streamer", ["CMD", "python", "-c"])

    def healthy(**changed: str) -> bool:
        command = [sys.executable, "-c", check[3]]
        return subprocess.run(command, env=environment | changed, capture_output=True).returncode == 0

    with subprocess.Popen([*COMMAND, *arguments], env=environment, cwd=tmp_path) as page:
        try:
            wait_for(healthy, "the page is healthy")
            assert not healthy(STREAMER_WEB_TOKEN="another")
        finally:
            page.terminate()


def test_outside_the_containers_the_defaults_of_the_settings_reach_broker_and_store() -> None:
    bootstrap, redis = (Settings.model_fields[name].default for name in ("bootstrap", "redis"))
    assert f"{bootstrap.split(':')[-1]}:9092" in SERVICES["kafka"]["ports"][0]
    assert "6379" in redis
    assert f"OUTSIDE://{bootstrap}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_the_broker_is_the_version_that_the_tests_run() -> None:
    pom = (ROOT / "tests" / "support" / "kafka" / "pom.xml").read_text(encoding="utf-8")
    [version] = re.findall(r"<kafka\.version>(.+?)</kafka\.version>", pom)
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version}"


def test_the_image_is_pinned_and_runs_the_worker_and_not_as_root() -> None:
    bases = [base for base in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) if base != "scratch"]
    assert bases
    assert all(map(EXACT_VERSION.fullmatch, bases))
    *_, user = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert user.split(":")[0] not in {"0", "root"}
    assert DOCKERFILE.rindex("USER ") > DOCKERFILE.rindex("FROM ")
    assert DOCKERFILE.rstrip().endswith('CMD ["streamer", "worker"]')


def test_what_the_dockerfile_copies_passes_the_dockerignore() -> None:
    allowed = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)).split()
    assert copied
    assert set(copied) <= set(allowed)
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_installs_a_wheel_that_a_release_can_give() -> None:
    """`--build-context wheel=dist` takes the place of the stage of that name."""
    assert re.search(r"^FROM scratch AS wheel$", DOCKERFILE, re.MULTILINE)
    assert re.search(r"^COPY --from=wheel /\*\.whl ", DOCKERFILE, re.MULTILINE)
    [build] = [step["run"] for step in RELEASE["image"]["steps"] if "buildx" in step.get("run", "")]
    assert "--build-context wheel=dist" in build
    assert "WHEEL_SHA256" in build
    assert re.search(r"^ARG WHEEL_SHA256=$", DOCKERFILE, re.MULTILINE)


def test_a_release_publishes_what_was_checked_and_nothing_else() -> None:
    needed = {"build": None, "check": "build", "publish": "check", "image": "publish", "site": "publish"}
    assert {name: job.get("needs") for name, job in RELEASE.items()} == needed
    assert RELEASE["check"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    built = [name for name, job in RELEASE.items() if any("make dist" in str(step) for step in job["steps"])]
    assert built == ["build"]
