"""What is published of a directory that is followed is what `convert` makes of it, whatever happens there."""

from __future__ import annotations

import json
import os
import random
import shutil
import tarfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamer.client.tail import follow
from streamer.client.tail.ledger import Ledger
from streamer.client.tail.reading import Reading, read_whole
from streamer.sources.base import ConvertOptions
from streamer.sources.simulate import LAYOUTS, simulate_run
from tests.sources.builders import a_result, a_run, a_trial_file, write_json
from tests.support.data import shared_data
from tests.support.eventually import POLL_SECONDS
from tests.support.tailing import Followed, converted_digests, copy_roughly, digests_of, followed
from tests.support.worker_process import wait_for

HARBOR_JOBS = Path(__file__).parents[1] / "sources" / "harbor" / "jobs.tar.gz"
START = datetime(2026, 1, 2, tzinfo=UTC)
LOCK = {
    "agent": {"name": "terminus", "model_name": "gpt-5"},
    "dataset": {"task_ids": ["oom", "b"], "name": "core"},
    "run_config": {"n_attempts": 1},
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real run directories of each harness."""
    folder = tmp_path_factory.mktemp("fc-eval")
    with tarfile.open(shared_data() / "formulacode" / "runs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (home,) = {path.parent.parent for path in folder.rglob("fc.lock")}
    jobs = tmp_path_factory.mktemp("harbor")
    with tarfile.open(HARBOR_JOBS) as archive:
        archive.extractall(jobs, filter="data")
    return {
        "terminal-bench": shared_data() / "terminal_bench" / "runs" / "20250924_droid_gpt-5",
        "orchestrator": shared_data() / "terminal_bench" / "runs" / "20250902_orchestrator_qwen-3-coder-480B",
        "scylla": shared_data() / "scylla" / "dryrun",
        "fc-eval": home / "fc-two-attempts",
        "fc-eval, rough": home / "fc-rough",
        "fc-eval, all": home,
        "harbor": jobs / "kinds",
    }


REAL = ["terminal-bench", "orchestrator", "scylla", "fc-eval", "fc-eval, rough", "harbor"]


@pytest.mark.parametrize("name", [*REAL, "fc-eval, all"])
def test_a_finished_directory_is_published_once_and_as_convert_has_it(
    real: dict[str, Path], name: str
) -> None:
    with followed(real[name]) as following:
        following.wait_until_converted()
    assert len(following.events) == len({str(event) for event in following.events})
    assert following.follower.standing.withdrawn == 0


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

    def read_slowly(*arguments: Any) -> Reading:
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
            wait_for(lambda: following.follower.standing.waiting == 1, "half a file is seen")
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
        wait_for(lambda: following.follower.standing.waiting == 1, "half a lock is seen")
        write_json(run / "tb.lock", LOCK)
        wait_for(lambda: following.trials, "the result")
        following.wait_until_converted()
    assert [event["agent"] for event in following.trials] == ["terminus"]
    assert [event["tasks"] for event in following.events if event["type"] == "run_started"] == [["oom", "b"]]


def test_a_deleted_result_is_withdrawn_and_comes_back_with_its_file(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    file = run / "oom" / "oom.1-of-1.run1" / "results.json"
    with followed(run) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        file.rename(tmp_path / "kept")
        wait_for(lambda: following.follower.standing.withdrawn == 1, "the withdrawal")
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
        wait_for(lambda: following.follower.standing.trials == 2, "another result")
    assert following.follower.standing.withdrawn == 0


def test_a_run_that_is_removed_as_a_whole_keeps_its_results(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(tmp_path / "runs") as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        run.rename(tmp_path / "away")
        wait_for(lambda: following.follower.standing.trials == 0, "nothing is there")
        a_run(tmp_path / "runs" / "run2", [a_result(run="run2")], lock=LOCK)
        wait_for(lambda: len(following.trials) == 3, "another run")
    assert following.follower.standing.withdrawn == 0


def test_a_renamed_trial_directory_changes_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run, gone_seconds=60.0) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        (run / "oom").rename(run / "aside")
        (run / "aside").rename(run / "oom")
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        following.wait_until_converted()
    assert following.follower.standing.withdrawn == 0


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


def restarted(before: Followed) -> Ledger:
    """The ledger as the journal has it after a kill."""
    ledger = Ledger()
    for line in before.lines:
        ledger.restore(json.loads(json.dumps(line)))
    return ledger


def test_a_restart_publishes_the_same_events_again(real: dict[str, Path]) -> None:
    with followed(real["fc-eval"]) as before:
        before.wait_until_converted()
    with followed(real["fc-eval"], restarted(before)) as after:
        after.wait_until_converted()
    assert after.events == before.events


def test_a_restart_knows_what_was_published_and_is_gone(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")])
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results, of nobody")
    shutil.rmtree(run / "b")
    write_json(run / "tb.lock", LOCK)
    with followed(run, restarted(before)) as after:
        wanted = converted_digests(run)
        wait_for(lambda: digests_of(before.events + after.events) == wanted, "the digests of convert")


def test_a_withdrawal_that_was_noted_and_not_published_is_made_up_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    with followed(run) as before:
        wait_for(lambda: len(before.trials) == 2, "both results")
        shutil.rmtree(run / "b")
        wait_for(lambda: before.follower.standing.withdrawn == 1, "the withdrawal")
    published = [event for event in before.events if event["type"] != "trial_retracted"]
    with followed(run, restarted(before)) as after:
        wanted = converted_digests(run)
        wait_for(lambda: digests_of(published + after.events) == wanted, "the digests of convert")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_restarts_during_a_run_end_as_convert_has_it(tmp_path: Path, layout: str) -> None:
    run = tmp_path / "run"
    rng = random.Random(layout)
    harness = threading.Thread(
        target=simulate_run, args=(layout, run, 24), kwargs={"seed": 8, "start": START, "pace_seconds": 0.05}
    )
    harness.start()
    published: list[dict[str, object]] = []
    ledger = Ledger()
    while harness.is_alive():
        with followed(run, ledger) as following:
            harness.join(rng.random() * 0.5)
        published += following.events[: rng.randrange(len(following.events) + 1)]
        lines = list(ledger.dump())
        ledger = Ledger()
        for line in lines:
            ledger.restore(line)
    with followed(run, ledger) as following:
        wanted = converted_digests(run)
        wait_for(lambda: digests_of([*published, *following.events]) == wanted, "the digests of convert")


def test_the_system_that_tells_of_no_changes_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr("streamer.client.tail.watching.watch", refuse)
    run = a_run(tmp_path / "run1", [a_result()], lock=LOCK)
    with followed(run) as following:
        wait_for(lambda: following.trials, "what is there")
        a_trial_file(run, a_result("b"))
        wait_for(lambda: len(following.trials) == 2, "another result")
    assert ["watch limit" in line for line in following.said] == [True]


def test_what_may_not_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    """A disk that fails, say: only a file that is known not to exist is deleted."""
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], lock=LOCK)
    loop = run / "oom"
    with followed(run, gone_seconds=3.0) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        shutil.rmtree(loop)
        os.symlink(loop, loop)
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        deadline = time.monotonic() + 4.0
        while time.monotonic() < deadline:
            assert following.follower.standing.withdrawn == 0
            time.sleep(POLL_SECONDS)


def test_a_trial_that_harbor_deletes_to_run_it_again_is_withdrawn_meanwhile(tmp_path: Path) -> None:
    """Its name is the shard, so nothing else of that shard is left."""
    job = tmp_path / "job"
    simulate_run("harbor", job, 4, seed=1, start=START)
    trial = sorted(path for path in job.iterdir() if path.is_dir())[0]
    with followed(job) as following:
        wait_for(lambda: len(following.trials) == 4, "all results")
        shutil.copytree(trial, tmp_path / "kept")
        shutil.rmtree(trial)
        wait_for(lambda: following.follower.standing.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
        shutil.copytree(tmp_path / "kept", trial)
        following.wait_until_converted()
