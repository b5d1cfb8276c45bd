"""Simulated harnesses write as real ones do; and what a run-level file of fc-eval says alone (R28)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from streamer.statistics.final import hash_shuffled
from streamer.terminal import simulate
from tests.sources import fc_eval_runs as fc
from tests.sources.builders import START, Event, converted, plan_of, trials_of, write_json
from tests.sources.outcomes import agree
from tests.support.events import summarised
from tests.support.layouts import LAYOUTS, simulate_run


def test_a_crashed_trial_is_retried_in_its_own_directory_and_the_job_ends_last(tmp_path: Path) -> None:
    finished: list[bool] = []

    def job() -> Event:
        return dict(json.loads((tmp_path / "job" / "result.json").read_text()))

    def look(_: float) -> None:
        with suppress(FileNotFoundError, ValueError):  # not there yet, or half written
            finished.append(job()["finished_at"] is not None)

    simulate_run("harbor", tmp_path / "job", 60, seed=3, start=START, pace_seconds=1.0, sleep=look)
    assert not any(finished[:-1])
    stats = job()["stats"]
    assert job()["finished_at"]
    assert stats["n_retries"] > 0
    assert (stats["n_completed_trials"], stats["n_pending_trials"]) == (60, 0)
    results = [json.loads(path.read_text()) for path in (tmp_path / "job").glob("*/result.json")]
    assert len({result["trial_name"] for result in results}) == len(results) == 60
    failures = {result["exception_info"] and result["exception_info"]["exception_type"] for result in results}
    assert "NonZeroAgentExitCodeError" not in failures


def test_agents_take_the_tasks_in_turn_and_pass_by_their_skill(tmp_path: Path) -> None:
    agents = tuple(
        simulate.HarborAgent(name, "simulated", "model", skill) for name, skill in (("a", 1.0), ("b", 0.0))
    )
    disk = simulate.Disk(tmp_path / "job", 1, 0.0, lambda _: None, lambda _: None)
    simulate.write_harbor(disk, 40, 1, START, 4, agents=agents, attempts=1, speed=10.0)
    events = agree(WITHOUT_COMPLAINT | {"trials": 80}, tmp_path / "job")
    plan, trials = plan_of(events), trials_of(events)
    assert (len(plan["tasks"]), plan["attempts"], plan["order"]) == (40, 1, plan["tasks"])
    assert plan["agent_models"] == ["a:simulated/model", "b:simulated/model"]
    verdicts = {(event["agent"], event.get("resolved")) for event in trials}
    assert verdicts == {("a", True), ("b", False), ("a", None), ("b", None)}
    assert 2.0 < fmean(map(seconds_of, trials)) < 10.0


SLOT = ("shard", "task_id", "attempt", "agent", "tier", "subtest")
WITHOUT_COMPLAINT: Event = {"unreadable": [], "left_out": [], "notes": []}


def seconds_of(event: dict[str, str]) -> float:
    start, end = (datetime.fromisoformat(event[name]) for name in ("started_at", "finished_at"))
    return (end - start).total_seconds()


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_trial_is_converted_and_nothing_is_left_out(layout: str, tmp_path: Path) -> None:
    simulate_run(layout, tmp_path / "run", 60, seed=3, start=START)
    events = agree(WITHOUT_COMPLAINT | {"runs": ["run"]}, tmp_path / "run")
    assert [event["run_id"] for event in events if event["type"] == "run_finished"] == ["run"]
    trials = trials_of(events)
    slots = {tuple(event.get(name) for name in SLOT) for event in trials}
    assert len(trials) == len(slots) == 60 * len(plan_of(events)["agent_models"])
    assert {event["harness"] for event in trials} == {layout}
    assert {event.get("resolved") for event in trials} >= {True, False}
    assert len({event["failure_mode"] for event in trials}) > 1


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_seed_decides_the_files_and_the_pace_does_not(at_once: int, tmp_path: Path) -> None:
    waited: list[float] = []
    for number, (seed, pace) in enumerate(((5, 0.0), (5, 2.0), (6, 0.0))):
        paced: dict[str, Any] = {"pace_seconds": pace, "sleep": waited.append, "concurrency": at_once}
        simulate_run("harbor", tmp_path / str(number) / "run", 21, seed=seed, start=START, **paced)
    fast, slow, other = (contents(tmp_path / str(number) / "run") for number in range(3))
    assert fast == slow != other
    assert sum(waited) > 21 * 1.5 / at_once  # writing is part of it


def test_trials_that_do_not_pass_take_longer(tmp_path: Path) -> None:
    simulate_run("harbor", tmp_path / "run", 300, seed=5, start=START)
    trials = trials_of(converted(tmp_path / "run")[0])
    passed = fmean(seconds_of(trial) for trial in trials if trial.get("resolved") is True)
    others = fmean(seconds_of(trial) for trial in trials if trial.get("resolved") is not True)
    assert 1.7 < others / passed < 2.3


def test_harbor_shuffles_on_request_and_starts_trials_in_the_order_of_its_lock(tmp_path: Path) -> None:
    orders: dict[str, list[str]] = {}
    for name, shuffle in (("listed", False), ("shuffled", True)):
        files: list[Path] = []
        more: dict[str, Any] = {"shuffle": shuffle, "written": files.append}
        simulate_run("harbor", tmp_path / name, 40, seed=5, start=START, concurrency=2, **more)
        orders[name] = plan_of(converted(tmp_path / name)[0])["order"]
        begun = dict.fromkeys(file.parent.name for file in files if file.name == "trial.log")
        assert [trial.partition("__")[0] for trial in begun] == orders[name]
    tasks = [f"task-{number}" for number in range(1, 9)]
    assert orders["listed"] == tasks * 5
    assert orders["shuffled"] == hash_shuffled(tasks, "5") * 5 != orders["listed"]


BASELINES = ("nop", "oracle")
WRITTEN_OVER = {"fc-no-oracle-same-framework": 1, "fc-rough": 5}
"""Agents whose entry another agent of the same label wrote over, since it had no speedups of its own (D5).
Nothing in the file is left of their tests and costs, so they are left out."""


LAST_AGENT_ALONE = ("trial_id", "trial_name", "failure_mode", "started_at", "finished_at")
"""The merged trial has the last agent's in place of the others' (D2)."""

LOST = {
    *("failure_modes", "infrastructure_failures", "accuracy_excluding_infrastructure", "mean_duration"),
    *("first_event_at", "last_event_at", "tokens", "state_version", "digest"),
}
LOST_STATISTICS = {"duration_seconds", "input_tokens", "output_tokens"}
"""Numbers of a summary that a run-level file of several agents has not: the failure modes and times of all
agents but the last are gone (D2), and tokens are summed over the agents (D3).
"""


def kept(summary: Event) -> Event:
    """A summary without these numbers."""
    left = {name: value for name, value in summary.items() if name not in LOST}
    for name in ("statistics", "coverage"):
        left[name] = {key: value for key, value in summary[name].items() if key not in LOST_STATISTICS}
    return left


def agents_summaries(events: list[Event]) -> dict[str, Event]:
    return {key: value for key, value in summarised(events).items() if key.startswith("agent_model ")}


@pytest.mark.parametrize("name", fc.ONE_AGENT)
def test_a_run_of_one_agent_is_the_same_to_the_bit(runs: Path, tmp_path: Path, name: str) -> None:
    """But for panes, which have what a log names besides: single-agent trials are kept as they were."""
    expected, result = fc.both(runs, name, tmp_path, *fc.CONFIGURATION)
    assert fc.by_trial(expected).keys() == fc.by_trial(result).keys()
    summaries = agents_summaries(expected)
    assert summaries
    assert agents_summaries(result) == summaries


@pytest.mark.parametrize("name", fc.SEVERAL_AGENTS)
@pytest.mark.parametrize("others", [fc.CONFIGURATION, ()], ids=["beside its configuration", "alone"])
def test_every_agent_is_there_but_for_those_written_over(
    runs: Path, tmp_path: Path, name: str, others: tuple[str, ...]
) -> None:
    expected, result = (fc.by_trial(events) for events in fc.both(runs, name, tmp_path, *others))
    assert result.keys() <= expected.keys()
    assert len(expected.keys() - result.keys()) == WRITTEN_OVER.get(name, 0)


@pytest.mark.parametrize("name", fc.SEVERAL_AGENTS)
def test_an_event_says_what_the_agents_own_files_say_or_nothing(
    runs: Path, tmp_path: Path, name: str
) -> None:
    """No speedup is another than the agent's own log has; and few are missing where they count."""
    expected, result = (fc.by_trial(events) for events in fc.both(runs, name, tmp_path, *fc.CONFIGURATION))
    agents = fc.agents_of(runs / name)
    is_alone = sum(agent.label not in BASELINES for agent in agents) == 1
    revision = (tmp_path / name / "results.json").stat().st_mtime_ns
    complete, incomplete = 0, 0
    for place, event in result.items():
        own = expected[place]
        last = own if place[2] == len(agents) else {}
        assert [event.get(field) for field in fc.ALWAYS] == [own.get(field) for field in fc.ALWAYS]
        assert [event.get(f) for f in LAST_AGENT_ALONE] == [last.get(f) for f in LAST_AGENT_ALONE]
        assert event["revision"] == revision
        for field in ("input_tokens", "output_tokens"):
            known = is_alone and event["agent"] not in BASELINES and own.get(field)
            assert event.get(field) == (known or None), field
        check_tests_and_snapshot(event, own)
        if (benchmarks := own.get("benchmarks")) is not None:
            stored = event.get("benchmarks", {})
            check_speedups(stored, benchmarks)
            has_all = all(ratio_of(stored.get(name)) == ratio_of(entry) for name, entry in benchmarks.items())
            is_counted = event.get("resolved") is True
            complete += is_counted and has_all
            incomplete += is_counted and not has_all
    assert complete > 10 * incomplete


