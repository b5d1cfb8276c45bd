"""A gate that follows runs: early verdicts, waiting, giving up, and the same end as the files give."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from streamer.client.readers import StateReader
from streamer.folding.score.prices import PriceTable
from streamer.folding.state import RunState
from streamer.settings import Settings
from streamer.statistics.pairs import GateVerdict
from streamer.terminal import compare
from streamer.views.gate import Terms
from tests.aggregate.matched import TASKS, the_plan, trial
from tests.cli.calling import SECONDS, call, ndjson, published
from tests.cli.gating import on_verdict, run_of, written
from tests.house.repository import ROOT
from tests.support.cli import COMMAND, streamer
from tests.support.events import a_trial, folded
from tests.support.online import Online

NUMBERS = count()
END = {"type": "run_finished", "revision": 9}


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
    directory = call(stack, "gate", ROOT / "tests", "--against", old)
    assert directory.returncode == 3
    assert f"`streamer convert {ROOT / 'tests'} > FILE`".encode() in directory.stderr
    with gate(stack, f"{new}/a:m", "--against", old, "--timeout", SECONDS) as process:
        assert process.stdout is not None
        assert b"no trial is known yet" in process.stdout.readline()
        published(stack, run_of(new, "a", 18))
        out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, b"PASS: " in out) == (0, True)


@pytest.mark.parametrize(("looked", "verdict"), [(False, GateVerdict.UNDECIDED), (True, GateVerdict.FAIL)])
def test_a_log_that_is_half_read_when_the_time_is_up_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, looked: bool, verdict: GateVerdict
) -> None:
    class HalfRead:
        """A log of which the failed trials are folded, and the others are not yet."""

        def __init__(self, *_: object) -> None:
            self._run = folded(run_of("r", "a", 0, 8))[0].run("r").state

        def states(self) -> dict[str, RunState]:
            return {"r": self._run}

        async def looks(self, _: float) -> AsyncGenerator[None]:
            if looked:
                yield
            await asyncio.Event().wait()

    monkeypatch.setattr(compare, "FollowedRuns", HalfRead)
    base, told = written(tmp_path, "base", run_of("s", "b", 20)), list[str]()
    gate = compare.Gate("r", str(base), Terms(), Settings(), PriceTable({}))
    assert gate.run(0.05, told.append).verdict is verdict
    assert told == ([] if looked else ["no verdict within 0.05 s: the log is not read yet"])


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
    with StateReader(stack.settings) as reader:  # so the gate's time is for reading alone
        reader.wait_for(new, lambda run: run.progress.done == 3, timeout_seconds=SECONDS)
    with gate(stack, new, "--against", old, "--timeout", 8) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"3 of 20 pairs" in line:
                break
        publisher.kill()
        publisher.communicate()
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert out.startswith(b"no verdict within 8 s\nUNDECIDED: ")


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
