"""What is published of a directory that is followed is what `convert` makes of it, whatever happens there."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streamer.sources.base import ConvertOptions
from streamer.sources.simulate import LAYOUTS, simulate_run
from streamer.sources.tail import follow
from streamer.sources.tail.scan import Scan, read_whole
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.support.tailing import converted_digests, copy_roughly, followed
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import LOCK, START

REAL = ["terminal-bench", "orchestrator", "scylla", "fc-eval", "fc-eval, rough", "harbor"]
REAL += ["swe-bench", "swe-bench, logs", "every-eval-ever"]


@pytest.mark.parametrize("name", [*REAL, "fc-eval, all"])
def test_a_finished_directory_is_published_once_and_as_convert_has_it(
    real: dict[str, Path], name: str
) -> None:
    with followed(real[name]) as following:
        following.wait_until_converted()
    assert len(following.events) == len({str(event) for event in following.events})
    assert following.follower.status.withdrawn == 0


@pytest.mark.parametrize("name", REAL)
def test_a_directory_that_is_being_copied_ends_as_convert_has_it(
    real: dict[str, Path], tmp_path: Path, name: str
) -> None:
    target = tmp_path / "not there yet" / real[name].name
    with followed(target) as following:
        copy_roughly(real[name], target, random.Random(name), pause=0.0002)
        following.wait_until_converted()
    assert following.digests == converted_digests(target)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_harness_that_is_running_is_followed_to_its_end(tmp_path: Path, layout: str) -> None:
    with followed(tmp_path / "run", still_seconds=60.0) as following:
        simulate_run(layout, tmp_path / "run", 20, seed=4, start=START, pace_seconds=0.02)
        following.wait_until_converted()
    kinds = Counter(event["type"] for event in following.events)
    assert kinds["run_started"] >= 1
    assert kinds["run_finished"] >= 1
    assert following.said == []


def test_each_result_is_published_although_the_whole_is_not_read_again_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of trials that takes many seconds; the part that changed takes a fraction of one."""
    run = a_run(tmp_path / "run1", lock=LOCK)
    for number in range(300):
        a_trial_file(run, a_result(f"old-{number}"))
    end = threading.Event()
    readings = 0

    def read_slowly(*arguments: Any) -> Scan:
        nonlocal readings
        readings += 1
        if readings > 1:
            end.wait()
        return read_whole(*arguments)

    monkeypatch.setattr(follow, "read_whole", read_slowly)
    try:
        with followed(run) as following:
            wait_for(lambda: len(following.trials) == 300, "what is there")
            for number in range(20):
                path = a_trial_file(run, a_result(f"new-{number}"))
                wait_for(lambda: len(following.trials) > 300 + number, f"{path}")  # noqa: B023
            end.set()
    finally:
        end.set()


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


def test_a_changed_file_is_published_as_the_same_slot(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(is_resolved=False)], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "the first result")
        a_trial_file(run, a_result(is_resolved=True))
        wait_for(lambda: len(following.trials) == 2, "the second one")
        following.wait_until_converted()
    first, second = following.trials
    assert (first["resolved"], second["resolved"]) == (False, True)
    assert second["revision"] > first["revision"]


def test_a_corrected_file_counts_even_if_its_time_does_not_say_so(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", lock=LOCK)
    a_trial_file(run, a_result(is_resolved=False), mtime_ns=2_000)
    with followed(run) as following:
        wait_for(lambda: following.trials, "the first result")
        a_trial_file(run, a_result(is_resolved=True), mtime_ns=1_000)
        following.wait_until_converted()
    assert following.trials[-1]["revision"] == 2_001


def test_results_from_before_the_lock_move_to_the_agent_that_it_names(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()])
    with followed(run) as following:
        wait_for(lambda: following.trials, "a result of nobody")
        write_json(run / "tb.lock", LOCK)
        following.wait_until_converted()
    assert [event["agent"] for event in following.trials] == ["unknown", "terminus"]
    (withdrawn,) = [event for event in following.events if event["type"] == "trial_retracted"]
    assert (withdrawn["agent"], withdrawn["task_id"]) == ("unknown", "oom")


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
