"""A directory that is followed gives the events that `convert` makes of it, and starts of trials."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event as Gate
from threading import Thread
from typing import Any

import pytest

from streamer.folding.slots import SlotKey, slot_key
from streamer.schemas.events import EVENT, TrialResult, TrialStarted
from streamer.sources.base import ConvertOptions
from streamer.sources.tail import Ledger, follow
from streamer.sources.tail.scan import Scan, read_whole
from tests.sources.builders import (
    LOCK,
    START,
    Event,
    a_begun_trial,
    a_result,
    a_run,
    a_trial_file,
    converted,
    trials_of,
    write_json,
)
from tests.sources.harbor import a_job, a_trial_result, unpack_jobs
from tests.sources.outcomes import a_tree, agree
from tests.sources.swe_bench import REPORT, unpack_runs
from tests.support.eventually import POLL_SECONDS
from tests.support.layouts import LAYOUTS, simulate_run
from tests.support.tailing import Followed, converted_digests, copy_roughly, followed, wait_for_digests
from tests.support.worker_process import wait_for

CRASH: Event = {"is_resolved": None, "failure_mode": "unknown_agent_error", "parser_results": None}


def starts_of(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trial_started"]


def slot(event: Event) -> SlotKey:
    parsed = EVENT.validate_json(json.dumps(event))
    assert isinstance(parsed, TrialResult | TrialStarted)
    return slot_key(parsed)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_start_that_is_seen_has_the_slot_of_its_result(layout: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("harness", "file", "count", "milliseconds"),
    [("harbor", "result.json", 14, 100), ("scylla", "run_result.json", 2, 0)],
)
def test_a_real_trial_has_begun_where_its_result_is_missing(
    real: dict[str, Path], tmp_path: Path, harness: str, file: str, count: int, milliseconds: int
) -> None:
    """Harbor's agents are code, and it wrote config.json right before. Files of Scylla say the time."""
    run = shutil.copytree(real[harness], tmp_path / real[harness].name)
    before = {slot(event): event for event in trials_of(converted(run)[0])}
    for result in sorted(run.rglob(file))[::2]:
        result.unlink()
    events, _ = converted(run)
    starts = {slot(event): event for event in starts_of(events)}
    assert starts.keys() == before.keys() - {slot(event) for event in trials_of(events)}
    assert len(starts) == count
    for key, event in starts.items():
        begun, said = (datetime.fromisoformat(one["started_at"]) for one in (event, before[key]))
        assert timedelta() <= said - begun <= timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("task", "attempt", "name"),
    [("oom", 1, "oom.1-of-1.run1"), ("easy.x", 3, "easy.x.3-of-5.run1"), ("oom", 4, "oom.4-of-5")],
)
def test_a_directory_of_terminal_bench_is_a_start(tmp_path: Path, task: str, attempt: int, name: str) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    trial = a_begun_trial(run, task, name)
    for number, part in enumerate(("", "agent-logs", "panes", "sessions"), 1):
        os.utime(trial / part, (1_767_225_600 + number, 1_767_225_600 + number))
    (event,) = starts_of(converted(run)[0])
    expected: Event = {"type": "trial_started", "run_id": "run1", "task_id": task, "attempt": attempt}
    expected |= {"agent": "terminus", "model": "gpt-5", "revision": 1_767_225_601_000_000_000}
    assert event == expected | {"started_at": "2026-01-01T00:00:01Z"}
    write_json(trial / "results.json", a_result(task, attempt, run="", trial_name=name))
    (filled,) = trials_of(converted(run)[0])
    assert slot(filled) == slot(event)


@pytest.mark.parametrize(
    "place", ["oom/oom.1-of-1.other", "oom/logs", "aside/oom.1-of-1.run1", "oom/x/oom.1-of-1"]
)
def test_directories_of_other_runs_and_out_of_place_are_no_starts(tmp_path: Path, place: str) -> None:
    agree({"begun": []}, a_tree(a_run(tmp_path / "run1", [a_result("b")], lock=LOCK), {place: None}))


