"""`streamer gate`: an exit code that CI can rest on, of files and of runs that go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.aggregate.matched import ORDER, TASKS, the_plan, trial
from tests.cli.calling import SECONDS, call, ndjson, published
from tests.house.repository import ROOT
from tests.support.cli import COMMAND, streamer
from tests.support.events import Event, a_trial
from tests.support.online import Online

NUMBERS = count()
END = {"type": "run_finished", "revision": 9}


def run_of(run: str, agent: str, passed: int, of: int = 20, **fields: Any) -> list[Event]:
    """A plan, and so many trials of its queue; the first so many of them passed."""
    done = [trial(run, agent, task, n < passed, **fields) for n, task in enumerate(ORDER[:of])]
    return [the_plan(run), *done]


def written(folder: Path, name: str, events: Iterable[Event]) -> Path:
    file = folder / name
    file.write_bytes(ndjson(list(events)))
    return file


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


def test_help_tells_how_often_identical_agents_fail() -> None:
    text = " ".join(streamer("gate", "--help").stdout.decode().split())
    assert "fails question final at the end in 37 % of simulated runs" in text


def on_verdict(code: str) -> str:
    """A program in Python, as one argument."""
    return f'{sys.executable} -c "{code}"'


def test_the_program_gets_the_verdict_and_its_exit_code_changes_nothing(
    tmp_path: Path, baseline: Path
) -> None:
    mine = written(tmp_path, "mine", run_of("r", "a", 18))
    code = "import json, sys; print(json.load(sys.stdin)['verdict']); sys.exit(7)"
    done = streamer("gate", mine, "--against", baseline, "--json", "--on-verdict", on_verdict(code))
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "pass")
    assert done.stderr.splitlines() == [b"pass", b"--on-verdict ended with exit code 7"]


@contextmanager
def gate(stack: Online, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A gate that follows runs in the background."""
    argv = [*COMMAND, "gate", *map(str, arguments)]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment_of(stack)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def environment_of(stack: Online) -> dict[str, str]:
    return dict(os.environ) | stack.environment | {"PYTHONUNBUFFERED": "1"}


def names() -> tuple[str, str]:
    number = next(NUMBERS)
    return f"gate-{number}-new", f"gate-{number}-old"


def test_a_live_run_is_judged_before_it_ends(stack: Online) -> None:
    new, old = names()
    published(stack, [*run_of(old, "b", 20), END | {"run_id": old}])
    published(stack, run_of(new, "a", 2, 2))
    with gate(stack, new, "--against", old) as process:
        assert process.stdout is not None
        assert b"2 of 20 pairs" in process.stdout.readline()
        published(stack, run_of(new, "a", 2, 12)[3:])
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (1, b"")
    assert b"FAIL: pass_rate at most 2 points worse than" in out
    assert b"estimate: stopping now saves up to 8 trials" in out


def test_a_run_that_has_not_begun_is_waited_for_only_for_a_time(stack: Online) -> None:
    new, old = names()
    published(stack, [*run_of(old, "b", 18), END | {"run_id": old}])
    absent = call(stack, "gate", new, "--against", old)
    assert absent.returncode == 3
    assert b"the event log holds no such run" in absent.stderr
    with gate(stack, f"{new}/a:m", "--against", old, "--timeout", SECONDS) as process:
        assert process.stdout is not None
        assert b"no trial is known yet" in process.stdout.readline()
        published(stack, run_of(new, "a", 18))
        out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, b"PASS: " in out) == (0, True)


def test_the_program_stops_a_harness(stack: Online) -> None:
    new, old = names()
    published(stack, [*run_of(old, "b", 20), END | {"run_id": old}])
    harness = subprocess.Popen(
        [sys.executable, "-c", "import signal; print('at work', flush=True); signal.pause()"],
        stdout=subprocess.PIPE,
    )
    try:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"at work\n"
        published(stack, run_of(new, "a", 0, 10))
        code = (
            "import json, os, signal, sys; "
            f"json.load(sys.stdin)['verdict'] == 'fail' and os.kill({harness.pid}, signal.SIGTERM)"
        )
        done = call(stack, "gate", new, "--against", old, "--on-verdict", on_verdict(code))
        assert (done.returncode, harness.wait(SECONDS)) == (1, -signal.SIGTERM)
    finally:
        harness.kill()
        harness.communicate()


def test_a_killed_publisher_leaves_a_gate_undecided_after_the_timeout(stack: Online) -> None:
    new, old = names()
    published(stack, [*run_of(old, "b", 18), END | {"run_id": old}])
    publisher = subprocess.Popen([*COMMAND, "publish"], stdin=subprocess.PIPE, env=environment_of(stack))
    assert publisher.stdin is not None
    publisher.stdin.write(ndjson(run_of(new, "a", 3, 3)))
    publisher.stdin.flush()
    with gate(stack, new, "--against", old, "--timeout", 20) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"3 of 20 pairs" in line:
                break
        publisher.kill()
        publisher.communicate()
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert out.startswith(b"no verdict within 20 s\nUNDECIDED: ")


def test_a_live_verdict_at_the_end_is_the_one_of_the_files(stack: Online, tmp_path: Path) -> None:
    new, old = names()
    events = {new: [*run_of(new, "a", 17, 19), END | {"run_id": new}], old: run_of(old, "b", 18)}
    for held in events.values():
        published(stack, held[::-1])
    files = [written(tmp_path, run, held) for run, held in events.items()]
    live = json.loads(call(stack, "gate", new, "--against", old, "--json").stdout)
    folded = json.loads(streamer("gate", files[0], "--against", files[1], "--json").stdout)
    for found in (live, folded):
        assert found["over"] is True
        found["candidate"].pop("source")
        found["baseline"].pop("source")
        found.pop("words")
    assert live == folded


def test_lines_come_when_something_new_is_known_and_not_for_each_event(stack: Online) -> None:
    new, old = names()
    published(stack, [*run_of(old, "b", 20), END | {"run_id": old}])
    published(stack, [the_plan(new), trial(new, "a", TASKS[0], True)])
    with gate(stack, new, "--against", old) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        published(stack, run_of(new, "a", 20)[1:])
        out, _ = process.communicate(timeout=SECONDS)
    told = [line for line in [first, *out.splitlines()] if line.strip() and not line.startswith(b" ")]
    assert process.returncode == 0
    assert len(told) < len(TASKS)
    assert len(told) == len(set(told))


def test_the_page_shows_what_it_prints(stack: Online) -> None:
    chance = random.Random(7)
    tasks = [f"task-{number:02}" for number in range(89)]
    order = chance.sample(tasks, len(tasks))
    for run, done, rate in (("main", 89, 0.6), ("branch", 34, 0.3)):
        listed = [(task, chance.random() < rate) for task in order[:done]]
        fields = {"agent": "terminus", "model": "gpt-5", "cost_usd": 0.25}
        trials = [a_trial(run_id=run, task_id=task, resolved=passed, **fields) for task, passed in listed]
        published(stack, [the_plan(run, tasks=tasks, order=order), *trials])
    done = call(stack, "gate", "branch", "--against", "main")
    assert done.returncode == 1
    assert f"```text\n{done.stdout.decode()}```" in (ROOT / "docs" / "gate.md").read_text("utf-8")
