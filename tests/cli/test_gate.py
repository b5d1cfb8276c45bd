"""`streamer gate`: an exit code that CI can rest on, of files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.aggregate.matched import the_plan, trial
from tests.cli.gating import on_verdict, run_of, written
from tests.house.repository import ROOT
from tests.support.cli import COMMAND, DEADLINE_SECONDS, streamer
from tests.support.events import a_trial


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Of twenty tasks, eighteen are passed."""
    return written(tmp_path, "base", run_of("s", "b", 18))


@pytest.mark.parametrize(
    ("passed", "of", "options", "code", "said"),
    [
        (18, 20, [], 0, "PASS: pass_rate at most 2 points worse than"),
        (17, 20, [], 1, "FAIL: "),
        (17, 20, ["--max-drop", "0.05"], 0, "PASS: "),
        (17, 20, ["--question", "ability"], 3, "UNDECIDED: "),
        (0, 20, ["--question", "ability"], 1, "FAIL: "),
        (4, 5, [], 3, "5 of 20 pairs"),
        (0, 8, [], 1, "95 %, however often you look"),
        (18, 20, ["--target", "0.9"], 0, "target: pass"),
        (18, 20, ["--target", "0.95"], 1, "target: fail"),
        (18, 20, ["--metric", "cost_usd", "--max-drop", "0.3"], 1, "cost_usd"),
        (18, 20, ["--metric", "metrics/reward", "--max-drop", "0.1"], 0, "metrics/reward"),
    ],
)
def test_the_exit_code_is_the_verdict_on_files(
    tmp_path: Path, passed: int, of: int, options: list[str], code: int, said: str
) -> None:
    base = written(tmp_path, "base", run_of("s", "b", 18, cost_usd=1.0, metrics={"reward": 0.5}))
    mine = written(tmp_path, "mine", run_of("r", "a", passed, of, cost_usd=1.5, metrics={"reward": 0.45}))
    done = streamer("gate", mine, "--against", base, *options)
    assert (done.returncode, done.stderr) == (code, b"")
    assert said in done.stdout.decode()


def test_both_questions_are_answered_whichever_decides(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    for question in ("final", "ability"):
        done = streamer("gate", mine, "--against", baseline, "--question", question)
        text = done.stdout.decode()
        assert "\n  final: " in text
        assert "\n  ability: " in text


def test_json_is_one_canonical_line_and_markdown_a_comment(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 0, 8, cost_usd=0.25))
    done = streamer("gate", mine, "--against", baseline, "--json", "--markdown", tmp_path / "comment.md")
    [line] = done.stdout.splitlines()
    found = json.loads(line)
    assert (done.returncode, found["type"], found["verdict"]) == (1, "gate_verdict", "fail")
    assert found["candidate"] | {"source": "mine"} == {
        "source": "mine",
        "run_id": "r",
        "agent_model": "a:m",
        "planned": 20,
        "known": 8,
        "passed": 0,
        "over": True,
    }
    assert (tmp_path / "comment.md").read_text().startswith("### ❌ Gate: fail\n")


def test_an_agent_or_a_run_of_a_file_is_named_behind_a_slash(tmp_path: Path) -> None:
    events = [*run_of("r", "a", 18), *run_of("r", "b", 10)[1:], *run_of("s/x", "b", 18)]
    file = written(tmp_path, "events", events)
    for candidate, against, code in (
        ("r/a:m", "r/b:m", 0),
        ("r/b:m", "r/a:m", 1),
        ("r/a:m", "s/x", 0),
        ("s/x/b:m", "r/a:m", 0),
    ):
        done = streamer("gate", file / candidate, "--against", file / against)
        assert (done.returncode, done.stderr) == (code, b"")


