"""Runs are found below the paths given; links are not followed."""

from __future__ import annotations

from pathlib import Path

from tests.sources.builders import a_result, a_run, converted, slots_of, trials_of, write_json


def test_symbolic_links_are_not_followed_except_the_path_itself(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result()], [])
    (run / "oom" / "loop").symlink_to(run)
    (tmp_path / "runs" / "latest").symlink_to(run)
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path, tmp_path / "runs" / "latest"):
        events, report = converted(path)
        assert slots_of(events) == [("run1", "", "oom", 1)]
        assert not report.duplicates


def test_a_link_that_leads_to_itself_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    assert converted(tmp_path / "a")[1].unreadable


def test_both_harnesses_are_found_in_one_folder(tmp_path: Path) -> None:
    a_run(tmp_path / "tb", [a_result(run="tb")], [])
    write_json(tmp_path / "sc" / "T0" / "00" / "run_01" / "run_result.json", {"judge_passed": True})
    events, _ = converted(tmp_path)
    assert {event["harness"] for event in trials_of(events)} == {"terminal-bench", "scylla"}
    events, _ = converted(tmp_path, harness="scylla")
    assert {event["harness"] for event in trials_of(events)} == {"scylla"}
