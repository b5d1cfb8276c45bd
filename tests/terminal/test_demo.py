"""The demo: it ends well, and leaves the right files and nothing else."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import webbrowser
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import orjson
import pytest

from streamer.client.queries import RunAnswers
from streamer.folding.fold import Folding, fold_records
from streamer.schemas.base import digest_of
from streamer.schemas.summaries import RunComparison
from streamer.schemas.wire import records_of_lines
from streamer.terminal.demo import AGENTS, AT_ONCE, OPTIONS, RUN, TASKS, moments, open_page
from streamer.terminal.simulate import CRASH, EXCEPTIONS
from streamer.views.decide.compare import pair_standings
from tests.operate.stack import descendants, runs
from tests.support.cli import COMMAND, streamer
from tests.support.data import shared_data
from tests.support.demo_story import Event, events_of, looks
from tests.support.tailing import converted_digests
from tests.support.tailing import digests_of as harness_digests
from tests.support.worker_process import wait_for
from tests.terminal.calling import stderr_of

SECONDS = 120


def digests_of(summaries: list[dict[str, Any]]) -> dict[tuple[str | None, ...], str]:
    return {(s["type"], s["run_id"], s.get("tier"), s.get("agent_model")): digest_of(s) for s in summaries}


def check_output(out: Path, done: subprocess.CompletedProcess[bytes]) -> Folding:
    """What holds after every demo: exit code 0, equal digests, plain text."""
    assert done.returncode == 0, done.stdout + done.stderr
    folding = fold_records(records_of_lines((out / "events.ndjson").read_bytes().splitlines()))
    summaries = orjson.loads((out / "summaries.json").read_bytes())
    assert digests_of(summaries) == digests_of([change.summary or {} for change in folding.summaries()])
    assert all(summary["digest"] == digest_of(summary) for summary in summaries)
    for run_id in folding.runs():
        assert f"{run_id}: equal, ".encode() in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    return folding


@pytest.mark.stack
def test_the_demo_leaves_events_and_summaries_that_agree_with_its_directory(tmp_path: Path) -> None:
    """What it publishes is what the directory says, and a judge's score of every trial."""
    elsewhere = {"STREAMER_BOOTSTRAP": "127.0.0.1:1", "STREAMER_REDIS": "redis://127.0.0.1:1"}
    left = tmp_path / "demo-out" / "simulated" / RUN / "left__abcdefg"
    left.mkdir(parents=True)
    done = streamer("demo", "--fast", cwd=tmp_path, environment=elsewhere | {"STREAMER_NAMESPACE": "x"})
    folding = check_output(tmp_path / "demo-out", done)
    assert folding.runs() == [RUN]
    assert b"Rejected for not fitting the schema: 3 events" in done.stdout
    assert b"streamer publish demo-out/events.ndjson" in done.stdout
    lines = done.stdout.decode().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("aspen:simulated/large ") and "82.5 %" in line for line in lines)
    assert "demo: equal, 8 summaries" in lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo-out"]
    assert not left.exists()
    log = (tmp_path / "demo-out" / "events.ndjson").read_bytes().splitlines()
    events = [orjson.loads(line) for line in log if b'"revision"' in line]
    of_harness = [event for event in events if "score" not in event]
    assert harness_digests(of_harness) == converted_digests(tmp_path / "demo-out" / "simulated", OPTIONS)
    results = [event for event in events if event["type"] == "trial_result"]
    last = {event["shard"]: event for event in sorted(results, key=lambda event: event["revision"])}
    assert len(last) == 240
    assert all("score" in event for event in last.values())


PLANTING = """
from dataclasses import replace
from streamer.storage.entries import Keys
from streamer.storage.redis import sync_client
from streamer.terminal import demo, main

tail, verify = demo.tail, demo.verdicts_of

"""
"""A demo with a fault that a test adds."""

CHANGED = """
def changed(settings, *given, **more):
    verify(settings, *given, **more)  # until all is published, or the worker writes over the fault
    key = Keys(settings.namespace).run("demo")
    with sync_client(settings.redis, {}, 5) as redis:
        told = redis.get(key)
        assert b'"done":240' in told
        redis.set(key, told.replace(b'"done":240', b'"done":239'))
    return verify(settings, *given, **more)

demo.verdicts_of = changed
"""
AWAY = """
def away(settings, *given, **more):
    return verify(settings.model_copy(update={"redis": "redis://127.0.0.1:1/0"}), *given, **more)

demo.verdicts_of = away
"""
UNACKNOWLEDGED = """
demo.tail = lambda *given: replace(tail(*given), pending=2)
"""
NO_JUDGE = """
def judge(*_):
    raise OSError("the judge is away")

demo.judge = judge
"""


