"""Logs of inspect_ai that are followed: files, not directories, which inspect_ai replaces as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sources.inspect import the_log, unpack_logs
from tests.support.tailing import converted_digests, followed
from tests.support.worker_process import wait_for


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_logs(tmp_path_factory.mktemp("recorded"))


def put(log: Path, logs: Path) -> None:
    """Write a log as inspect_ai does: beside it, and then in its place."""
    logs.mkdir(exist_ok=True)
    partial = logs / f"{log.name}.tmp"
    shutil.copyfile(log, partial)
    partial.replace(logs / log.name)


def test_samples_are_published_as_the_log_grows(recorded: Path, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with followed(logs) as following:
        put(the_log(recorded / "growing"), logs)
        following.wait_until_converted()
        so_far = len(following.trials)
        assert 4 <= so_far < 18
        put(the_log(recorded / "grown"), logs)
        following.wait_until_converted()
    assert len(following.trials) == 18
    plan, *_ = following.events
    assert plan["type"] == "run_started"
    assert {"tasks", "attempts", "agent_models", "order"} <= plan.keys()
    assert [event["type"] for event in following.events].count("run_finished") == 1


def test_a_retry_gives_the_run_one_plan_however_often_the_logs_are_read(
    recorded: Path, tmp_path: Path
) -> None:
    first, second = sorted((recorded / "retried").iterdir())
    logs = tmp_path / "logs"
    with followed(logs) as following:
        put(first, logs)
        following.wait_until_converted()
        put(second, logs)
        following.wait_until_converted()
        readings = following.follower.status.readings
        put(second, logs)
        wait_for(lambda: following.follower.status.readings > readings, "one more reading")
    plans = [event["revision"] for event in following.events if event["type"] == "run_started"]
    assert len(plans) == len(set(plans)) == 2
    assert following.digests == converted_digests(logs)
