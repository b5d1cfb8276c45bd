"""Why a broker does not let us in: one sentence with what to do; one that is away stays away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage import kafka as module
from streamer.storage.kafka import (
    BrokerRefuses,
    TopicUnreadable,
    administering,
    create_topic,
    partition_count,
    refuse_other_protocol,
    telling_refusals,
)
from streamer.storage.log import PartitionReader
from tests.storage.filling import append, create_and_fill, fill

PLAIN = Settings(bootstrap="one:9092,two:9092")
SASL = Settings(
    bootstrap="one:9092", security_protocol="SASL_PLAINTEXT", sasl_username="u", sasl_password="hunter2"
)


class Servers:
    """What each server does with a connection, and what is wrong with its TLS."""

    def __init__(self) -> None:
        self.failures: dict[str, Exception] = {}
        self.wrong: dict[str, str] = {}

    async def connect(self, host: str, *_: Any, **__: Any) -> Any:
        raise self.failures.get(host, KafkaConnectionError("away"))

    def mismatch(self, host: str, *_: Any, **__: Any) -> str | None:
        return self.wrong.get(host)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers()
    monkeypatch.setattr(module, "create_conn", servers.connect)
    monkeypatch.setattr(module, "mismatch", servers.mismatch)
    return servers


async def start(settings: Settings) -> None:
    """A client that could not connect, for whatever reason."""
    async with telling_refusals(settings):
        raise KafkaConnectionError("Unable to bootstrap")


async def test_a_broker_that_is_away_is_the_clients_own_error(servers: Servers) -> None:
    with pytest.raises(KafkaConnectionError, match="Unable to bootstrap"):
        await start(PLAIN)


@pytest.mark.parametrize(
    ("server", "failure", "given", "says"),
    [
        ("one", AuthenticationFailedError(), SASL, "refuses user 'u'.*STREAMER_SASL_USERNAME"),
        ("one", UnsupportedSaslMechanismError(), SASL, "rejects .* at this port.*STREAMER_SASL_MECHANISM"),
        ("two", AuthenticationFailedError(), PLAIN, "Kafka at two:9092"),
    ],
)
async def test_the_refusal_of_any_server_says_what_to_check_and_no_password(
    servers: Servers, server: str, failure: Exception, given: Settings, says: str
) -> None:
    servers.failures[server] = failure
    with pytest.raises(BrokerRefuses, match=says) as told:
        await start(given)
    assert "hunter2" not in str(told.value)


async def test_a_broker_that_disagrees_about_tls_is_named_with_the_setting(servers: Servers) -> None:
    servers.wrong["two"] = "speaks TLS at this port"
    with pytest.raises(BrokerRefuses, match=r"Kafka at two:9092 speaks TLS.*Set it to SSL or SASL_SSL"):
        await refuse_other_protocol(PLAIN)
    with pytest.raises(BrokerRefuses):
        await start(PLAIN)


async def test_a_start_that_works_asks_nobody(servers: Servers) -> None:
    servers.wrong["one"] = "speaks TLS at this port"
    async with telling_refusals(PLAIN):
        pass


class Admin:
    """Answers with these error codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def create_topics(self, topics: list[Any]) -> Any:
        return SimpleNamespace(topic_errors=[(topics[0].name, self.codes.pop(0), "said so")])

    async def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        code = self.codes.pop(0)
        return [{"error_code": code, "partitions": [] if code else [1, 2, 3]}]


@pytest.mark.parametrize("code", [0, TopicAlreadyExistsError.errno])
async def test_a_topic_that_somebody_else_created_is_as_good(code: int) -> None:
    admin: Any = Admin(code)
    await create_topic(admin, "t", 3, 1, {})
    assert admin.codes == []


async def test_a_refusal_names_the_topic_and_the_reason() -> None:
    admin: Any = Admin(TopicAuthorizationFailedError.errno)
    with pytest.raises(TopicAuthorizationFailedError, match="cannot create topic 't': said so"):
        await create_topic(admin, "t", 3, 1, {})


async def test_a_topic_just_created_is_waited_for_with_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    admin: Any = Admin(*[UnknownTopicOrPartitionError.errno] * 2, 0, UnknownTopicOrPartitionError.errno)
    assert await partition_count(admin, "t") == 3
    monkeypatch.setattr(module, "PROPAGATION_SECONDS", -1.0)
    with pytest.raises(KafkaError, match="cannot describe topic 't'"):
        await partition_count(admin, "t")


# -----------------------------------------------------------------------------
# The one loop that reads partitions, on the embedded broker and on a real Kafka.


async def offsets(batches: AsyncIterator[list[Any]]) -> dict[int, list[int]]:
    """Offsets by partition, in the order of reading."""
    result: dict[int, list[int]] = {}
    async for batch in batches:
        assert batch
        for record in batch:
            result.setdefault(record.partition, []).append(record.offset)
    return result


@pytest.fixture
def place(settings: Settings, namespace: str) -> Place:
    fill(settings, namespace, [(0, 3)])
    return namespace, 0


Place = tuple[str, int]


async def test_ends_lie_behind_the_last_record_of_the_last_batch(settings: Settings, namespace: str) -> None:
    await create_and_fill(settings, namespace, [(0, 1), (0, 50), (1, 7)])
    places = [(namespace, number) for number in range(3)]
    async with PartitionReader(settings, places) as reader:
        assert await reader.ends() == dict(zip(places, (51, 7, 0), strict=True))
        assert await reader.beginnings() == dict.fromkeys(places, 0)


