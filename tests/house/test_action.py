"""action.yml: valid by its schema, and its steps run here as a runner runs them, on real results."""

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

from tests.house.repository import ROOT, tracked_files
from tests.support.data import shared_data
from tests.support.events import a_trial

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, JUDGE = ACTION["runs"]["steps"]
GUIDE = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
WORKFLOW: dict[str, Any] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[0])
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""How a runner runs `shell: bash`."""

INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
SECONDS = 300


def schema(name: str) -> Draft7Validator:
    """A JSON Schema of SchemaStore (Apache-2.0), unchanged but compressed."""
    packed = (ROOT / "tests" / "house" / f"github-{name}.json.gz").read_bytes()
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
        timeout=SECONDS,
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


def test_the_action_and_the_example_workflow_are_valid_by_their_schemas() -> None:
    own = [path for path in tracked_files() if path.parent == ROOT / ".github" / "workflows"]
    nightly = [("workflow", yaml.safe_load(path.read_text("utf-8"))) for path in own]
    assert nightly
    for name, document in (("action", ACTION), ("workflow", WORKFLOW), *nightly):
        document = {("on" if key is True else key): value for key, value in document.items()}
        assert [error.message for error in schema(name).iter_errors(document)] == []
        assert not schema(name).is_valid({**document, "runs": {}, "jobs": {}})


def test_no_input_is_ever_part_of_a_script() -> None:
    used = set()
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
def test_results_that_cannot_be_read_leave_no_verdict(
    folder: Path, runs: tuple[Path, Path], mode: str
) -> None:
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
    done = run(JUDGE, folder, **inputs)
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