def test_a_crash_that_stands_in_the_run_file_is_no_start(tmp_path: Path) -> None:
    crash = a_result(**CRASH)
    run = a_run(tmp_path / "run1", [], [crash], lock=LOCK)
    a_begun_trial(run, "oom", crash["trial_name"])
    agree({"types": ["run_started", "trial_result"]}, run)


def test_the_starts_of_a_copied_run_are_not_told_twice(tmp_path: Path) -> None:
    unpack_jobs(tmp_path)
    assert len(starts_of(converted(tmp_path / "running")[0])) == 2
    agree({"begun": []}, tmp_path)


def test_a_pooled_run_has_the_starts_of_its_shards(tmp_path: Path) -> None:
    for name in ("x", "y"):
        a_begun_trial(a_run(tmp_path / name, lock=LOCK))
    starts = starts_of(converted(tmp_path, run_id="pool")[0])
    assert [(event["run_id"], event["shard"]) for event in starts] == [("pool", "x"), ("pool", "y")]


@contextmanager
def both_results(tmp_path: Path, lock: Event | None = LOCK, **more: Any) -> Iterator[tuple[Path, Followed]]:
    """A run with two results that are published, and its follower."""
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=lock)
    with followed(run, **more) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        yield run, following


def test_a_deleted_result_is_withdrawn_and_comes_back_with_its_file(tmp_path: Path) -> None:
    with both_results(tmp_path) as (run, following):
        file = run / "oom" / "oom.1-of-1.run1" / "results.json"
        file.rename(tmp_path / "kept")
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
        (tmp_path / "kept").rename(file)
        following.wait_until_converted()
    assert len(following.trials) == 3


def test_keeping_what_is_deleted_withdraws_nothing(tmp_path: Path) -> None:
    with both_results(tmp_path, keep_deleted=True) as (run, following):
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
    with both_results(tmp_path, missing_seconds=60.0) as (run, following):
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
    with both_results(tmp_path, missing_seconds=1.0) as (run, following):
        shutil.rmtree(run / "oom")
        os.symlink(run / "oom", run / "oom")
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            assert following.follower.status.withdrawn == 0
            time.sleep(POLL_SECONDS)


REAL = ["terminal-bench", "orchestrator", "scylla", "fc-eval", "fc-eval, rough", "harbor"]
REAL += ["swe-bench", "swe-bench, logs", "every-eval-ever"]


@pytest.mark.parametrize("name", ["fc-eval, all", *(name for name in REAL if not name.startswith("fc-"))])
@pytest.mark.in_turn(2)
def test_a_finished_directory_is_published_as_convert_has_it(real: dict[str, Path], name: str) -> None:
    with followed(real[name]) as following:
        following.wait_until_converted()
    assert len(following.events) == len({str(event) for event in following.events})
    assert following.follower.status.withdrawn == 0


@pytest.mark.parametrize("name", REAL)
@pytest.mark.in_turn(2)
def test_a_copy_in_the_making_ends_as_convert_has(real: dict[str, Path], tmp_path: Path, name: str) -> None:
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
    before = following.events[: kinds.index("trial_result")]
    *_, plan = [event for event in before if event["type"] == "run_started"]
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
        [said] = following.said
        assert str(broken) in said
        assert "may be cut off" in said
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
    assert [event["tasks"] for event in plans_of(following)] == [["oom", "b"]]


def test_a_crashed_trial_that_is_run_again_is_corrected(tmp_path: Path) -> None:
    """The crash stands in the run-level file, which is newer than the result of the second try."""
    run = a_run(tmp_path / "run1", [a_result("b")], [a_result(**CRASH), a_result("b")], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: len(following.trials) == 2, "the crash and a result")
        a_trial_file(run, a_result(id="second try"), mtime_ns=1_000)
        following.wait_until_converted()
    assert [following.trials[-1][name] for name in ("trial_id", "resolved")] == ["second try", True]


