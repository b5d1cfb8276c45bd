"""action.yml, docker-compose.yml, Dockerfile and the workflows: valid, safe, and as good as what is tested.

The steps of the action run here as a runner runs them, on real results.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from jsonschema import Draft7Validator

from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.terminal.local import URLS
from tests.house.repository import ROOT, tracked_files
from tests.support.cli import COMMAND
from tests.support.data import shared_data
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, JUDGE = ACTION["runs"]["steps"]
GUIDE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
WORKFLOW: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[0])
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
OURS = {"worker", "page", "notify"}
EXACT_VERSION = re.compile(r"[^:@]+:\d+\.\d+\.\d+(-[a-z0-9.]+)*")
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""How a runner runs `shell: bash`."""

INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


def schema(name: str) -> Draft7Validator:
    """A JSON Schema of SchemaStore or of the Compose Specification (Apache-2.0), unchanged but compressed."""
    packed = (ROOT / "tests" / "house" / f"{name}.json.gz").read_bytes()
    return Draft7Validator(json.loads(gzip.decompress(packed)))


class Done(NamedTuple):
    code: int
    log: str
    summary: str
    outputs: dict[str, str]


def run(step: dict[str, Any], folder: Path, path: Path = ROOT, **inputs: str) -> Done:
    """Run one step as a runner does: its script in bash, its inputs in the environment alone."""
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    values = {name: given.pop(name, str(of.get("default", ""))) for name, of in ACTION["inputs"].items()}
    assert not given, f"no such input: {given}"
    environment = {name: INPUT.sub(lambda m: values[m[1]], text) for name, text in step["env"].items()}
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.touch()
    runner = {"RUNNER_TEMP": folder, "GITHUB_ACTION_PATH": path, **files}
    done = subprocess.run(
        [*SHELL, step["run"]],
        cwd=folder,
        env=dict(os.environ) | environment | {name: str(value) for name, value in runner.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    return Done(done.returncode, done.stdout.decode(), summary, outputs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The runner's folder, with this installation in place of the one that the first step makes."""
    programs = tmp_path / "streamer-venv" / "bin"
    programs.parent.mkdir()
    programs.symlink_to(Path(sys.executable).parent)
    return tmp_path


@pytest.fixture(scope="module")
def runs() -> tuple[Path, Path]:
    result = shared_data() / "terminal_bench" / "runs"
    return result / "20250924_droid_gpt-5", result / "20250902_orchestrator_qwen-3-coder-480B"


def test_action_workflows_and_compose_file_are_valid_by_their_schemas() -> None:
    own = [path for path in tracked_files() if path.parent == ROOT / ".github" / "workflows"]
    assert own
    workflows = [WORKFLOW, *(yaml.safe_load(path.read_text("utf-8")) for path in own)]
    ours: dict[str, list[Any]] = {"action": [ACTION], "workflow": workflows}
    for name, documents in ours.items():
        for given in documents:
            document = {("on" if key is True else key): value for key, value in given.items()}
            assert [error.message for error in schema(f"github-{name}").iter_errors(document)] == []
            assert not schema(f"github-{name}").is_valid({**document, "runs": {}, "jobs": {}})
    assert [error.message for error in schema("compose-spec").iter_errors(COMPOSE)] == []
    assert not schema("compose-spec").is_valid({"services": {"worker": {"imaeg": "x"}}})


def test_no_input_is_ever_part_of_a_script() -> None:
    used = set[str]()
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        used.update(name for text in step["env"].values() for name in INPUT.findall(text))
    assert used == set(ACTION["inputs"])


def test_the_example_workflow_gives_inputs_that_there_are() -> None:
    [job] = WORKFLOW["jobs"].values()
    [step] = [step for step in job["steps"] if "trialstream" in step.get("uses", "")]
    assert set(step["with"]) <= set(ACTION["inputs"])
    used = re.findall(r"steps\.gate\.outputs\.([a-z-]+)", json.dumps(job))
    assert used
    assert set(used) <= set(ACTION["outputs"])


@pytest.mark.parametrize(
    ("mode", "better", "code", "verdict", "shown"),
    [
        ("gate", True, 0, "pass", ["Gate: pass", "| candidate | <code>"]),
        ("gate", False, 1, "fail", ["Gate: fail", "| candidate | <code>"]),
        ("compare", True, 0, "pass", ["80 tasks in common", "B is better than A"]),
    ],
)
def test_two_result_directories_are_judged(
    folder: Path, runs: tuple[Path, Path], mode: str, better: bool, code: int, verdict: str, shown: list[str]
) -> None:
    candidate, baseline = runs if better else runs[::-1]
    done = run(JUDGE, folder, candidate=str(candidate), baseline=str(baseline), mode=mode)
    assert (done.code, done.outputs["verdict"], done.outputs["exit-code"]) == (code, verdict, str(code))
    assert [part for part in shown if part not in done.summary] == []
    if mode == "gate":
        assert done.summary == Path(done.outputs["markdown"]).read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["gate", "compare"])
def test_unreadable_results_leave_no_verdict(folder: Path, runs: tuple[Path, Path], mode: str) -> None:
    candidate = shutil.copytree(runs[0], folder / "candidate")
    min(candidate.glob("*/*/*/results.json")).write_text("{")
    done = run(JUDGE, folder, candidate=str(candidate), baseline=str(runs[1]), mode=mode)
    assert (done.code, done.outputs["verdict"], done.outputs["exit-code"]) == (3, "undecided", "3")
    assert "candidate: something in " in done.log
    assert "Undecided: some results could not be read." in done.log
    assert done.summary == "No verdict: the log of this step says why.\n"


def test_files_of_events_agents_and_a_target_do_as_well(folder: Path, runs: tuple[Path, Path]) -> None:
    events = folder / "events.ndjson"
    streamer = Path(sys.executable).parent / "streamer"
    events.write_bytes(subprocess.run([streamer, "convert", runs[0]], capture_output=True).stdout)
    agent = "Factory Droid:unknown"
    done = run(JUDGE, folder, candidate=str(events), candidate_agent=agent, target="0.55")
    assert (done.code, done.outputs["verdict"]) == (0, "pass")
    assert "target: pass" in done.log


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"candidate": "nowhere", "baseline": "nowhere", "mode": "gate"}, "no Kafka broker answers"),
        ({"candidate": ".", "mode": "jury"}, "it must be gate or compare"),
        ({"candidate": ".", "mode": "compare"}, "compare needs a baseline"),
        ({"candidate": "empty", "baseline": "empty"}, "no run of a known harness found"),
        ({"candidate": "$(touch pwned)", "baseline": "; touch pwned"}, "no Kafka broker answers"),
    ],
)
def test_what_cannot_be_judged_is_undecided_and_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, inputs: dict[str, str], said: str
) -> None:
    monkeypatch.setenv("STREAMER_BOOTSTRAP", "127.0.0.1:1")
    (folder / "empty").mkdir()
    done = run(JUDGE, folder, ROOT, **inputs)
    assert done.code in (2, 3)
    assert done.outputs["verdict"] == "undecided"
    assert said in done.log
    assert done.summary == "No verdict: the log of this step says why.\n"
    assert not (folder / "pwned").exists()