def test_two_agents_of_a_run_in_a_file_share_its_plan(tmp_path: Path) -> None:
    """A plan that names no task says nothing of two runs, but these are two agents of one."""
    plan = the_plan("r", tasks=2, order=None, order_kind=None)
    done = [trial("r", "a", "x", False), trial("r", "b", "x", True), trial("r", "b", "y", True)]
    file = written(tmp_path, "events", [plan, *done])
    found = streamer("gate", file / "a:m", "--against", file / "b:m")
    assert (found.returncode, b"1 of 2 pairs" in found.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["mine"], 2, "nothing to judge: give --against"),
        (["mine", "--against", "base", "--max-drop", "1.5"], 2, "more than 1"),
        (["mine", "--against", "base", "--max-drop", "a"], 2, "write one like 0.02"),
        (["mine", "--against", "base", "--level", "1"], 2, "between 0 and 1"),
        (["mine", "--against", "base", "--metric", "grade"], 2, "no metric that a gate judges"),
        (["mine", "--against", "base", "--on-verdict", "no-such-program"], 2, "no such program"),
        (["mine", "--against", "base", "--markdown", "no/a.md"], 2, "there is no folder no"),
        (["mine", "--against", "two"], 2, "two has 2 agents that are no baselines; name one"),
        (["mine", "--against", "base/c:m"], 2, "has no agent 'c:m'"),
        (["mine", "--against", "two/x"], 2, "holds no run or agent 'x'"),
        (["mine", "--against", "empty"], 2, "holds no run"),
        (["mine", "--against", "damaged"], 3, "undecided: damaged is damaged gzip"),
        (["r", "--against", "s", "--bootstrap", "127.0.0.1:1"], 3, "no Kafka broker answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_judged_never_looks_like_a_verdict(
    tmp_path: Path, baseline: Path, arguments: list[str], code: int, said: str
) -> None:
    written(tmp_path, "mine", run_of("r", "a", 18))
    written(tmp_path, "two", [*run_of("s", "b", 18), *run_of("s", "c", 18)])
    written(tmp_path, "empty", [])
    (tmp_path / "damaged").write_bytes(b"\x1f\x8bnot gzip")
    done = streamer("gate", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, b"")
    assert len(done.stderr.splitlines()) == 1
    assert said.encode() in done.stderr


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, baseline: Path) -> None:
    mine = written(tmp_path, "mine", [the_plan("r"), a_trial(run_id="r", agent="a", task_id="t\u202e00")])
    done = streamer("gate", mine, "--against", baseline)
    assert "\u202e" not in done.stdout.decode()


def test_help_tells_false_alarms_and_power_as_the_page_has_them() -> None:
    text = " ".join(streamer("gate", "--help").stdout.decode().split())
    page = (ROOT / "docs" / "inference.md").read_text("utf-8")
    assert (
        "as good as its baseline fails question final in 40 % of runs of 89 tasks and in 19 % of 500" in text
    )
    assert "but question ability in at most 3 %." in text
    assert "10 points in 27 % of runs of 89 tasks, in 62 % with three attempts, in 93 % of 500 tasks." in text
    for row in (
        "| 89 tasks | equal | 60.2% | 39.8% | 1.7% |",
        "| 89 tasks, 3 attempts | equal | 74.7% | 25.2% | 2.5% |",
        "| 500 tasks | equal | 81.1% | 18.9% | 2.8% |",
        "| 89 tasks | -10 | 7.5% | 92.3% | 26.6% |",
        "| 89 tasks, 3 attempts | -10 | 1.0% | 98.9% | 62.4% |",
        "| 500 tasks | -10 | 0.0% | 100.0% | 93.1% |",
    ):
        assert row in page


def test_the_program_gets_the_verdict_and_its_exit_code_changes_nothing(
    tmp_path: Path, baseline: Path
) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    code = "import json, sys; print(json.load(sys.stdin)['verdict']); sys.exit(7)"
    done = streamer("gate", mine, "--against", baseline, "--json", "--on-verdict", on_verdict(code))
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "pass")
    assert done.stderr.splitlines() == [b"pass", b"--on-verdict ended with exit code 7"]


@pytest.mark.parametrize("broken", [0, 1])
def test_lines_that_cannot_be_read_leave_it_undecided(tmp_path: Path, broken: int) -> None:
    files = [written(tmp_path, run, run_of(run, agent, 18)) for run, agent in ("ra", "sb")]
    with files[broken].open("ab") as file:
        file.write(b'{"type": "trial_result", "run_id"\n')
    done = streamer("gate", files[0], "--against", files[1])
    rejected, said = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (3, b"")
    assert rejected.startswith("line 22: ")
    assert said.startswith(f"streamer: undecided: {files[broken]}: 1 of its lines could not be read")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_verdict_that_cannot_be_printed_is_no_failed_gate_and_still_reaches_the_program(
    tmp_path: Path, baseline: Path, options: list[str]
) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    code = "import json, pathlib, sys; pathlib.Path('got').write_text(json.load(sys.stdin)['verdict'])"
    argv = ["gate", mine, "--against", baseline, *options, "--on-verdict", on_verdict(code)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *map(str, argv)],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            timeout=DEADLINE_SECONDS,
        )
    assert done.returncode == 3
    assert b"streamer: pass, but stdout cannot be written: No space left on device" in done.stderr
    assert (tmp_path / "got").read_text() == "pass"
