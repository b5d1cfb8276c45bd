"""Trials: read from the log once, then on; pages, filters, payloads, comparisons; bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from streamer.schemas.wire import canonical_json
from streamer.settings import Settings
from streamer.web import log as run_log
from streamer.web import log as trial_log
from streamer.web.log import TrialLog, TrialMoved
from tests.support.events import a_retraction, a_trial
from tests.web.feeding import Feed


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def logging_feed(logged: Settings) -> AsyncIterator[Feed]:
    async with Feed(logged, log=True) as feed:
        yield feed


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(logged: Settings, clock: Clock) -> TrialLog:
    return TrialLog(logged, clock)


async def test_a_correction_replaces_and_a_retraction_removes(
    logging_feed: Feed, log: TrialLog, clock: Clock
) -> None:
    await logging_feed.take([a_trial(resolved=False), a_trial(task_id="task-2")])
    await log.trials("run-1")
    await logging_feed.take([a_trial(revision=1), a_retraction(task_id="task-2", revision=5)])
    clock.now += run_log.FRESH_LOG_SECONDS
    [trial] = (await log.trials("run-1")).values()
    assert (trial.row.task_id, trial.row.outcome) == ("task-1", "passed")


async def test_the_payload_is_what_was_published(logging_feed: Feed, log: TrialLog) -> None:
    await logging_feed.take([a_trial(task_id=f"task-{number}", cost_usd=number) for number in range(9)])
    held = await log.trials("run-1")
    for trial_id, trial in held.items():
        payload = await log.payload("run-1", trial_id)
        assert payload is not None
        assert canonical_json({"task_id": trial.row.task_id})[1:-1] in payload
    assert await log.payload("run-1", "nothing") is None


async def test_a_payload_that_moved_meanwhile_is_found_at_the_second_attempt(
    logging_feed: Feed, log: TrialLog
) -> None:
    await logging_feed.take([a_trial(), a_trial(task_id="task-2")])
    held = await log.trials("run-1")
    (first, stale), (_, other) = held.items()
    held[first] = trial_log.HeldTrial(stale.row, stale.key, other.offset, "")
    with pytest.raises(TrialMoved):
        await log.payload("run-1", first)