@pytest.mark.stack
@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (CHANGED, 1, b"demo: 1 difference, "),
        (AWAY, 3, b"streamer: cannot be verified: "),
        (UNACKNOWLEDGED, 1, b"has not acknowledged 2 events"),
        (NO_JUDGE, 1, b"the judge is away"),
    ],
    ids=["a number in Redis is not that of the log", "Redis is away", "not acknowledged", "a part fails"],
)
@pytest.mark.in_turn(3)
def test_the_exit_code_says_what_is_wrong(tmp_path: Path, fault: str, code: int, said: bytes) -> None:
    command = [sys.executable, "-c", f"{PLANTING}{fault}main()", "demo", "--fast"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.slow
def test_the_demo_streams_a_directory_of_real_results(tmp_path: Path) -> None:
    data = shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5"
    done = streamer("demo", "--fast", "--data", data, "--out", tmp_path)
    folding = check_output(tmp_path, done)
    assert folding.rejected == 0
    summaries = [change.summary or {} for change in folding.summaries()]
    [agent] = [one["agent_model"] for one in summaries if one["type"] == "agent_model_summary"]
    assert agent.encode() in done.stdout
    (empty := tmp_path / "empty").mkdir()
    none = streamer("demo", "--data", empty)
    assert ("no run of a known harness found" in stderr_of(none, 1), none.stdout) == (True, b"")


@pytest.mark.stack
def test_ctrl_c_on_the_terminal_ends_everything_that_the_demo_started(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    command, environment = [*COMMAND, "demo"], clean | {"TERM": "xterm"}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, cwd=tmp_path, env=environment)
    os.close(slave)
    seen = bytearray()

    def ended() -> bool:
        """Reads on; on Linux an error says that the other side is closed."""
        with suppress(OSError):
            seen.extend(os.read(master, 65536))
            return False
        return True

    def shows_a_board() -> bool:
        assert not ended(), f"the demo ended by itself: {bytes(seen)!r}"
        return b" are done" in seen and b"leads: pass rate" in seen

    try:
        wait_for(shows_a_board, "the board is shown", SECONDS)
        below = descendants(process.pid)
        assert any("streamer.worker" in command for command in below.values())
        process.send_signal(signal.SIGINT)
        while process.poll() is None and not ended():
            pass
        assert process.wait(SECONDS) == 130
        wait_for(lambda: not [pid for pid in below if runs(pid)], f"the end of all of {below}", SECONDS)
        assert b"streamer: interrupted" in seen
    finally:
        process.kill()
        process.wait()
        os.close(master)


# The story of the demo, read off the fold of its events: nothing of it may be left to chance.


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return events_of(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def prefixes(events: list[Event]) -> list[RunAnswers]:
    return looks(events, 24)


def leader(look: RunAnswers) -> str:
    return max(look.agents, key=lambda agent: agent.statistics["pass_rate"].mean or 0.0).agent_model


def slot_of(event: Event) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("shard", "task_id", "attempt", "agent", "model"))


def test_six_agents_try_all_tasks_in_about_a_minute(events: list[Event], prefixes: list[RunAnswers]) -> None:
    run = prefixes[-1].run
    assert (run.agent_models, run.tasks, run.progress.done) == (6, TASKS, len(AGENTS) * TASKS)
    assert run.progress.planned == run.progress.done
    assert run.started_at is not None
    assert run.finished_at is not None
    assert 45 <= (run.finished_at - run.started_at).total_seconds() <= 60
    comparison = prefixes[-1].comparison
    assert isinstance(comparison, RunComparison)
    assert comparison.order_kind == "shuffled"
    assert events[0]["type"] == "run_started"
    first = takewhile(lambda event: event["type"] == "trial_started", events[1:])
    assert len(list(first)) == AT_ONCE, "trials start before anything else happens"


def test_the_agent_that_leads_at_first_is_overtaken(prefixes: list[RunAnswers]) -> None:
    """Once each agent has five results."""
    early = [look for look in prefixes if min(agent.trials for agent in look.agents) >= 5]
    assert leader(early[0]) == "birch:simulated/large"
    assert leader(prefixes[-1]) == "aspen:simulated/large"


def test_a_trial_crashes_and_its_second_try_counts(events: list[Event], prefixes: list[RunAnswers]) -> None:
    modes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for event in events:
        if event["type"] == "trial_result" and "score" not in event:
            modes[slot_of(event)].append(event["failure_mode"])
    retried = [tries for tries in modes.values() if len(tries) > 1]
    assert retried
    assert all(tries[0] == EXCEPTIONS[CRASH] != tries[1] for tries in retried)
    assert EXCEPTIONS[CRASH] not in prefixes[-1].run.failure_modes
    assert any(EXCEPTIONS[CRASH] in look.run.failure_modes for look in prefixes)


def test_the_judge_comes_after_every_verdict(events: list[Event], prefixes: list[RunAnswers]) -> None:
    verdicts: set[tuple[str, ...]] = set()
    for event in (event for event in events if event["type"] == "trial_result"):
        if "score" in event:
            assert slot_of(event) in verdicts
        verdicts.add(slot_of(event))
    assert any(agent.grade_provisional for look in prefixes for agent in look.agents)
    last = prefixes[-1]
    assert last.run.coverage["impl_rate"] == last.run.trials
    assert not any(agent.grade_provisional for agent in last.agents)


def test_the_two_best_are_told_apart_before_the_end_and_not_at_once(prefixes: list[RunAnswers]) -> None:
    by_rate = sorted(prefixes[-1].agents, key=lambda agent: -(agent.statistics["pass_rate"].mean or 0.0))
    first, second = (agent.agent_model for agent in by_rate[:2])
    standings = [pair_standings(look.compared) for look in prefixes if len(look.agents) == 6]
    words = [pair.words[0] for of in standings for pair in of if {pair.a, pair.b} == {first, second}]
    assert len(words) == len(standings)
    certain = [said.startswith(first) for said in words]
    began = certain.index(True)
    assert words[0].startswith("Nothing separates")
    assert 0.5 < began / len(words) < 0.95
    assert all(certain[began:])


# The demo opens its page only where a person sees it.
ADDRESS = "http://127.0.0.1:9/#/run/demo"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop, and the file in which its browser writes what it was asked to open."""
    for name in ("CI", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho Opening.\necho warning >&2\necho "$1" > {asked}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.BackgroundBrowser("desktop"))
    return asked


@pytest.mark.parametrize(
    ("platform", "environment", "opens"),
    [
        ("linux", {}, True),
        ("linux", {"CI": "true"}, False),
        ("linux", {"DISPLAY": "", "SSH_CONNECTION": "10.0.0.1 22"}, False),
        ("linux", {"DISPLAY": "", "WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {"DISPLAY": ""}, True),
        ("darwin", {"DISPLAY": "", "SSH_CONNECTION": "10.0.0.1 22"}, False),
    ],
)
def test_the_page_opens_where_a_person_sees_it_and_nothing_is_printed(
    platform: str,
    environment: dict[str, str],
    opens: bool,
    asked: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    open_page(ADDRESS)
    assert (asked.read_text() if asked.exists() else "") == (f"{ADDRESS}\n" if opens else "")
    assert capfd.readouterr() == ("", "")


def test_a_browser_in_the_terminal_is_not_opened(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = MagicMock(side_effect=webbrowser.Error("could not locate runnable browser"))
    for get in (lambda: webbrowser.GenericBrowser("false"), none):
        monkeypatch.setattr(webbrowser, "get", get)
        open_page(ADDRESS)
        assert not asked.exists()


def test_each_moment_of_the_demo_has_one_line(events: list[Event]) -> None:
    printed: dict[str, str] = {}
    for look in looks(events, 12):
        for name, line in moments(look, datetime(2026, 1, 2, 0, 1, tzinfo=UTC)):
            printed.setdefault(name, line)
    expected = [
        "trials run, 0 of 240 are done",
        "a trial crashed (NonZeroAgentExitCodeError); harbor runs it again",
        "the judge's first scores are in",
        "birch:simulated/large leads",
        "aspen:simulated/large leads",
        "aspen:simulated/large can no longer be overtaken by birch:simulated/large",
    ]
    assert len(printed) == len(expected), printed
    for part, line in zip(expected, printed.values(), strict=True):
        assert part in line
