"""A directory, or a part of it, read as `convert` reads it."""

from __future__ import annotations

from pathlib import Path

from streamer.sources.base import ConvertOptions
from streamer.sources.tail.scan import parts_of, plan_events, read_part, read_plan, read_whole
from tests.sources.builders import a_result, a_run, converted, trials_of

OPTIONS = ConvertOptions()


def test_the_whole_is_what_convert_makes_of_it(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("a"), a_result("b")]).resolve()
    scan = read_whole(run, OPTIONS)
    events, _ = converted(run)
    assert [event for _, event in scan.trials] == trials_of(events)
    assert len(scan.plans) + len(scan.trials) == len(events)
    assert {path.name for path, _ in scan.trials} == {"results.json"}


def test_a_directory_that_is_not_there_or_holds_no_run_is_empty(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        scan = read_whole(place, OPTIONS)
        assert (scan.runs, scan.trials, scan.plans, scan.report.unreadable) == ([], [], [], [])


def test_the_parts_of_a_run_together_have_its_trials(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run1", [a_result("a"), a_result("b")]).resolve()
    [run] = read_whole(path, OPTIONS).runs
    parts = [read_part(run, part, OPTIONS) for part in parts_of(run, path)]
    tasks = sorted(event["task_id"] for part in parts for _, event in part.trials)
    assert tasks == ["a", "b"]


def test_the_plan_is_read_again_without_the_trials(tmp_path: Path) -> None:
    path = a_run(tmp_path / "run1", [a_result("a")]).resolve()
    [run] = read_whole(path, OPTIONS).runs
    plan, report = read_plan(run, OPTIONS)
    assert (plan.run_id, report.unreadable) == (run.plan.run_id, [])
    assert {event["type"] for event in plan_events(run, OPTIONS)} <= {"run_started", "run_finished"}
