"""The parts that only the log knows: rejections and newest trials, as long as there is a viewer.

Loaded once the first screen stands: the boards do not wait for what reads the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from pydantic import ValidationError

from streamer.client.feeds import subscribe
from streamer.kafka.clients import administering
from streamer.kafka.errors import KafkaError, TopicMissing, no_broker_at
from streamer.ops.rejections import LogPosition, StoredRejection
from streamer.schemas.news import Rejection
from streamer.settings import Settings
from streamer.views.models import TrialRow
from streamer.watch.following import RETRY_SECONDS, Rejections, Tell
from streamer.watch.newest import newest_trials

T = TypeVar("T")

BROKER_SECONDS = 5.0
"""How often the broker is asked for a sign of life."""


async def follow_rejections(settings: Settings, rejections: Rejections, tell: Tell) -> None:
    """All rejections that the log holds, then those that come, until cancelled."""

    def begin() -> AsyncIterator[StoredRejection]:
        rejections.restart()
        return read_rejections(settings, lambda: tell(None))

    await _follow(settings, begin, rejections.take, tell)


async def follow_newest(
    settings: Settings, run_id: str, take: Callable[[list[TrialRow]], None], tell: Tell
) -> None:
    """The newest trials of a run, newest first, whenever there are others, until cancelled."""
    await _follow(settings, lambda: newest_trials(settings, run_id), take, tell)


async def read_rejections(settings: Settings, on_ready: Callable[[], None]) -> AsyncIterator[StoredRejection]:
    """From the beginning of the log, without end; what this version cannot read is left out.

    Args:
        settings: where the broker is.
        on_ready: called once the log is read, also if it holds no rejection.
    """
    updates = subscribe("rejections", settings, from_beginning=True, on_ready=on_ready)
    async with aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            try:
                message = Rejection.model_validate(update.message)
            except ValidationError:
                continue
            place = LogPosition(message.source_partition, message.source_offset)
            yield StoredRejection(place, update.timestamp_ms, message)


async def _follow(
    settings: Settings, begin: Callable[[], AsyncIterator[T]], take: Callable[[T], None], tell: Tell
) -> None:
    """Begin again after each outage."""
    while True:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_take_all(begin, take, tell))
                tasks.create_task(_until_away(settings))
        except* TopicMissing:
            tell("the log has no topics yet: a worker makes them")
        except* (KafkaError, OSError):
            tell(no_broker_at(settings.bootstrap))
        await asyncio.sleep(RETRY_SECONDS)


async def _take_all(begin: Callable[[], AsyncIterator[T]], take: Callable[[T], None], tell: Tell) -> None:
    async with aclosing(begin()) as messages:  # type: ignore[type-var]
        async for message in messages:
            take(message)
            tell(None)


async def _until_away(settings: Settings) -> None:
    """Ends with an error once the broker does not answer. A consumer says nothing of that: it waits."""
    while True:
        await asyncio.sleep(BROKER_SECONDS)
        async with administering(settings):
            pass