def check_tests_and_snapshot(event: Event, own: Event) -> None:
    """Tests and snapshot are as in the agent's own log, as far as the file has them."""
    tests, snapshot = event.get("tests"), event.get("snapshot")
    if tests is None or snapshot is None:
        assert tests is snapshot is event.get("benchmarks") is None
        assert own["failure_mode"] in ("test_timeout", "parse_error")
        return
    if tests != own["tests"]:
        assert tests == {"status": "failed"}
        assert own["tests"].get("error") == 1 or own["tests"]["status"] in ("missing", "unparsable")
    if snapshot != {field: value for field, value in own["snapshot"].items() if field != "failed"}:
        assert snapshot == {"status": "failed"}
        assert own["snapshot"]["status"] != "passed"


def check_speedups(stored: Event, own: Event) -> None:
    assert "fallback_to_baseline" not in json.dumps(stored)
    for benchmark, entry in stored.items():
        if isinstance(entry, dict):
            ratios = {key: entry[key] for key in ("agent/nop", "oracle/nop") if is_number(entry, key)}
            assert ratios == {key: own[benchmark].get(key) for key in ratios}


def is_number(entry: Event, key: str) -> bool:
    return isinstance(entry.get(key), int | float)


def ratio_of(entry: Any) -> Any:
    return entry.get("agent/nop") if isinstance(entry, dict) and is_number(entry, "agent/nop") else None


