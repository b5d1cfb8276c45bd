"""One connection says of each batch whether it arrived, and can be dropped at any moment."""

from __future__ import annotations

import json

import pytest
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from streamer.settings import Settings
from streamer.storage.outbox import BrokerConnection, Outgoing, too_large
from tests.publish.publishing import arrived, tasks
from tests.support.events import a_trial


def some(count: int) -> list[Outgoing]:
    return [Outgoing(b"run-1", json.dumps(a_trial(task_id=f"task-{n}")).encode()) for n in range(count)]


async def test_a_batch_that_arrived_is_no_error(settings: Settings) -> None:
    connection = BrokerConnection(settings)
    await connection.connect()
    assert await connection.deliver(some(10), 20) is None
    assert not connection.broken
    await connection.drop()


def test_all_that_was_delivered_is_in_the_topic_once(settings: Settings) -> None:
    import asyncio

    async def deliver() -> None:
        connection = BrokerConnection(settings)
        await connection.connect()
        assert await connection.deliver(some(10), 20) is None
        await connection.drop()

    asyncio.run(deliver())
    assert arrived(settings) == dict.fromkeys(tasks(10), 1)


async def test_without_an_acknowledgement_in_time_the_connection_is_broken(settings: Settings) -> None:
    connection = BrokerConnection(settings)
    await connection.connect()
    error = await connection.deliver(some(1), 0.0)
    assert isinstance(error, TimeoutError)
    assert connection.broken
    await connection.drop()


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (MessageSizeTooLargeError(), True),
        (RecordListTooLargeError(), True),
        (TimeoutError(), False),
        (None, False),
    ],
)
def test_a_refusal_for_the_size_is_told_from_a_lost_connection(
    error: Exception | None, refused: bool
) -> None:
    assert too_large(error) is refused
