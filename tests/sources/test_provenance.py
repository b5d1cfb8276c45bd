"""What connectors say that runs were made with (R36), and which recorded and public runs may be compared."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import combinations_with_replacement
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from benchmarks.verdicts import refused_pairs
from streamer import hooks
from streamer.sources.base import made_with
from streamer.sources.inspect import started_event
from streamer.terminal import cli
from tests.sources.builders import converted, unpacked
from tests.support.data import shared_data
from tests.support.events import Event

HERE = Path(__file__).parent
DATA = shared_data()
SCYLLA = DATA / "scylla" / "dryrun" / "2026-01-20T06-13-07-test-001"
PUBLIC = [
    DATA / "terminal_bench" / "runs" / name
    for name in ("20250902_orchestrator_qwen-3-coder-480B", "20250924_droid_gpt-5")
]
JOB = {
    "task_digest": "620e939e32d076472d7ad0759bb2c1237b2155d00caf586bee69a8c1c1894b57",
    "agent_version": "1.2",
}

RELEASES = {
    "harbor 0.1.28": ("harbor/jobs-0.1.28.tar.gz", "coins"),
    "harbor 0.25.0": ("harbor/jobs.tar.gz", "coins"),
    "harbor 0.26.0": ("harbor/jobs-0.26.0.tar.gz", "coins"),
    "inspect 0.3.58": ("inspect/logs-0.3.58.tar.gz", "0.3.58"),
    "inspect 0.3.183": ("inspect/logs-0.3.183.tar.gz", "0.3.183"),
    "inspect 0.3.285": ("inspect/logs.tar.gz", "finished"),
    "swe_bench 4.1.0": ("swe_bench/runs-4.1.0.tar.gz", ""),
    "swe_bench": ("swe_bench/runs.tar.gz", ""),
    "every_eval_ever": ("every_eval_ever/evaluations.tar.gz", "data/with-tools"),
}
"""The same job as the releases of each harness recorded it."""


def recorded(release: str, folder: Path) -> list[Event]:
    archive, inside = RELEASES[release]
    return converted(unpacked(HERE / archive, folder) / inside)[0]


def compared(folder: Path, a: list[Event], b: list[Event], *options: str) -> tuple[str, str]:
    """What `compare` and `gate` say of two runs; the second one has another name."""
    for name, events in (("a", a), ("b", b)):
        lines = (orjson.dumps(event | {"run_id": f"{name} {event['run_id']}"}) for event in events)
        (folder / f"{name}.ndjson").write_bytes(b"\n".join(lines))
    files = [str(folder / f"{name}.ndjson") for name in "ab"]
    agents = [
        event for event in a if event["type"] == "trial_result" and event["agent"] not in ("nop", "oracle")
    ]
    label = f"{agents[0]['agent']}:{agents[0]['model']}"
    compare = ["compare", "--files", *files, "--a-agent", label, "--b-agent", label]
    gate = ["gate", f"{files[0]}/{label}", "--against", f"{files[1]}/{label}"]
    said = [CliRunner().invoke(cli, [*command, *options]) for command in (compare, gate)]
    assert all("internal error" not in one.output and one.exit_code != 2 for one in said), said
    return said[0].output, said[1].output


def provenance(events: list[Event], kind: str) -> list[dict[str, str]]:
    every = [event.get("provenance", {}) for event in events if event["type"] == kind]
    return [json.loads(text) for text in dict.fromkeys(json.dumps(one, sort_keys=True) for one in every)]


SAME = [
    pair
    for harness in ("harbor", "inspect", "swe_bench", "every_eval_ever")
    for pair in combinations_with_replacement([name for name in RELEASES if name.split()[0] == harness], 2)
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_job_recorded_twice_compares_without_allow(one: str, other: str, tmp_path: Path) -> None:
    sides = []
    for side, release in (("one", one), ("other", other)):
        (tmp_path / side).mkdir()
        sides.append(recorded(release, tmp_path / side))
    for said in compared(tmp_path, *sides):
        assert "not comparable:" not in said
        assert "left out" not in said


@pytest.mark.parametrize("path", [SCYLLA, *PUBLIC], ids=lambda path: path.name)
def test_the_same_directory_twice_compares_without_allow(path: Path, tmp_path: Path) -> None:
    events, _ = converted(path)
    for said in compared(tmp_path, events, events):
        assert "not comparable:" not in said
        assert "known of A alone" not in said
        assert "known of B alone" not in said


def test_two_harbor_jobs_with_another_timeout_and_other_tasks_are_told_apart(tmp_path: Path) -> None:
    a = recorded("harbor 0.26.0", tmp_path / "a")
    other = tmp_path / "b" / "coins"
    shutil.copytree(tmp_path / "a" / "coins", other)
    results = sorted(other.glob("coin-1__*/result.json"))
    assert len(results) > 2

    def edit(file: Path, **fields: Any) -> None:
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    for result in results:
        edit(result, task_checksum="f" * 64)
    for said in compared(tmp_path, a, converted(other)[0]):
        assert "task_digest differs in 1 of 5 common tasks: coin-1" in said
    edit(other / "config.json", timeout_multiplier=2.0)
    for file in other.glob("*/result.json"):
        edit(file, config=json.loads(file.read_text())["config"] | {"timeout_multiplier": 2.0})
    doubled = converted(other)[0]
    [run] = provenance(doubled, "run_started")
    assert run["timeout_multiplier"] == "2.0"
    assert not any("timeout_multiplier" in one for one in provenance(doubled, "trial_result"))
    for said in compared(tmp_path, a, doubled):
        assert "not comparable: timeout_multiplier" in said
        assert "--allow timeout_multiplier" in said
    for said in compared(tmp_path, a, doubled, "--allow", "timeout_multiplier"):
        assert "not comparable:" not in said


def test_harbor_says_which_errors_the_job_makes_count_otherwise(tmp_path: Path) -> None:
    """Harbor 0.26 leaves the rewards of such trials out of its means."""
    a = recorded("harbor 0.26.0", tmp_path / "a")
    other = tmp_path / "b" / "coins"
    shutil.copytree(tmp_path / "a" / "coins", other)
    policy = {"AgentTimeoutError": {"should_retry": None, "should_grade": None, "has_valid_reward": False}}
    for file in other.glob("*/result.json"):
        result = json.loads(file.read_text())
        result["config"]["override_error_policy"] = policy
        file.write_text(json.dumps(result))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"override_error_policy": policy}))
    events = converted(other)[0]
    [run] = provenance(events, "run_started")
    assert run["error_policy"] == "AgentTimeoutError=has_valid_reward=False"
    assert not any("error_policy" in one for one in provenance(events, "trial_result"))
    assert any("alone: error_policy" in said for said in compared(tmp_path, a, events))


def test_harbor_says_of_a_trial_what_differs_from_its_job(tmp_path: Path) -> None:
    events = recorded("harbor 0.26.0", tmp_path)
    assert provenance(events, "run_started") == [
        {
            "concurrency": "4",
            "harness_version": "0.26.0",
            "resources": "as the task says",
            "timeout_multiplier": "1.0",
        }
    ]
    of_agents = {event["agent"]: event["provenance"] for event in events if event["type"] == "trial_result"}
    assert of_agents["scripted"] == JOB | {"timeout": "agent=0.5"}
    assert of_agents["nop"] == JOB | {"agent_version": "1.0.0", "timeout": "as the task says"}


def test_inspect_says_limits_judge_packages_and_how_answers_were_generated() -> None:
    spec = {
        "task": "t",
        "task_version": "1-A",
        "model": "openai/gpt-5",
        "dataset": {"name": "openai/gsm8k"},
        "config": {"message_limit": 50, "time_limit": 600, "max_samples": 8, "token_limit": None},
        "packages": {"inspect_ai": "0.3.285", "inspect_evals": "0.3.1"},
        "model_generate_config": {"temperature": 0.0, "seed": 7, "system_message": "a secret"},
        "model_args": {"api_key": "sk-proj-4f9a8b7c6d5e4f3a2b1c"},
        "model_roles": {"grader": {"model": "anthropic/claude-opus-4-5"}},
        "sandbox": {"type": "docker", "config": "/elsewhere/compose.yaml"},
    }
    assert started_event(spec, {})["provenance"] == {
        "dataset": "openai/gsm8k",
        "dataset_version": "1-A",
        "harness_version": "0.3.285",
        "packages": "inspect_evals=0.3.1",
        "limits": "message=50,time=600",
        "judge": "anthropic/claude-opus-4-5",
        "environment": "docker",
        "concurrency": "8",
        "temperature": "0.0",
        "seed": "7",
    }


@pytest.mark.parametrize(
    ("config", "limits"),
    [
        pytest.param({"max_messages": 30}, "message=30", id="until October 2024"),
        pytest.param({"turn_limit": 9}, "turn=9", id="turns"),
        pytest.param(
            {"token_limit": 1000, "token_limit_type": "output"},
            "token=1000,token_type=output",
            id="output only",
        ),
        pytest.param({"token_limit": 1000, "token_limit_type": "all"}, "token=1000", id="as if unset"),
        pytest.param({"token_limit": None, "token_limit_type": None}, "none", id="none"),
    ],
)
def test_the_limits_of_inspect_are_those_of_every_release(config: Event, limits: str) -> None:
    assert started_event({"task": "t", "config": config}, {})["provenance"] == {"limits": limits}


@pytest.mark.parametrize("role", [{"model": "a"}, [{"model": "a"}], [{"model": "a"}, {"model": "b"}, 7]])
def test_the_judges_of_inspect_are_all_models_of_its_roles(role: Any) -> None:
    """Versions after 0.3.260 allow several models for one role."""
    made = started_event({"task": "t", "model_roles": {"grader": role}}, {})["provenance"]
    assert made == {"judge": "a,b" if len(role) == 3 else "a"}


def test_the_hook_takes_every_limit_and_role_of_inspect(monkeypatch: pytest.MonkeyPatch) -> None:
    """inspect_ai, which the hook imports, is not installed here."""
    names = ("RunEnd", "SampleEnd", "SampleStart", "TaskEnd", "TaskStart")
    module = SimpleNamespace(
        Hooks=object, hooks=lambda **_: lambda hook: hook, **dict.fromkeys(names, object)
    )
    monkeypatch.setitem(sys.modules, "inspect_ai", module)
    monkeypatch.setitem(sys.modules, "inspect_ai.hooks", module)
    hook = run_path(str(Path(hooks.__file__).with_name("inspect.py")))
    taken = hook["SPEC"]["config"]
    limits = {f"{of}_limit" for of in ("message", "token", "turn", "time", "working", "cost")}
    assert limits | {"token_limit_type"} == {name for name in taken if "_limit" in name}
    one, other = (SimpleNamespace(model=name, args={"api_key": "a secret"}) for name in ("a", "b"))
    roles = hook["_roles"](SimpleNamespace(model_roles={"grader": one, "red": [one, other]}))
    assert roles == {"model_roles": {"grader": [{"model": "a"}], "red": [{"model": "a"}, {"model": "b"}]}}
    assert hook["_roles"](SimpleNamespace()) == {"model_roles": {}}


def test_others_say_what_their_files_have(tmp_path: Path) -> None:
    orchestrator, droid = (provenance(converted(path)[0], "run_started") for path in PUBLIC)
    core = {"dataset": "terminal-bench-core", "dataset_version": "0.1.1", "timeout": "as the task says"}
    assert orchestrator == [core | {"concurrency": "25", "harness_version": "0.2.7"}]
    assert droid == [core | {"concurrency": "2", "harness_version": "0.2.17", "timeout_multiplier": "1.0"}]
    assert provenance(converted(SCYLLA)[0], "run_started") == [
        {
            "dataset": "https://github.com/mvillmow/Hello-World",
            "dataset_version": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
            "timeout": "300",
            "limits": "turns=none",
            "judge": "claude-opus-4-5-20251101,claude-sonnet-4-5-20250929,claude-haiku-4-5",
            "concurrency": "6",
        }
    ]
    for release, expected in {
        "swe_bench": {"dataset": "SWE-bench/SWE-bench_Verified", "split": "test"},
        "every_eval_ever": {
            "dataset": "with-tools",
            "harness_version": "inspect inspect_ai:0.3.285",
            "platform": "openai",
        },
    }.items():
        assert provenance(recorded(release, tmp_path / release), "run_started") == [expected]


def test_provenance_has_no_secret_and_is_cut() -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    made = made_with(
        {"dataset": f"https://me:{token}@example.org/x", "packages": {"a": "1" * 300}, "seed": ""}
    )
    assert made is not None
    assert token not in str(made)
    cut = made_with({"dataset": "x" * 240 + f" {token}"})
    assert cut is not None
    assert token[:8] not in cut["dataset"]
    assert (len(made["packages"]), "seed" in made) == (256, False)
    for path in ("/srv/me/tasks", "~/tasks", "./tasks", "../tasks", "file:///tasks", "C:\\me\\tasks"):
        assert made_with({"dataset": path, "judge": [path]}) is None
    assert made_with({"dataset": "openai/gsm8k"}) == {"dataset": "openai/gsm8k"}


# -----------------------------------------------------------------------------
# The public runs of Terminal-Bench: which pairs are refused, and why.


def test_no_pair_of_the_public_runs_is_refused(tmp_path: Path) -> None:
    """All are of one version of the dataset, and none of their files says anything else that forbids it."""
    pairs = list(refused_pairs(tmp_path, runs=4))
    assert len(pairs) == 6
    assert {name for _, _, refused in pairs for name in refused} == set()


def test_the_two_public_runs_with_a_lock_are_comparable(tmp_path: Path) -> None:
    """Of one dataset version; the older lock has no timeout multiplier yet, which is said."""
    for name, path in zip("ab", PUBLIC, strict=True):
        (tmp_path / f"{name}.ndjson").write_bytes(b"\n".join(map(orjson.dumps, converted(path)[0])))
    done = CliRunner().invoke(
        cli, ["compare", "--files", *(str(tmp_path / f"{name}.ndjson") for name in "ab"), "--json"]
    )
    answer = json.loads(done.stdout)
    assert [name for name in answer["refused"] if name != "tasks"] == []
    assert "known of B alone: timeout_multiplier" in answer["words"]
    assert "harness_version 0.2.7 against 0.2.17" in answer["words"]
