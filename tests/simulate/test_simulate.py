"""A simulated run directory is one that the connectors read without complaint."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamer.simulate import LAYOUTS, simulate_run
from tests.sources.builders import converted, plan_of, trials_of

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
    assert sum(waited) > 21 * 2.0


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
