"""Newest trials and rejections, from a real broker."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of, partitions_of
from streamer.terminal.watch import following
from streamer.terminal.watch.following import newest_trials
from tests.support.events import a_retraction, a_trial
from tests.watch.driving import watching
from tests.watch.rejecting import reject
from tests.web.feeding import Feed


async def test_the_newest_trials_come_first_and_new_ones_as_they_come(
    logged: Settings, feed_of_both: Feed
) -> None:
    await feed_of_both.take([a_trial(task_id=f"old-{n}") for n in range(3)])
    await reject(logged)
    async with watching(logged, "run-1") as driver:
        await driver.shows("old-0", "old-1", "old-2", "passed", "rejections (0)")
        await feed_of_both.take([a_trial(task_id="new-1", resolved=False)])
        await driver.shows("new-1", "failed")
        assert driver.order("new-1", "old-0")[0] == "new-1"
        await feed_of_both.take([a_retraction(task_id="old-1")])
        await driver.until(lambda: "old-1" not in driver.text, "what was retracted is gone")


async def test_trials_of_other_runs_are_not_among_them(logged: Settings, feed_of_both: Feed) -> None:
    await feed_of_both.take([a_trial(run_id=f"other-{n}", task_id=f"other-{n}") for n in range(8)])
    await feed_of_both.take([a_trial(task_id="mine")])
    async with watching(logged, "run-1") as driver:
        await driver.shows("mine")
        assert "other-" not in driver.text


async def test_as_much_of_the_log_is_read_as_it_takes(
    logged: Settings, feed_of_both: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trial of the run lies before many of others in the same partition: the third look finds it."""
    monkeypatch.setattr(following, "FIRST_LOOK", 2)
    monkeypatch.setattr(following, "FURTHER", 4)
    await feed_of_both.take([a_trial(task_id="mine")])
    partitions = len(await partitions_of(logged, Names(logged.namespace).scored_trials))
    beside = [
        run
        for run in (f"other-{n}" for n in range(100))
        if partition_of(run, partitions) == partition_of("run-1", partitions)
    ]
    await feed_of_both.take([a_trial(run_id=run) for run in beside[:20]])
    assert len(beside) >= 20
    async with aclosing(newest_trials(logged, "run-1")) as batches:  # type: ignore[type-var]
        assert [row.task_id for row in await anext(batches)] == ["mine"]


async def test_only_so_many_trials_are_kept(
    logged: Settings, feed_of_both: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "KEPT", 3)
    await feed_of_both.take([a_trial(task_id=f"t{n}") for n in range(6)])
    async with aclosing(newest_trials(logged, "run-1")) as batches:  # type: ignore[type-var]
        assert len(await anext(batches)) == 3