def test_several_runs_are_pooled_as_convert_does(tmp_path: Path) -> None:
    options = ConvertOptions(run_id="pool")
    for name in ("x", "y"):
        a_run(tmp_path / name, [a_result(run=name)], lock=LOCK)
    with followed(tmp_path, options=options) as following:
        following.wait_until_converted()
        a_trial_file(tmp_path / "x", a_result("b", run="x"))
        following.wait_until_converted()
    assert {(event["run_id"], event["shard"]) for event in following.trials} == {("pool", "x"), ("pool", "y")}


def plans_of(following: Followed) -> list[Event]:
    return [event for event in following.events if event["type"] == "run_started"]


def scylla_without_configuration(root: Path) -> Path:
    simulate_run("scylla", root / "run1", 4, seed=1, start=START)
    (root / "run1" / "config" / "experiment.json").unlink()
    return write_json(root / "run1" / "checkpoint.json", {"status": "running"})


def swe_bench_before_its_report(root: Path) -> Path:
    (unpack_runs(root) / REPORT).unlink()
    return root / "logs" / "run_evaluation" / "nightly" / "run.json"


def of_layout(layout: str, file: str) -> Callable[[Path], Path]:
    def written(root: Path) -> Path:
        simulate_run(layout, root / "run1", 4, seed=1, start=START)
        return root / "run1" / file

    return written


PLANNING: dict[str, Callable[[Path], Path]] = {
    "fc-eval": of_layout("fc-eval", "fc.lock"),
    "terminal-bench": of_layout("terminal-bench", "tb.lock"),
    "scylla": of_layout("scylla", "config/experiment.json"),
    "harbor": of_layout("harbor", "lock.json"),
    "scylla without a plan": scylla_without_configuration,
    "swe-bench without a plan": swe_bench_before_its_report,
}
"""The file of each harness that names the tasks, or what else counts the trials."""


