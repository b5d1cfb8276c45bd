"""The plan is published before the first trial: the whole of it as soon as the harness wrote it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.sources.simulate import LAYOUTS, simulate_run
from tests.sources.builders import a_result, a_run
from tests.sources.swe_bench import REPORT, unpack_runs
from tests.support.tailing import Event, Followed, followed
from tests.support.worker_process import wait_for
from tests.tail.followed_runs import START

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
def test_the_whole_plan_comes_before_the_first_trial_while_the_harness_writes(
    layout: str, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    with followed(root) as following:
        simulate_run(layout, root / "run1", 4, seed=1, start=START, pace_seconds=0.3)
        following.wait_until_converted()
    kinds = [event["type"] for event in following.events]
    first = next(number for number, kind in enumerate(kinds) if kind.startswith("trial_"))
    plans = [event for event in following.events[:first] if event["type"] == "run_started"]
    assert {"tasks", "attempts", "agent_models"} <= plans[-1].keys()
    assert plans[-1]["plan_complete"] is True
    assert layout == "scylla" or plans[-1]["order"], "what the harness says of the order"


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
