"""Newest trials and rejections, from a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import partitions_of
from streamer.settings import Settings
from streamer.watch import newest
from streamer.watch.newest import newest_trials
from tests.support.events import a_plan, a_retraction, a_trial
from tests.watch.driving import LARGE, watching
from tests.watch.rejecting import reject
from tests.web.feeding import Feed

NOT_JSON = b"not JSON \x1b[31m"
WRONG = b'{"type":"trial_result","run_id":"run-1","task_id":"task-1","resolved":"yes"}'


@pytest.fixture
async def feed_of_both(logged: Settings) -> AsyncIterator[Feed]:
    """A feed into Redis and the log."""
    async with Feed(logged, log=True) as feed:
        yield feed


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
    monkeypatch.setattr(newest, "FIRST_LOOK", 2)
    monkeypatch.setattr(newest, "FURTHER", 4)
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
    monkeypatch.setattr(newest, "KEPT", 3)
    await feed_of_both.take([a_trial(task_id=f"t{n}") for n in range(6)])
    async with aclosing(newest_trials(logged, "run-1")) as batches:  # type: ignore[type-var]
        assert len(await anext(batches)) == 3


async def test_rejections_are_counted_by_run_and_the_newest_is_shown(
    logged: Settings, feed_of_both: Feed
) -> None:
    await feed_of_both.take([a_plan(tasks=3), a_trial()])
    await reject(logged, NOT_JSON, WRONG)
    async with watching(logged, "run-1", LARGE) as driver:
        await driver.shows("rejections (1)", "1 more name no run", "invalid_field", "Field 'resolved'")
        await reject(logged, WRONG.replace(b'"yes"', b'"[bold]no[/]"'))
        await driver.shows("rejections (2)", "'[bold]no[/]'")
        await driver.press("escape")
        await driver.shows("3 rejections in the log (streamer rejections list)")


async def test_a_log_without_topics_is_said_to_have_none(logged: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    async with watching(logged, "run-1") as driver:
        for head in ("newest trials", "rejections"):
            await driver.shows(f"{head}: the log has no topics yet", "terminus:gpt-5")


async def test_a_broker_that_is_away_leaves_the_boards(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial()])
    async with watching(settings, "run-1") as driver:
        await driver.shows("newest trials: no Kafka broker answers at 127.0.0.1:1", "terminus:gpt-5")
        await driver.press("escape")
        await driver.shows("rejections unknown: no Kafka broker answers at 127.0.0.1:1", "run-1")
