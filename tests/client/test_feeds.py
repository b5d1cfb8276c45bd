"""Following a topic: what comes, in the order of its versions, from where it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing

import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import Feed, Update, subscribe
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing
from tests.client.writing import send
from tests.support.builders import an_agent_model_change
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online

SECONDS = 20


@pytest.fixture(params=ENGINES)
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    directory = tmp_path_factory.mktemp("subscribe")
    engine = request.param
    stack: Online
    with online(directory, bootstrap_of(request, engine), engine, worker=False) as stack:
        yield stack.settings


def a_record(version: int, *, epoch: int = 1, agent: str = "claude") -> tuple[bytes, bytes | None]:
    change = an_agent_model_change(agent=agent, version=version, epoch=epoch)
    return change.key.encode(), change.value


async def take(
    settings: Settings,
    feed: Feed,
    count: int,
    *,
    from_beginning: bool,
    on_ready: Callable[[], None] = lambda: None,
) -> list[Update]:
    found: list[Update] = []
    updates = subscribe(feed, settings, from_beginning=from_beginning, on_ready=on_ready)
    async with asyncio.timeout(SECONDS), aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            found.append(update)
            if len(found) == count:
                break
    return found


async def test_what_is_older_than_what_was_seen_of_its_key_is_dropped(settings: Settings) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    records = [
        a_record(5),
        a_record(4),
        a_record(5),
        a_record(3, agent="codex"),
        a_record(0, epoch=2),
        a_record(9),
    ]
    await send(settings, topic, [*records, a_record(1, epoch=2)])
    found = await take(settings, "agent-model", 5, from_beginning=True)
    assert [update.version for update in found] == [(1, 5), (1, 5), (1, 3), (2, 0), (2, 1)]
    assert [update.value for update in found] == [
        records[0][1],
        records[2][1],
        records[3][1],
        records[4][1],
        a_record(1, epoch=2)[1],
    ]
    assert {update.run_id for update in found} == {"r1"}


async def test_a_deletion_is_told_and_old_writers_stay_out_after_it(settings: Settings) -> None:
    key, value = a_record(5)
    await send(
        settings,
        Names(settings.namespace).agent_model_summaries,
        [(key, value), (key, None), a_record(4), a_record(6)],
    )
    first, deleted, last = await take(settings, "agent-model", 3, from_beginning=True)
    assert (deleted.key, deleted.value, deleted.run_id) == (key.decode(), None, "r1")
    assert (first.version, last.version) == ((1, 5), (1, 6))


async def test_from_now_on_means_nothing_that_was_there_before(settings: Settings) -> None:
    topic = Names(settings.namespace).agent_model_summaries
    await send(settings, topic, [a_record(n) for n in range(5)])
    ready = asyncio.Event()
    taking = asyncio.create_task(take(settings, "agent-model", 2, from_beginning=False, on_ready=ready.set))
    async with asyncio.timeout(SECONDS):
        await ready.wait()
    await send(settings, topic, [a_record(7), a_record(8)])
    assert [update.version for update in await taking] == [(1, 7), (1, 8)]


async def test_what_is_no_json_object_and_what_has_no_key_is_handed_on_as_it_is(settings: Settings) -> None:
    topic = Names(settings.namespace).trial_rejections
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for value in (b"\xff", b"[1]"):
            await producer.send_and_wait(topic, value, partition=0)
    found = await take(settings, "rejections", 2, from_beginning=True)
    assert [(u.key, u.value, u.message) for u in found] == [("", b"\xff", None), ("", b"[1]", None)]


async def test_a_missing_topic_is_an_error(settings: Settings) -> None:
    with pytest.raises(TopicMissing):
        await take(settings.model_copy(update={"namespace": "nobody"}), "run", 1, from_beginning=True)