def test_a_simulated_run_has_the_same_numbers_by_its_run_level_file(tmp_path: Path) -> None:
    """No crash, no 0 %: nothing is lost in it but what no run-level file of several agents has."""
    run = tmp_path / "run"
    simulate_run("fc-eval", run, 12, seed=11, start=START)
    expected = agents_summaries(converted(run)[0])
    copy = fc.run_level_only(run, tmp_path / "copy", *fc.CONFIGURATION)
    result = agents_summaries(agree({"unreadable": [], "left_out": [], "remarks": []}, copy))
    assert 0 < result["agent_model run|terminus-2:openai%2Fgpt-5"]["accuracy"] < 1
    for key, summary in expected.items():
        assert kept(result[key]) == kept(summary)


def merged_events(tmp_path: Path, entry: Event, **metrics: Any) -> list[Event]:
    """The events of a run-level file with one trial of nop and t:m, each with this entry."""
    agents = [{"agent_name": "nop", "model_name": "nop"}, {"agent_name": "t", "model_name": "m"}]
    result = {
        "task_id": "t1",
        "trial_name": "t1.1-of-1.run1.agent-2-t",
        "is_resolved": True,
        "parser_extra_metrics": {"agent_metrics_by_agent": {"nop:nop": entry, "t:m": entry}, **metrics},
    }
    write_json(tmp_path / "run1" / "fc.lock", {"run_spec": {"agent_mode": "multi", "agents": agents}})
    write_json(tmp_path / "run1" / "results.json", {"results": [result], "n_resolved": 1})
    return trials_of(converted(tmp_path / "run1")[0])


def test_a_null_in_place_of_the_snapshots_count_was_nan_and_passes(tmp_path: Path) -> None:
    """As in a trial's own file (D17, B6). The harness writes a whole number there (0 for NaN), no null."""
    snapshot = {"pass_to_fail": None, "passed": 3, "status": "passed"}
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": snapshot}
    expected: Event = {"resolved": True, "snapshot": {"status": "passed", "pass_to_fail": 0.0, "passed": 3}}
    for agent, event in zip(("nop", "t"), merged_events(tmp_path, entry), strict=True):
        assert {name: event[name] for name in ("agent", *expected)} == {"agent": agent} | expected


