"""A trial that has begun is told under the slot that its result will fill, for every harness."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from streamer.folding.slots import SlotKey, slot_key
from streamer.schemas.events import EVENT, TrialResult, TrialStarted
from streamer.sources.base import ConvertOptions
from tests.sources.builders import (
    LOCK,
    START,
    Event,
    a_begun_trial,
    a_result,
    a_run,
    a_trial_file,
    converted,
    copy_tree,
    trials_of,
    write_json,
)
from tests.sources.harbor import unpack_jobs
from tests.sources.swe_bench import REPORT, unpack_runs
from tests.support.data import shared_data
from tests.support.eventually import POLL_SECONDS
from tests.support.layouts import LAYOUTS, simulate_run
from tests.support.tailing import Followed, converted_digests, copy_roughly, followed
from tests.support.worker_process import wait_for


def starts_of(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trial_started"]


def slot(event: Event) -> SlotKey:
    parsed = EVENT.validate_json(json.dumps(event))
    assert isinstance(parsed, TrialResult | TrialStarted)
    return slot_key(parsed)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_start_that_is_seen_while_a_harness_writes_has_the_slot_of_its_result(
    layout: str, tmp_path: Path
) -> None:
    """As many are in flight as run at once: by their directories meanwhile, by their times afterwards."""
    run = tmp_path / "run"
    seen: dict[SlotKey, int] = {}
    in_flight: set[int] = set()
    pauses = count()

    def look(_: float) -> None:
        if next(pauses) % 4 == 0:
            starts = starts_of(converted(run)[0])
            in_flight.add(len(starts))
            for event in starts:
                seen.setdefault(slot(event), event["revision"])

    simulate_run(layout, run, 9, seed=7, start=START, pace_seconds=1.0, sleep=look, concurrency=4)
    events, _ = converted(run)
    results = {slot(event): event for event in trials_of(events)}
    assert seen.keys() == results.keys()
    assert all(revision < results[key]["revision"] for key, revision in seen.items())
    assert starts_of(events) == []
    times = [(event["started_at"], event["finished_at"]) for event in results.values()]
    at_once = {sum(start <= moment < end for start, end in times) for moment, _ in times}
    assert max(in_flight) == max(at_once) == 4


def parted(run: Path, files: Iterable[Path]) -> tuple[dict[SlotKey, Event], dict[SlotKey, Event]]:
    """Results of a run that are lost with these files, and the starts that are there instead."""
    before = {slot(event): event for event in trials_of(converted(run)[0])}
    for file in files:
        file.unlink()
    events, _ = converted(run)
    left = {slot(event) for event in trials_of(events)}
    starts = {slot(event): event for event in starts_of(events)}
    return {key: event for key, event in before.items() if key not in left}, starts


def copied(source: Path, folder: Path) -> Path:
    """A copy of a run directory, empty directories and times included."""
    copy = copy_tree(source, folder / source.name)
    for directory in (path for path in source.rglob("*") if path.is_dir()):
        (copy / directory.relative_to(source)).mkdir(parents=True, exist_ok=True)
    return copy


def test_real_trials_of_harbor_have_begun_where_their_result_is_missing(tmp_path: Path) -> None:
    """Each task was tried by two agents that are code; harbor wrote config.json right before `started_at`."""
    job = copied(unpack_jobs(tmp_path / "recorded") / "kinds", tmp_path)
    lost, starts = parted(job, sorted(job.glob("*/result.json"))[::2])
    assert len(lost) == 14
    assert starts.keys() == lost.keys()
    for key, event in starts.items():
        begun, said = (datetime.fromisoformat(one["started_at"]) for one in (event, lost[key]))
        assert timedelta() <= said - begun < timedelta(milliseconds=100)


def test_real_trials_of_scylla_have_begun_where_their_result_is_missing(tmp_path: Path) -> None:
    """The agent has ended there, and its files say when it began."""
    source = shared_data() / "scylla" / "dryrun" / "2026-01-20T06-13-07-test-001"
    run = copied(source, tmp_path)
    lost, starts = parted(run, sorted(run.rglob("run_result.json"))[::2])
    assert len(lost) == 2
    assert {key: event["started_at"] for key, event in starts.items()} == {
        key: event["started_at"] for key, event in lost.items()
    }


@pytest.mark.parametrize(
    ("task", "name", "attempt"),
    [
        ("oom", "oom.1-of-1.run1", 1),
        ("raman-fitting.easy", "raman-fitting.easy.3-of-5.run1", 3),
        ("oom", "oom.4-of-5", 4),
    ],
)
def test_a_trial_directory_of_terminal_bench_is_a_start(
    tmp_path: Path, task: str, name: str, attempt: int
) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    trial = a_begun_trial(run, task, name)
    for number, part in enumerate(("", "agent-logs", "panes", "sessions"), 1):
        os.utime(trial / part, (1_767_225_600 + number, 1_767_225_600 + number))
    (event,) = starts_of(converted(run)[0])
    assert event == {
        "run_id": "run1",
        "type": "trial_started",
        "task_id": task,
        "attempt": attempt,
        "agent": "terminus",
        "model": "gpt-5",
        "revision": 1_767_225_601_000_000_000,
        "started_at": "2026-01-01T00:00:01Z",
    }
    result = a_result(task, attempt, run="", trial_name=name)
    write_json(trial / "results.json", result)
    (filled,) = trials_of(converted(run)[0])
    assert slot(filled) == slot(event)


@pytest.mark.parametrize(
    "place", ["oom/oom.1-of-1.other", "oom/logs", "aside/oom.1-of-1.run1", "oom/x/oom.1-of-1"]
)
def test_directories_of_other_runs_and_out_of_place_are_no_starts(tmp_path: Path, place: str) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    (run / place).mkdir(parents=True)
    assert starts_of(converted(run)[0]) == []


def test_a_crash_that_stands_in_the_run_file_is_no_start(tmp_path: Path) -> None:
    crash = a_result(is_resolved=None, failure_mode="unknown_agent_error", parser_results=None)
    run = a_run(tmp_path / "run1", [], [crash], lock=LOCK)
    a_begun_trial(run, "oom", crash["trial_name"])
    events, _ = converted(run)
    assert [event["type"] for event in events] == ["run_started", "trial_result"]


def test_the_starts_of_a_copied_run_are_not_told_twice(tmp_path: Path) -> None:
    unpack_jobs(tmp_path)
    assert len(starts_of(converted(tmp_path / "running")[0])) == 2
    assert starts_of(converted(tmp_path)[0]) == []


def test_a_pooled_run_has_the_starts_of_its_shards(tmp_path: Path) -> None:
    for name in ("x", "y"):
        a_begun_trial(a_run(tmp_path / name, lock=LOCK))
    events, _ = converted(tmp_path, run_id="pool")
    assert [(event["run_id"], event["shard"]) for event in starts_of(events)] == [
        ("pool", "x"),
        ("pool", "y"),
    ]


# -----------------------------------------------------------------------------
# What is deleted, replaced or renamed in a directory that is followed is withdrawn only if it is gone.


def test_a_deleted_result_is_withdrawn_and_comes_back_with_its_file(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    file = run / "oom" / "oom.1-of-1.run1" / "results.json"
    with followed(run) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        file.rename(tmp_path / "kept")
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
        (tmp_path / "kept").rename(file)
        following.wait_until_converted()
    assert len(following.trials) == 3


def test_keeping_what_is_deleted_withdraws_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run, keep_deleted=True) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        shutil.rmtree(run / "oom")
        a_trial_file(run, a_result("c"))
        wait_for(lambda: following.follower.status.trials == 2, "another result")
    assert following.follower.status.withdrawn == 0


def test_a_run_that_is_removed_as_a_whole_keeps_its_results(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(tmp_path / "runs") as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        run.rename(tmp_path / "away")
        wait_for(lambda: following.follower.status.trials == 0, "nothing is there")
        a_run(tmp_path / "runs" / "run2", [a_result(run="run2")], lock=LOCK)
        wait_for(lambda: len(following.trials) == 3, "another run")
    assert following.follower.status.withdrawn == 0


def test_a_renamed_trial_directory_changes_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run, missing_seconds=60.0) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        (run / "oom").rename(run / "aside")
        (run / "aside").rename(run / "oom")
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        following.wait_until_converted()
    assert following.follower.status.withdrawn == 0


def test_a_directory_that_is_replaced_is_followed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    a_run(runs / "run1", [a_result()], lock=LOCK)
    with followed(runs) as following:
        wait_for(lambda: following.trials, "the first run")
        runs.rename(tmp_path / "old")
        a_run(runs / "run2", [a_result(run="run2")], lock=LOCK)
        wait_for(lambda: len(following.trials) == 2, "the second run")
        a_trial_file(runs / "run2", a_result("b", run="run2"))
        wait_for(lambda: len(following.trials) == 3, "a result that is written then")


def test_what_may_not_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    """A disk that fails, say: only a file that is known not to exist is deleted."""
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    loop = run / "oom"
    with followed(run, missing_seconds=1.0) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        shutil.rmtree(loop)
        os.symlink(loop, loop)
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            assert following.follower.status.withdrawn == 0
            time.sleep(POLL_SECONDS)


# -----------------------------------------------------------------------------
# What is published of a directory that is followed is what `convert` makes of it, whatever happens there.


REAL = ["terminal-bench", "orchestrator", "scylla", "fc-eval", "fc-eval, rough", "harbor"]
REAL += ["swe-bench", "swe-bench, logs", "every-eval-ever"]


@pytest.mark.parametrize("name", ["fc-eval, all", *(name for name in REAL if not name.startswith("fc-"))])
@pytest.mark.in_turn(2)
def test_a_finished_directory_is_published_once_and_as_convert_has_it(
    real: dict[str, Path], name: str
) -> None:
    with followed(real[name]) as following:
        following.wait_until_converted()
    assert len(following.events) == len({str(event) for event in following.events})
    assert following.follower.status.withdrawn == 0


@pytest.mark.parametrize("name", REAL)
@pytest.mark.in_turn(2)
def test_a_directory_that_is_being_copied_ends_as_convert_has_it(
    real: dict[str, Path], tmp_path: Path, name: str
) -> None:
    target = tmp_path / "not there yet" / real[name].name
    with followed(target) as following:
        copy_roughly(real[name], target, random.Random(name), pause=0.0002)
        following.wait_until_converted()
    assert following.digests == converted_digests(target)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(2)
def test_a_harness_that_is_running_is_followed_to_its_end(tmp_path: Path, layout: str) -> None:
    """Its whole plan comes before the first result, and each start once, in the slot of a result.

    Before the first start, too, unless the harness writes both while the directory is being read.
    """
    root = tmp_path / "runs"
    root.mkdir()
    with followed(root, still_seconds=60.0, missing_seconds=60.0) as following:
        simulate_run(layout, root / "run1", 10, seed=4, start=START, pace_seconds=0.3)
        following.wait_until_converted()
    kinds = [event["type"] for event in following.events]
    assert "run_finished" in kinds
    assert following.said == []
    *_, plan = [
        event for event in following.events[: kinds.index("trial_result")] if event["type"] == "run_started"
    ]
    assert {"tasks", "attempts", "agent_models"} <= plan.keys()
    assert plan["plan_complete"] is True
    assert layout == "scylla" or plan["order"], "what the harness says of the order"
    started = [slot(event) for event in starts_of(following.events)]
    assert started
    assert len(started) == len(set(started))
    assert set(started) <= set(map(slot, following.trials))


def test_half_a_file_is_never_published_and_never_lost(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    text = json.dumps(a_result())
    with followed(run, still_seconds=60.0) as following:
        for length in range(0, len(text), 40):
            path = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", text[:length])
            wait_for(lambda: following.follower.status.waiting == 1, "half a file is seen")
            assert not following.trials
        path.write_text(text)
        wait_for(lambda: following.trials, "the whole file")
    assert len(following.trials) == 1
    assert following.said == []


def test_a_file_that_stays_half_is_reported_and_published_when_it_is_mended(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    broken = write_json(run / "oom" / "oom.1-of-1.run1" / "results.json", '{"task_id": "oom", ')
    with followed(run) as following:
        wait_for(lambda: following.said, "the report")
        assert [event["task_id"] for event in following.trials] == ["b"]
        assert len(following.said) == 1
        assert str(broken) in following.said[0]
        assert "may be cut off" in following.said[0]
        write_json(broken, a_result())
        following.wait_until_converted()
    assert len(following.trials) == 2


def test_the_same_content_written_again_is_no_new_event(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "the first result")
        for _ in range(3):
            a_trial_file(run, a_result())
        a_trial_file(run, a_result("b"))
        wait_for(lambda: len(following.trials) == 2, "another result")
    assert [event["task_id"] for event in following.trials] == ["oom", "b"]


def test_a_corrected_file_counts_even_if_its_time_does_not_say_so(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    a_trial_file(run, a_result(is_resolved=False), mtime_ns=2_000)
    with followed(run) as following:
        wait_for(lambda: following.trials, "the first result")
        a_trial_file(run, a_result(is_resolved=True), mtime_ns=1_000)
        following.wait_until_converted()
    assert following.trials[-1]["revision"] == 2_001


def test_results_wait_for_a_lock_that_is_being_written(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    write_json(run / "tb.lock", json.dumps(LOCK)[:20])
    with followed(run, still_seconds=60.0) as following:
        wait_for(lambda: following.follower.status.waiting == 1, "half a lock is seen")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert [event["agent"] for event in following.trials] == ["terminus"]
    assert [event["tasks"] for event in following.events if event["type"] == "run_started"] == [["oom", "b"]]


def test_a_crashed_trial_that_is_run_again_is_corrected(tmp_path: Path) -> None:
    """The crash stands in the run-level file, which is newer than the result of the second try."""
    crash = a_result(is_resolved=None, failure_mode="unknown_agent_error", parser_results=None)
    run = a_run(tmp_path / "run1", [a_result("b")], [crash, a_result("b")], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: len(following.trials) == 2, "the crash and a result")
        a_trial_file(run, a_result(id="second try"), mtime_ns=1_000)
        following.wait_until_converted()
    last = following.trials[-1]
    assert (last["trial_id"], last["resolved"]) == ("second try", True)


def test_several_runs_are_pooled_as_convert_does(tmp_path: Path) -> None:
    options = ConvertOptions(run_id="pool")
    for name in ("x", "y"):
        a_run(tmp_path / name, [a_result(run=name)], lock=LOCK)
    with followed(tmp_path, options=options) as following:
        following.wait_until_converted()
        a_trial_file(tmp_path / "x", a_result("b", run="x"))
        following.wait_until_converted()
    assert {(event["run_id"], event["shard"]) for event in following.trials} == {("pool", "x"), ("pool", "y")}


# -----------------------------------------------------------------------------
# The plan is published before the first trial: the whole of it as soon as the harness wrote it.


CONFIGURATION = {
    "fc-eval": "fc.lock",
    "terminal-bench": "tb.lock",
    "scylla": "config/experiment.json",
    "harbor": "lock.json",
}
"""The file of each harness that names the tasks, or what else counts the trials."""


def plans_of(following: Followed) -> list[Event]:
    return [event for event in following.events if event["type"] == "run_started"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_a_configuration_is_an_incomplete_plan_until_it_is_whole(layout: str, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run1"
    simulate_run(layout, tmp_path / "whole" / "run1", 4, seed=1, start=START)
    shutil.copytree(tmp_path / "whole" / "run1", run)
    file = run / CONFIGURATION[layout]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with followed(run.parent) as following:
        wait_for(lambda: plans_of(following), "a plan")
        assert plans_of(following)[0]["plan_complete"] is False
        file.write_bytes(whole)
        wait_for(lambda: plans_of(following)[-1].get("plan_complete") is True, "the whole plan")
        following.wait_until_converted()


def scylla_without_configuration(root: Path) -> Path:
    simulate_run("scylla", root / "run1", 4, seed=1, start=START)
    (root / "run1" / "config" / "experiment.json").unlink()
    (root / "run1" / "checkpoint.json").write_text('{"status": "running"}')
    return root / "run1" / "checkpoint.json"


def swe_bench_before_its_report(root: Path) -> Path:
    (unpack_runs(root) / REPORT).unlink()
    return root / "logs" / "run_evaluation" / "nightly" / "run.json"


@pytest.mark.parametrize("written", [scylla_without_configuration, swe_bench_before_its_report])
def test_a_run_without_a_plan_is_as_before_once_a_file_broken_for_a_moment_is_mended(
    written: Callable[[Path], Path], tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    file = written(root)
    whole = file.read_bytes()
    file.write_text('{"half')
    with followed(root) as following:
        wait_for(lambda: plans_of(following), "a plan")
        assert plans_of(following)[0]["plan_complete"] is False
        file.write_bytes(whole)
        following.wait_until_converted()


def test_a_lock_that_was_broken_and_then_deleted_leaves_no_plan_to_wait_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result()])
    (run / "tb.lock").write_text('{"half')
    with followed(run.parent) as following:
        wait_for(lambda: plans_of(following), "a plan")
        assert plans_of(following)[0]["plan_complete"] is False
        (run / "tb.lock").unlink()
        following.wait_until_converted()
