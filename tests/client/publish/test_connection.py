"""One connection says of each batch whether it arrived, and can be dropped at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.partitioner import DefaultPartitioner

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage import outbox as publisher_module
from streamer.storage.kafka import Names, TopicMissing, partition_of_key
from streamer.storage.log import read_topic
from streamer.storage.outbox import (
    BrokerConnection,
    NotDelivered,
    Outgoing,
    Publisher,
    ThreadedPublisher,
    outgoing,
    too_large,
)
from streamer.worker.process import ensure_topics
from tests.client.publish import make_arguments
from tests.client.publish.publishing import arrived, tasks
from tests.support.events import a_trial
from tests.support.layers import ENGINES
from tests.support.online import PARTITIONS, Online, bootstrap_of, online
from tests.support.worker_process import wait_for


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


# -----------------------------------------------------------------------------
# The arguments of the helpers are the fields of the events.


def test_the_helpers_take_every_field_of_their_event() -> None:
    assert make_arguments.MODULE.read_text("utf-8") == make_arguments.module(), "run: make schema"


# -----------------------------------------------------------------------------
# Publishing: into the partition of the run, acknowledged, and honest about what did not arrive.


@pytest.fixture(params=ENGINES, scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    directory = tmp_path_factory.mktemp("publish")
    with online(directory, bootstrap_of(request, request.param), request.param, worker=False) as result:
        yield result


def in_topic(settings: Settings) -> list[tuple[int, bytes | None, bytes]]:
    topic = Names(settings.namespace).trial_events
    return sorted((r.partition, r.key, r.value) for r in read_topic(settings, topic))


@pytest.mark.parametrize("key", [b"run-1", b"", b"r\xc3\xbcn", b"x" * 513])
def test_a_key_goes_where_java_and_aiokafka_would_put_it(key: bytes) -> None:
    partitions = list(range(7))
    assert partition_of_key(key, 7) == DefaultPartitioner()(key, partitions, partitions)


async def send_all(settings: Settings, records: list[Outgoing]) -> int:
    async with Publisher(settings) as publisher:
        for record in records:
            await publisher.send(record)
    return publisher.acknowledged


def test_every_event_lies_in_the_partition_of_its_run_under_its_key(stack: Online) -> None:
    records = [outgoing(a_trial(run_id=f"rün-{n % 17}", task_id=f"t{n}")) for n in range(500)]
    assert asyncio.run(send_all(stack.settings, records)) == 500
    expected = [(partition_of_key(r.key or b"", PARTITIONS), r.key, r.value) for r in records]
    result = [record for record in in_topic(stack.settings) if (record[1] or b"").startswith("rün-".encode())]
    assert result == sorted(expected)


def test_a_record_is_sent_while_its_source_is_silent(stack: Online) -> None:
    with ThreadedPublisher(stack.settings) as publisher:
        for sent in (1, 2):
            publisher.send(outgoing(a_trial(run_id="slow", task_id=f"t{sent}")))
            wait_for(
                lambda expected=sent: publisher.acknowledged == expected, "acknowledged without a flush", 10
            )


def test_blocking_code_keeps_the_order_of_a_run(stack: Online) -> None:
    with ThreadedPublisher(stack.settings) as publisher:
        for number in range(3_000):
            publisher.send(Outgoing(b"ordered", b"%d" % number))
    topic = Names(stack.settings.namespace).trial_events
    values = [int(r.value) for r in read_topic(stack.settings, topic) if r.key == b"ordered"]
    assert values == list(range(3_000))


def publish_values(settings: Settings, key: bytes, values: list[bytes]) -> None:
    with ThreadedPublisher(settings) as publisher:
        for value in values:
            publisher.send(Outgoing(key, value))


def test_what_the_broker_refuses_is_counted_and_the_rest_arrives(stack: Online) -> None:
    values = [b"small", b"x" * 5 * 1024 * 1024, b"also small"]
    with pytest.raises(NotDelivered, match=r"^1 events were not acknowledged .* \(2 were\)"):
        publish_values(stack.settings, b"refused", values)
    assert sum(key == b"refused" for _, key, _ in in_topic(stack.settings)) == 2


@pytest.mark.kafka
def test_a_time_that_kafka_refuses_is_told_as_a_wrong_clock(kafka_bootstrap: str) -> None:
    """The topic takes no record that is older than a moment: as if this machine's clock were behind."""
    settings = Settings(bootstrap=kafka_bootstrap, partitions=1, namespace="clock")
    asyncio.run(ensure_topics(settings))
    asyncio.run(configure(settings, {"message.timestamp.before.max.ms": "0"}))
    with pytest.raises(NotDelivered, match=r"too far from the broker's clock .* Compare the clocks"):
        publish_values(settings, b"late", [b"value"])


async def configure(settings: Settings, values: dict[str, str]) -> None:
    """Settings of the event topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
    await admin.start()
    try:
        topic = Names(settings.namespace).trial_events
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, values)])
    finally:
        await admin.close()


def test_a_missing_topic_is_an_error_and_is_not_created(stack: Online) -> None:
    settings = stack.settings.model_copy(update={"namespace": "nobody"})

    async def topics() -> list[str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
        await admin.start()
        try:
            return list(await admin.list_topics())
        finally:
            await admin.close()

    with pytest.raises(TopicMissing, match=r"nobody\.trial-events"), ThreadedPublisher(settings):
        pass
    assert "nobody.trial-events" not in asyncio.run(topics())


def test_a_broker_that_is_away_is_an_error_at_once() -> None:
    settings = Settings(bootstrap=f"127.0.0.1:{free_port()}", embedded=True)
    with pytest.raises(KafkaConnectionError), ThreadedPublisher(settings):
        pass


@pytest.mark.stack
def test_a_broker_that_goes_away_is_noticed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "DELIVERY_MS", 1_000)
    with Broker() as broker:
        settings = Settings(bootstrap=broker.bootstrap, embedded=True, partitions=1)
        asyncio.run(ensure_topics(settings))
        with ThreadedPublisher(settings) as publisher:
            publisher.send(outgoing(a_trial()))
            publisher.flush()
            broker.stop()
            publisher.send(outgoing(a_trial()))
            with pytest.raises(NotDelivered, match=rf"{broker.bootstrap} \(1 were\)"):
                publisher.flush()