def test_advantages_that_the_harnesss_fallback_wrote_over_a_claim_are_not_claimed(tmp_path: Path) -> None:
    """C1: t failed by itself, and no worse than the oracle; its log has no benchmarks by agent (B11)."""
    entry = {"pytest_summary": {"passed": 1, "status": "passed"}, "snapshot_summary": {"status": "passed"}}
    claim = {"agent_advantage": -0.5}
    improvements = {
        "last_agent": "t:m",
        "agent_advantage": 0.25,
        "agent_advantages_by_agent": {"nop:nop": claim, "t:m": claim | {"fallback_to_baseline": True}},
        "per_benchmark_speedups_by_agent": {},
    }
    events = merged_events(tmp_path, entry, improvements_dict=improvements)
    assert [event.get("claimed") for event in events] == [claim, None]


def test_a_file_is_empty_first_and_grows_in_pieces_until_it_is_whole(tmp_path: Path) -> None:
    text = "x" * 1000
    for seed in range(20):
        file = tmp_path / str(seed) / "file"
        seen: list[int] = []
        written: list[Path] = []
        disk = simulate.Disk(tmp_path, seed, 2.0, lambda _: seen.append(file.stat().st_size), written.append)  # noqa: B023
        disk.text(file, text)
        assert seen == sorted(seen)
        assert file.read_text() == text
        assert written == [file]
    assert disk.name == tmp_path.name


@pytest.mark.parametrize(("pace", "slept"), [(0.0, []), (2.0, [2.0, 2 * simulate.SHARE_OF_WRITING])])
def test_simulated_time_goes_by_at_the_pace(tmp_path: Path, pace: float, slept: list[float]) -> None:
    waited: list[float] = []
    disk = simulate.Disk(tmp_path, 1, pace, waited.append, lambda _: None)
    disk.pass_time(simulate.MEAN_SECONDS)
    disk.pass_time(0.0)
    disk.pause_writing()
    assert waited == slept


def test_writing_is_part_of_the_time_that_goes_by(tmp_path: Path) -> None:
    waited: list[float] = []
    disk = simulate.Disk(tmp_path, 1, simulate.MEAN_SECONDS, waited.append, lambda _: None, piece_seconds=2.0)
    for _ in range(3):
        disk.pause_writing()
    for seconds in (1.0, 6.0, 10.0):
        disk.pass_time(seconds)
    assert waited == [2.0, 2.0, 2.0, 0.0, 1.0, 10.0]


class Line:
    """A queue of trials that note when they write."""

    def __init__(self, *durations: list[float], at_once: int) -> None:
        self.notes: list[tuple[str, float]] = []
        self.slept: list[float] = []
        self.fate = simulate.Fate(1, START)
        disk = simulate.Disk(Path("unused"), 1, simulate.MEAN_SECONDS, self.slept.append, lambda _: None)
        simulate.run_queue(disk, self.fate, self._queue(durations), at_once)

    def _queue(self, durations: tuple[list[float], ...]) -> Iterator[simulate.Steps]:
        return (self._trial("abcdef"[place], seconds) for place, seconds in enumerate(durations))

    def _trial(self, name: str, durations: list[float]) -> simulate.Steps:
        self._note(name)
        for seconds in durations:
            yield seconds
            self._note(name)

    def _note(self, name: str) -> None:
        self.notes.append((name, (self.fate.now - START) / timedelta(seconds=1)))


@pytest.mark.parametrize(
    ("durations", "at_once", "notes", "slept"),
    [
        ([[2, 1], [4]], 1, [("a", 0), ("a", 2), ("a", 3), ("b", 3), ("b", 7)], [2, 1, 4]),
        ([[3], [1, 2]], 2, [("a", 0), ("b", 0), ("b", 1), ("a", 3), ("b", 3)], [1, 2]),
        ([[], []], 1, [("a", 0), ("b", 0)], []),
        ([], 3, [], []),
    ],
    ids=["one after the other", "the earlier started first", "without a step", "an empty queue"],
)
def test_a_queue_runs_so_many_at_once(
    durations: list[list[float]], at_once: int, notes: list[tuple[str, float]], slept: list[float]
) -> None:
    line = Line(*durations, at_once=at_once)
    assert (line.notes, line.slept) == (notes, slept)


def test_a_free_place_is_taken_by_the_next_of_the_queue_at_that_moment() -> None:
    line = Line([10], [2], [3], [1], at_once=2)
    starts = list(dict.fromkeys(line.notes))
    assert starts == [("a", 0), ("b", 0), ("b", 2), ("c", 2), ("c", 5), ("d", 5), ("d", 6), ("a", 10)]
    assert sum(line.slept) == 10
