"""Copies of trials and runs add nothing; different runs of one name stay apart; pooling keeps shards."""

from __future__ import annotations

from pathlib import Path

from tests.sources.builders import (
    a_result,
    a_run,
    a_trial_file,
    converted,
    copy_tree,
    slots_of,
    trials_of,
)
from tests.support.data import shared_data

COPIED = 43
"""Trials of the partial copy in the public data (H5)."""


def a_real_run(folder: Path) -> Path:
    source = shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5" / "tb_rc2_g5_4"
    return copy_tree(source, folder / source.name)


def copy_some(run: Path, target: Path, count: int = COPIED) -> None:
    """Copy the first trial directories of a run, task directories included."""
    tasks = sorted(path for path in run.iterdir() if path.is_dir() and not target.is_relative_to(path))
    for task in tasks[:count]:
        copy_tree(task, target / task.name)


def test_43_trial_directories_copied_into_their_own_run_are_43_duplicates(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    before, _ = converted(run)
    copy_some(run, run / "some" / "nested" / "folder")
    after, report = converted(run)
    assert after == before
    assert (report.trials, report.duplicates, report.unreadable) == (80, COPIED, [])


def test_43_trial_directories_of_another_run_are_43_duplicates_of_that_run(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another")], [], metadata={"agent_name": "x"})
    before, _ = converted(tmp_path)
    copy_some(run, other / "nested")
    after, report = converted(tmp_path)
    assert after == before
    assert (report.duplicates, report.unreadable) == (COPIED, [])
    copy_some(run, other)
    assert slots_of(converted(tmp_path)[0]) == slots_of(before)


def test_a_partial_copy_with_its_run_files_is_the_run_it_was_copied_from(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another")], [])
    before, _ = converted(tmp_path)
    for name in (run.name, "backup"):
        copy_some(run, other / name)
        for file in ("results.json", "tb.lock", "run_metadata.json"):
            (other / name / file).write_bytes((run / file).read_bytes())
    after, report = converted(tmp_path)
    assert trials_of(after) == trials_of(before)
    assert report.duplicates == 2 * COPIED
    assert sorted(report.runs) == ["another", run.name]
    alone, _ = converted(other)
    assert {event["run_id"] for event in alone} == {"another", run.name}


def test_nested_trials_of_a_run_that_is_not_converted_are_left_aside_and_reported(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    other = a_run(tmp_path / "another", [a_result(run="another"), a_result("b", run="another")], [])
    copy_some(run, other / "nested", 5)
    events, report = converted(other)
    assert len(trials_of(events)) == 2
    assert len(report.unreadable) == 5
    assert "'tb_rc2_g5_4'" in report.unreadable[0][1]


def test_nested_trials_of_the_run_itself_count(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    a_trial_file(run / "rerun", a_result("b"))
    assert slots_of(converted(run)[0]) == [("run1", "", "b", 1), ("run1", "", "oom", 1)]


def test_a_renamed_copy_of_a_run_adds_nothing(tmp_path: Path) -> None:
    run = a_real_run(tmp_path)
    before, _ = converted(run)
    copy_tree(run, tmp_path / "a copy of it")
    after, report = converted(tmp_path)
    assert after == before
    assert report.duplicates == 80


def test_equal_trials_without_a_harness_id_are_copies_only_within_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        a_run(tmp_path / name, [a_result(run="", id=None)], [])
        a_trial_file(tmp_path / name / "nested", a_result(run="", id=None))
    events, report = converted(tmp_path)
    assert slots_of(events) == [("a", "", "oom", 1), ("b", "", "oom", 1)]
    assert report.duplicates == 2


def test_two_files_of_one_slot_are_both_sent_for_the_revision_to_decide(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [], [])
    a_trial_file(run, a_result(is_resolved=False), mtime_ns=1_000)
    a_trial_file(run, a_result(n=2), mtime_ns=2_000)
    a_trial_file(run, a_result(run="older", is_resolved=None), mtime_ns=500)
    events, report = converted(run)
    assert slots_of(events) == [("run1", "", "oom", 1)] * 3
    assert {e["revision"]: e.get("resolved") for e in trials_of(events)} == {
        500: None,
        1_000: False,
        2_000: True,
    }
    assert not report.duplicates


def test_different_runs_of_one_name_are_kept_apart_and_noted(tmp_path: Path) -> None:
    for n, submission in enumerate(("sub1", "sub2")):
        run = a_run(tmp_path / submission / "run1", [a_result(id=submission)], metadata={"uuid": f"u{n}"})
        assert slots_of(converted(run)[0]) == [("run1", "", "oom", 1)]
    events, report = converted(tmp_path)
    assert slots_of(events) == [("sub1/run1", "", "oom", 1), ("sub2/run1", "", "oom", 1)]
    assert {event["run_id"] for event in events} == {"sub1/run1", "sub2/run1"}
    assert "sub1/run1, sub2/run1" in report.notes[0]
    pooled, _ = converted(tmp_path, run_id="all")
    assert slots_of(pooled) == [("all", "sub1/run1", "oom", 1), ("all", "sub2/run1", "oom", 1)]


def test_a_copy_of_a_run_in_another_folder_is_the_same_run(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        a_run(tmp_path / folder / "run1", [a_result()], metadata={"uuid": "u"})
    a_trial_file(tmp_path / "there" / "run1", a_result("b"))
    events, report = converted(tmp_path)
    assert slots_of(events) == [("run1", "", "b", 1), ("run1", "", "oom", 1)]
    assert (report.duplicates, report.notes) == (1, [])
