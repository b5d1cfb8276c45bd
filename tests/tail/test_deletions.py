"""What is deleted, replaced or renamed in a directory that is followed is withdrawn only if it is gone."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from streamer.sources.simulate import simulate_run
from tests.sources.builders import a_result, a_run, a_trial_file
from tests.support.eventually import POLL_SECONDS
from tests.support.tailing import followed
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import LOCK, START


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
    with followed(run, gone_seconds=60.0) as following:
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
    with followed(run, gone_seconds=1.0) as following:
        wait_for(lambda: len(following.trials) == 2, "both results")
        shutil.rmtree(loop)
        os.symlink(loop, loop)
        a_trial_file(run, a_result("c"))
        wait_for(lambda: len(following.trials) == 3, "another result")
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            assert following.follower.status.withdrawn == 0
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
        wait_for(lambda: following.follower.status.withdrawn == 1, "the withdrawal")
        following.wait_until_converted()
        shutil.copytree(tmp_path / "kept", trial)
        following.wait_until_converted()
