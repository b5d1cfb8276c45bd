"""A simulated run directory is one that the connectors read without complaint."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from streamer.sources.simulate import LAYOUTS, simulate_run
from streamer.statistics.final import hash_shuffled
from tests.sources.builders import Event, converted, plan_of, trials_of

START = datetime(2026, 1, 2, tzinfo=UTC)
TRIALS = 60


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_trial_is_converted_and_nothing_is_left_out(layout: str, tmp_path: Path) -> None:
    simulate_run(layout, tmp_path / "run", TRIALS, seed=3, start=START)
    events, report = converted(tmp_path / "run")
    assert report.unreadable + report.left_out + report.notes == []
    agents = len(plan_of(events)["agent_models"])
    trials = trials_of(events)
    assert {event["harness"] for event in trials} == {layout}
    slots = {
        (e.get("shard"), e["task_id"], e["attempt"], e["agent"], e.get("tier"), e.get("subtest"))
        for e in trials
    }
    assert len(trials) == len(slots) == TRIALS * agents
    assert [event["run_id"] for event in events if event["type"] == "run_finished"] == ["run"]
    assert {event.get("resolved") for event in trials} >= {True, False}
    assert len({event["failure_mode"] for event in trials}) > 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_seed_decides_the_files_and_the_pace_does_not(layout: str, tmp_path: Path) -> None:
    waited: list[float] = []
    for number, (seed, pace) in enumerate(((5, 0.0), (5, 2.0), (6, 0.0))):
        simulate_run(
            layout,
            tmp_path / str(number) / "run",
            21,
            seed=seed,
            start=START,
            pace_seconds=pace,
            sleep=waited.append,
        )
    fast, slow, other = (contents(tmp_path / str(number) / "run") for number in range(3))
    assert fast == slow != other
    assert sum(waited) > 21 * 1.5  # writing is part of it


def times_of(event: Event) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(event["started_at"]), datetime.fromisoformat(event["finished_at"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_so_many_trials_are_in_flight_as_run_at_once(layout: str, tmp_path: Path) -> None:
    """As their directories show it while they are written, and as their times say afterwards."""
    seen: set[int] = set()
    pauses = count()

    def look(_: float) -> None:
        if next(pauses) % 8 == 0:
            events, _ = converted(tmp_path / "run")
            seen.add(sum(event["type"] == "trial_started" for event in events))

    simulate_run(
        layout, tmp_path / "run", 21, seed=5, start=START, pace_seconds=1.0, sleep=look, concurrency=4
    )
    assert max(seen) == 4
    times = [times_of(event) for event in trials_of(converted(tmp_path / "run")[0])]
    at_once = [sum(start <= moment < end for start, end in times) for moment, _ in times]
    assert max(at_once) == 4


def test_the_seed_decides_the_files_of_trials_that_run_at_once_too(tmp_path: Path) -> None:
    for name, pace in (("a", 0.0), ("b", 3.0)):
        run = tmp_path / name / "run"
        simulate_run(
            "harbor", run, 20, seed=5, start=START, pace_seconds=pace, sleep=lambda _: None, concurrency=3
        )
    assert contents(tmp_path / "a" / "run") == contents(tmp_path / "b" / "run")


def test_trials_that_do_not_pass_take_longer(tmp_path: Path) -> None:
    simulate_run("harbor", tmp_path / "run", 300, seed=5, start=START)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for event in trials_of(converted(tmp_path / "run")[0]):
        start, end = times_of(event)
        seconds[event.get("resolved") is True].append((end - start).total_seconds())
    means = {passed: sum(values) / len(values) for passed, values in seconds.items()}
    assert 1.7 < means[False] / means[True] < 2.3


def test_harbor_shuffles_when_it_is_told_to_and_starts_trials_in_the_order_of_its_lock(
    tmp_path: Path,
) -> None:
    orders: dict[str, list[str]] = {}
    for name, shuffle in (("listed", False), ("shuffled", True)):
        files: list[Path] = []
        simulate_run(
            "harbor",
            tmp_path / name,
            40,
            seed=5,
            start=START,
            concurrency=2,
            shuffle=shuffle,
            written=files.append,
        )
        orders[name] = plan_of(converted(tmp_path / name)[0])["order"]
        begun = dict.fromkeys(file.parent for file in files if file.name == "trial.log")
        assert [trial.name.partition("__")[0] for trial in begun] == orders[name]
    tasks = [f"task-{number}" for number in range(1, 9)]
    assert orders["listed"] == tasks * 5
    assert orders["shuffled"] == hash_shuffled(tasks, "5") * 5 != orders["listed"]


def test_a_harness_that_orders_tasks_by_itself_cannot_be_told_to_shuffle(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="shuffle is for harbor; fc-eval starts tasks in an order of its own"
    ):
        simulate_run("fc-eval", tmp_path / "run", 4, seed=1, start=START, shuffle=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_are_seen_half_written(layout: str, tmp_path: Path) -> None:
    root = tmp_path / "run"
    halves: set[str] = set()

    def look(_: float) -> None:
        for path in root.rglob("*.json"):
            try:
                json.loads(path.read_bytes())
            except ValueError:
                halves.add(path.name)

    simulate_run(layout, root, 12, seed=1, start=START, pace_seconds=1.0, sleep=look)
    assert halves & {"results.json", "run_result.json", "result.json"}