async def test_only_what_lies_between_start_and_stop_is_read(settings: Settings, namespace: str) -> None:
    await create_and_fill(settings, namespace, [(0, 10), (1, 10)])
    first, second = (namespace, 0), (namespace, 1)
    async with PartitionReader(settings, [first, second]) as reader:
        result = await offsets(reader.read({first: 4}, {first: 7, second: 2}))
    assert result == {0: [4, 5, 6], 1: [0, 1]}


async def test_a_reader_with_nothing_to_read_can_be_closed_at_once(settings: Settings, place: Place) -> None:
    for _ in range(20):  # of every one, aiokafka may be in another state
        async with asyncio.timeout(30), PartitionReader(settings, [place]) as reader:
            ends = await reader.ends()
            assert await offsets(reader.read({place: 3}, ends)) == {}


async def test_each_question_for_the_end_has_a_fetch_of_its_own(settings: Settings, place: Place) -> None:
    async with PartitionReader(settings, [place]) as reader:
        for number in range(3, 23):
            assert await reader.ends() == {place: number}
            await append(settings, place[0], [(0, 1)])


async def test_one_reader_reads_again_and_then_follows(settings: Settings, place: Place) -> None:
    async with PartitionReader(settings, [place]) as reader:
        end = (await reader.ends())[place]
        assert await offsets(reader.read({place: 1}, {place: end})) == {0: [1, 2]}
        assert await offsets(reader.read({}, {place: end})) == {0: [0, 1, 2]}
        await append(settings, place[0], [(0, 2)])
        async with asyncio.timeout(30), aclosing(reader.read({place: end}, None)) as following:  # type: ignore[type-var]
            assert next(record.offset for record in await anext(following)) == 3


async def test_a_partition_that_ends_too_early_is_given_up(settings: Settings, place: Place) -> None:
    async with PartitionReader(settings, [place]) as reader:
        with pytest.raises(TopicUnreadable, match=rf"'{place[0]}': partitions \[0\]: nothing came for"):
            await offsets(reader.read({}, {place: 4}, patience_seconds=0.3))


async def test_a_short_wait_comes_to_the_end_of_small_batches(embedded_broker: str, namespace: str) -> None:
    """For each fetch the embedded broker looks through all batches, for no longer than it may hold it."""
    settings = Settings(bootstrap=embedded_broker, embedded=True)
    await create_and_fill(settings, namespace, [])
    async with AIOKafkaProducer(bootstrap_servers=embedded_broker, max_batch_size=512) as producer:
        for _ in range(MANY // 500):
            acks = [await producer.send(namespace, b"v" * 400, partition=0) for _ in range(500)]
            await asyncio.gather(*acks)
    place = (namespace, 0)
    async with asyncio.timeout(60), PartitionReader(settings, [place], wait_ms=1) as reader:
        found = await offsets(reader.read({place: MANY - 10}, {place: MANY}, patience_seconds=None))
        assert found == {0: list(range(MANY - 10, MANY))}
        assert reader._consumer._fetcher._fetch_max_wait_ms > 1, "in this time the broker does not get there"


MANY = 10_000


@pytest.mark.stack
async def test_a_reader_without_end_begins_again_where_a_broker_lost_its_records(namespace: str) -> None:
    """The embedded broker keeps its topics in memory, and answers a fetch behind their end with nothing."""
    port = free_port()
    settings = Settings(bootstrap=f"127.0.0.1:{port}", embedded=True)
    place, first, second = (namespace, 0), Broker(port), Broker(port)
    try:
        await asyncio.to_thread(first.start)
        await create_and_fill(settings, namespace, [(0, 5)])
        async with asyncio.timeout(60), PartitionReader(settings, [place], wait_ms=20) as reader:
            following = reader.read({place: 3}, None, patience_seconds=None)
            assert [record.offset for record in await anext(following)] == [3, 4]
            news = asyncio.ensure_future(anext(following))
            await asyncio.to_thread(first.stop)
            await asyncio.to_thread(second.start)
            await create_and_fill(settings, namespace, [(0, 2)])
            assert [record.offset for record in await news] == [0, 1]
    finally:
        first.stop()
        second.stop()


async def test_the_offsets_of_a_group_are_told_and_set(settings: Settings, place: Place) -> None:
    async with PartitionReader(settings, [place], group=f"{place[0]}-group") as reader:
        before = await reader.committed()
        await reader.commit(1)
        assert (before, await reader.committed()) == ({place: None}, {place: 1})


# -----------------------------------------------------------------------------
# A cancellation that aiokafka drops, because it arrives while a client closes.


async def administer(settings: Settings, _: Place) -> None:
    async with administering(settings):
        pass


async def read(settings: Settings, place: Place) -> None:
    async with PartitionReader(settings, [place]):
        pass


@pytest.mark.parametrize("work", [administer, read])
async def test_a_loop_of_clients_can_be_cancelled_while_one_closes(
    settings: Settings,
    place: Place,
    work: Callable[[Settings, Place], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closes = AIOKafkaClient.close

    async def is_cancelled_and_closes(client: AIOKafkaClient) -> None:
        task.cancel()
        await closes(client)

    async def repeat() -> None:
        while True:
            await work(settings, place)
            await asyncio.sleep(0)

    monkeypatch.setattr(AIOKafkaClient, "close", is_cancelled_and_closes)
    task = asyncio.create_task(repeat())
    await asyncio.wait({task}, timeout=10)
    ended = task.cancelled()
    monkeypatch.undo()
    task.cancel()
    await asyncio.wait({task})
    assert ended