@pytest.mark.parametrize("name", PLANNING)
def test_half_a_file_that_plans_is_an_incomplete_plan_until_it_is_whole(name: str, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    file = PLANNING[name](root)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with followed(root) as following:
        wait_for(lambda: plans_of(following), "a plan")
        assert plans_of(following)[0]["plan_complete"] is False
        file.write_bytes(whole)
        if name in LAYOUTS:
            wait_for(lambda: plans_of(following)[-1].get("plan_complete") is True, "the whole plan")
        following.wait_until_converted()


def test_a_lock_that_was_broken_and_then_deleted_leaves_no_plan_to_wait_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result()])
    write_json(run / "tb.lock", '{"half')
    with followed(run.parent) as following:
        wait_for(lambda: plans_of(following), "a plan")
        assert plans_of(following)[0]["plan_complete"] is False
        (run / "tb.lock").unlink()
        following.wait_until_converted()


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The first reading of the whole is let through; the others wait until this is set."""
    go_on, readings = Gate(), count()

    def read(*arguments: Any) -> Scan:
        if next(readings):
            go_on.wait()
        return read_whole(*arguments)

    monkeypatch.setattr(follow, "read_whole", read)
    yield go_on
    go_on.set()


def a_big_run(path: Path) -> Path:
    return a_run(path, [a_result(f"old-{number}", run=path.name) for number in range(50)], lock=LOCK)


@contextmanager
def followed_in_part(root: Path, whole: Gate, **more: Any) -> Iterator[Followed]:
    """Follow a directory that is read as a whole once, and at the end of the block again."""
    with followed(root, **more) as following:
        wait_for(lambda: following.follower.status.readings == 1, "what is there")
        yield following
        whole.set()
        following.wait_until_converted()


def of_run(following: Followed, run_id: str) -> list[Event]:
    return [event for event in following.events if event["run_id"] == run_id]


def results_of(following: Followed, run_id: str) -> set[str]:
    return {event["trial_name"] for event in following.trials if event["run_id"] == run_id}


@pytest.mark.parametrize("where", ["", "team/2026"])
def test_a_new_run_beside_a_big_one_needs_no_whole(tmp_path: Path, whole: Gate, where: str) -> None:
    a_big_run(tmp_path / "big")
    with followed_in_part(tmp_path, whole) as following:
        new = a_run(tmp_path / where / "new", [a_result(run="new")], lock=LOCK)
        wait_for(lambda: len(of_run(following, "new")) == 2, "its plan and its result")
        a_trial_file(new, a_result("b", run="new"))
        wait_for(lambda: len(of_run(following, "new")) == 3, "another result")
        a_trial_file(tmp_path / "big", a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the big one")
        before = list(following.events)
    assert {event["type"] for event in before} == {"run_started", "trial_result"}
    assert following.events == before


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(2)
def test_a_new_run_of_any_harness_needs_no_whole(tmp_path: Path, whole: Gate, layout: str) -> None:
    simulate_run(layout, tmp_path / "there", 20, seed=1, start=START)
    with followed_in_part(tmp_path, whole) as following:
        simulate_run(layout, tmp_path / "new", 20, seed=2, start=START, pace_seconds=0.02)
        least = 0.8 * len(results_of(following, "there"))
        wait_for(lambda: len(results_of(following, "new")) >= least, "its results")
        whole_run = {"run_started", "run_finished"}
        wait_for(lambda: whole_run <= {e["type"] for e in of_run(following, "new")}, "its plan and its end")


@pytest.mark.parametrize("pool", [None, "pool"])
def test_a_trial_of_the_run_level_file_needs_no_whole(tmp_path: Path, whole: Gate, pool: str | None) -> None:
    run = a_big_run(tmp_path / "run1")
    options = ConvertOptions(run_id=pool)
    with followed_in_part(run, whole, options=options) as following:
        done = [a_result(f"old-{number}") for number in range(50)]
        write_json(run / "results.json", {"results": [*done, a_result("b", **CRASH)]})
        wait_for(lambda: len(following.trials) == 51, "the crash")
        a_trial_file(run, a_result())
        wait_for(lambda: len(following.trials) == 52, "a result")
        write_json(run / "results.json", {"results": [*done, a_result("b", **CRASH), a_result()]})
        a_trial_file(run, a_result("last"))
        wait_for(lambda: len(following.trials) == 53, "another result")
        assert following.trials[50]["failure_mode"] == "unknown_agent_error"
    assert len(following.trials) == 53


def test_agents_of_the_run_level_file_need_no_whole(tmp_path: Path, whole: Gate) -> None:
    simulate_run("fc-eval", tmp_path / "run", 20, seed=4, start=START)
    complete = json.loads((tmp_path / "run" / "results.json").read_text())
    directory = next(path.parent for path in sorted((tmp_path / "run").rglob("*agent-2*/results.json")))
    trial = directory.name.partition(".agent-")[0]
    kept = [entry for entry in complete["results"] if not entry["trial_name"].startswith(trial)]
    for path in directory.parent.glob(f"{trial}*"):
        if ".agent-1-" not in path.name:
            shutil.rmtree(path)
    write_json(tmp_path / "run" / "results.json", complete | {"results": kept})
    with followed_in_part(tmp_path / "run", whole, missing_seconds=60.0) as following:
        before = len(following.trials)
        write_json(tmp_path / "run" / "results.json", complete)
        wait_for(lambda: len(following.trials) == before + 2, "the two agents that left nothing")
    assert len(following.trials) == before + 2
    assert [event["agent"] for event in following.trials[before:]] == ["oracle", "terminus-2"]
    assert all(event["benchmarks"] and event["tests"] for event in following.trials[before:])


def test_what_a_run_says_of_itself_needs_no_whole(tmp_path: Path, whole: Gate) -> None:
    run = a_big_run(tmp_path / "run1")
    with followed_in_part(run, whole) as following:
        write_json(run / "run_metadata.json", {"run_id": "run1", "end_time": "2026-01-02T10:00:00+00:00"})
        wait_for(lambda: following.events[-1]["type"] == "run_finished", "the end")


def test_r35_a_run_with_fewer_trials_than_announced_never_ends_as_completed(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    write_json(run / "results.json", {"results": [], "n_resolved": 2})
    with followed(run) as following:
        wait_for(lambda: following.follower.status.readings >= 2, "what is there")
        write_json(run / "run_metadata.json", {"run_id": "run1", "end_time": "2026-01-02T10:00:00+00:00"})
        following.wait_until_converted()
    ends = {event["status"] for event in following.events if event["type"] == "run_finished"}
    assert ends == {"interrupted"}


def test_results_of_a_new_run_wait_for_its_lock(tmp_path: Path, whole: Gate) -> None:
    a_big_run(tmp_path / "big")
    with followed_in_part(tmp_path, whole, still_seconds=60.0) as following:
        write_json(tmp_path / "new" / "tb.lock", json.dumps(LOCK)[:20])
        a_trial_file(tmp_path / "new", a_result(run="new"))
        a_trial_file(tmp_path / "big", a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the other run")
        assert of_run(following, "new") == []
        write_json(tmp_path / "new" / "tb.lock", LOCK)
        wait_for(lambda: len(of_run(following, "new")) == 2, "its plan and its result")
    assert [event["agent"] for event in of_run(following, "new") if "agent" in event] == ["terminus"]


def test_a_second_run_of_one_name_is_left_to_the_whole(tmp_path: Path, whole: Gate) -> None:
    a_big_run(tmp_path / "a" / "run1")
    with followed(tmp_path, missing_seconds=60.0) as following:
        wait_for(lambda: following.follower.status.readings == 1, "what is there")
        a_run(tmp_path / "b" / "run1", [a_result("other", id="another")], lock=LOCK)
        a_trial_file(tmp_path / "a" / "run1", a_result("newer"))
        wait_for(lambda: len(following.trials) == 51, "a result of the first one")
        assert "other" not in {event["task_id"] for event in following.trials}
        whole.set()
        wait_for(lambda: of_run(following, "b/run1"), "its results under a name of its own")


def test_a_copy_of_a_run_is_left_to_the_whole(tmp_path: Path, whole: Gate) -> None:
    """Nothing but the ids of its trials says so: its metadata does not name the original."""
    big = a_big_run(tmp_path / "big")
    with followed_in_part(tmp_path, whole) as following:
        shutil.copytree(big / "old-1", tmp_path / "copy" / "old-1")
        write_json(tmp_path / "copy" / "tb.lock", LOCK)
        a_trial_file(big, a_result("newer", run="big"))
        wait_for(lambda: len(of_run(following, "big")) == 52, "a result of the original")
    assert [event for event in of_run(following, "copy") if event["type"] == "trial_result"] == []


def restarted(lines: Iterable[Event]) -> Ledger:
    """The ledger as the journal has it after a kill."""
    ledger = Ledger()
    for line in lines:
        ledger.restore(json.loads(json.dumps(line)))
    return ledger


def test_a_restart_knows_what_was_published_and_is_gone(tmp_path: Path) -> None:
    with both_results(tmp_path, lock=None) as (run, before):
        pass
    shutil.rmtree(run / "b")
    write_json(run / "tb.lock", LOCK)
    with followed(run, restarted(before.lines)) as after:
        wait_for_digests(lambda: before.events + after.events, converted_digests(run))


def test_a_withdrawal_that_was_noted_and_not_published_is_made_up_for(tmp_path: Path) -> None:
    with both_results(tmp_path) as (run, before):
        shutil.rmtree(run / "b")
        wait_for(lambda: before.follower.status.withdrawn == 1, "the withdrawal")
    published = [event for event in before.events if event["type"] != "trial_retracted"]
    with followed(run, restarted(before.lines)) as after:
        wait_for_digests(lambda: published + after.events, converted_digests(run))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.in_turn(2)
def test_any_number_of_restarts_during_a_run_end_as_convert_has_it(tmp_path: Path, layout: str) -> None:
    run = tmp_path / "run"
    rng = random.Random(layout)
    at_its_pace = partial(simulate_run, layout, run, 24, seed=8, start=START, pace_seconds=0.05)
    harness = Thread(target=at_its_pace)
    harness.start()
    published: list[dict[str, object]] = []
    ledger = Ledger()
    while harness.is_alive():
        with followed(run, ledger) as following:
            harness.join(rng.random() * 0.5)
        published += following.events[: rng.randrange(len(following.events) + 1)]
        ledger = restarted(list(ledger.dump()))
    with followed(run, ledger) as following:
        wait_for_digests(lambda: [*published, *following.events], converted_digests(run))


def kinds_of(following: Followed) -> list[str]:
    return [event["type"] for event in following.events if event["type"] != "run_started"]


def begin_in_harbor(job: Path, name: str = "t__abc1234") -> Path:
    """The directory of a trial as harbor makes it first; its agent is named in both files."""
    config: Event = {"trial_name": name, "agent": {"name": "codex", "model_name": "openai/gpt-5"}}
    write_json(job / name / "config.json", config | {"task": {"path": "tasks/t"}})
    write_json(job / name / "lock.json", {"task": {"name": "t"}, "agent": config["agent"]})
    return job / name


@pytest.mark.parametrize("harness", ["terminal-bench", "harbor"])
def test_a_trial_is_in_flight_until_its_result_comes(tmp_path: Path, harness: str) -> None:
    is_harbor = harness == "harbor"
    run = a_job(tmp_path / "job") if is_harbor else a_run(tmp_path / "run1", lock=LOCK)
    with followed(run) as following:
        trial = begin_in_harbor(run) if is_harbor else a_begun_trial(run)
        wait_for(lambda: starts_of(following.events), "the start")
        following.wait_until_converted()
        result, name = (a_trial_result(), "result.json") if is_harbor else (a_result(), "results.json")
        write_json(trial / name, result)
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert kinds_of(following) == ["trial_started", "trial_result"]
    [start], [ended] = starts_of(following.events), following.trials
    assert slot(start) == slot(ended)
    assert start["revision"] < ended["revision"]


def test_a_start_from_before_the_lock_moves_to_the_agent_that_it_names(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")])
    a_begun_trial(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following.events), "a start of nobody")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: len(starts_of(following.events)) == 2, "the start of the agent")
        following.wait_until_converted()
    assert [event["agent"] for event in starts_of(following.events)] == ["unknown", "terminus"]
    withdrawn = [event["task_id"] for event in following.events if event["type"] == "trial_retracted"]
    assert sorted(withdrawn) == ["b", "oom"]


def test_a_start_is_withdrawn_when_the_directory_of_its_trial_goes(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result("b")], lock=LOCK)
    trial = a_begun_trial(run)
    with followed(run) as following:
        wait_for(lambda: starts_of(following.events), "the start")
        shutil.rmtree(trial.parent)
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
    assert following.events[-1]["revision"] == starts_of(following.events)[0]["revision"]


def test_a_retry_of_harbor_begins_once_more(tmp_path: Path) -> None:
    """Its directory is deleted with the result of the first try, and made again."""
    job = a_job(tmp_path / "job")
    begin_in_harbor(job, "other__1234567")
    with followed(job) as following:
        trial = begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following.events)) == 2, "both starts")
        write_json(trial / "result.json", a_trial_result(exception_info={"exception_type": "RuntimeError"}))
        wait_for(lambda: following.trials, "the result of the first try")
        shutil.rmtree(trial)
        begin_in_harbor(job)
        wait_for(lambda: len(starts_of(following.events)) == 3, "the start of the second try")
        following.wait_until_converted()
        write_json(trial / "result.json", a_trial_result())
        following.wait_until_converted()
    again = kinds_of(following)[2:]
    assert again == ["trial_result", "trial_retracted", "trial_started", "trial_result"]
    first, retracted, second, last = (event["revision"] for event in following.events[-4:])
    assert first <= retracted < second < last