def test_nothing_in_results_is_a_command_to_the_runner(folder: Path) -> None:
    trial = a_trial(run_id="::error::pwned", agent="::set-output")
    events = folder / "events.ndjson"
    events.write_text(json.dumps(trial) + "\n::error::not json\n")
    done = run(JUDGE, folder, candidate=str(events), target="1")
    first, *_, last = done.log.splitlines()
    token = first.removeprefix("::stop-commands::")
    assert first != token
    assert (last, len(token) > 32) == (f"::{token}::", True)


@pytest.mark.stack
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.in_turn(3)
def test_the_action_installs_itself_from_its_checkout(tmp_path: Path, runs: tuple[Path, Path]) -> None:
    checkout = tmp_path / "checkout"
    for path in tracked_files():
        copy = checkout / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    installed = run(INSTALL, tmp_path, checkout, python=sys.executable)
    assert installed.code == 0, installed.log
    done = run(JUDGE, tmp_path, checkout, candidate=str(runs[0]), baseline=str(runs[1]))
    assert (done.code, done.outputs["verdict"]) == (0, "pass"), done.log


# docker-compose.yml and Dockerfile: what can be known about them without starting anything.
def test_docker_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip(
            "SKIPPED LOUDLY: no `docker compose` here, so docker-compose.yml was checked against the "
            "specification's schema only, and neither it nor the Dockerfile was built or started"
        )
    command = [docker, "compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_healthy_and_open_to_this_machine_only(name: str) -> None:
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
