"""The outbox says of each record whether it arrived, keeps their order, and can be stopped at any moment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaConnectionError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)
from aiokafka.partitioner import DefaultPartitioner

from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.schemas.wire import NO_TIMESTAMP
from streamer.settings import Settings
from streamer.storage import outbox as publisher_module
from streamer.storage.kafka import Names, TopicMissing, administering, create_topic, partition_of_key
from streamer.storage.log import read_topic
from streamer.storage.outbox import (
    MAX_RECORD_BYTES,
    EventOutbox,
    NotDelivered,
    NotStored,
    Outbox,
    Outgoing,
    ProducerRecord,
    ThreadedPublisher,
    missing,
    outgoing,
)
from streamer.worker.process import ensure_topics
from tests.client.publish import make_arguments
from tests.client.publish.publishing import arrived, tasks
from tests.support.events import a_trial
from tests.support.layers import ENGINES
from tests.support.online import Online, bootstrap_of, online
from tests.support.servers import pause
from tests.support.worker_process import wait_for


def some(count: int) -> list[Outgoing]:
    return [Outgoing(b"run-1", json.dumps(a_trial(task_id=f"task-{n}")).encode()) for n in range(count)]


async def test_what_is_stored_has_its_offset_and_without_an_acknowledgement_in_time_the_outbox_is_broken(
    settings: Settings,
) -> None:
    async with EventOutbox(settings) as outbox:
        assert await outbox.publish(some(10), 20) == list(range(10))
        assert await outbox.publish(some(0), 20) == []
        assert not outbox.broken
        assert await asyncio.to_thread(arrived, settings) == dict.fromkeys(tasks(10), 1)
        [result] = await outbox.publish(some(1), 0.0)
        assert isinstance(result, NotStored)
        assert str(result.error) == "no acknowledgement within 0 s"
        assert not result.refused
        assert outbox.broken


@pytest.mark.parametrize(
    ("error", "too_large", "refused"),
    [
        (MessageSizeTooLargeError(), True, True),
        (RecordListTooLargeError(), True, True),
        (InvalidTimestampError(), False, True),
        (TimeoutError(), False, False),
    ],
)
def test_a_refusal_is_told_from_a_lost_connection(error: Exception, too_large: bool, refused: bool) -> None:
    assert (NotStored(error).too_large, NotStored(error).refused) == (too_large, refused)


async def test_what_fits_no_message_is_not_sent_and_the_others_are_in_order(settings: Settings) -> None:
    topic = Names(settings.namespace).scored_trials
    sizes = [1, MAX_RECORD_BYTES + 1, 2, 300_000, 300_000, 3]
    records = [ProducerRecord(topic, n % 2, None, b"v" * size) for n, size in enumerate(sizes)]
    async with Outbox(settings) as outbox:
        results = await outbox.write(records)
        assert not outbox.broken
    assert [result for result in results if isinstance(result, int)] == [0, 1, 0, 2, 1]
    assert [result.too_large for result in missing(results)] == [True]
    assert isinstance(results[1], NotStored)
    stored = await asyncio.to_thread(lambda: list(read_topic(settings, topic)))
    expected = [(0, 0, 1), (0, 1, 2), (0, 2, 300_000), (1, 0, 300_000), (1, 1, 3)]
    assert sorted((r.partition, r.offset, len(r.value)) for r in stored) == expected


LEAVE = """
import asyncio, sys
from streamer.settings import Settings
from streamer.storage.kafka import administering, create_topic
from streamer.storage.outbox import Outbox, ProducerRecord

async def main():
    settings = Settings(bootstrap=sys.argv[1], embedded=True)
    async with administering(settings) as admin:
        await create_topic(admin, "t", 1, 1, {})
    async with Outbox(settings) as outbox:
        await outbox.store([ProducerRecord("t", 0, None, b"first")])
        print("stored", flush=True)
        sys.stdin.readline()
        print(*await outbox.write([ProducerRecord("t", 0, None, b"second")], 0.2))

asyncio.run(main())
"""


@pytest.mark.stack
def test_an_outbox_that_stops_while_its_broker_stands_still_leaves_no_error_unread() -> None:
    with Broker() as broker:
        command = [sys.executable, "-c", LEAVE, broker.bootstrap]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, text=True, **pipes) as left:
            assert left.stdout is not None
            assert left.stdout.readline() == "stored\n"
            pause(broker.child.pid)
            output, errors = left.communicate("go on\n", timeout=60)
        broker.child.signal(signal.SIGCONT)
    assert "no acknowledgement within 0.2 s" in output
    assert "never retrieved" not in errors


async def a_topic(settings: Settings, partitions: int, limit: dict[str, str]) -> str:
    """A topic that takes only records within a limit."""
    topic = Names(settings.namespace).scored_trials
    async with administering(settings) as admin:
        await create_topic(admin, topic, partitions, 1, limit)
    return topic


OF_2_KB = {"max.message.bytes": "2000"}
"""Of a record batch."""


@pytest.fixture
def on_kafka(kafka_bootstrap: str, namespace: str) -> Settings:
    return Settings(bootstrap=kafka_bootstrap, namespace=namespace, partitions=1)


@pytest.mark.kafka
@pytest.mark.parametrize("idempotent", [False, True])
async def test_one_record_that_kafka_refuses_for_its_size_keeps_none_back_and_leaves_their_order(
    on_kafka: Settings, idempotent: bool
) -> None:
    topic = await a_topic(on_kafka, 1, OF_2_KB)
    large = [7, 40]
    values = [os.urandom(4_000) if n in large else os.urandom(100) for n in range(60)]
    told: list[int] = []

    def stored_at(_topic: str, _partition: int, first: int, records: Sequence[ProducerRecord]) -> None:
        told.extend(range(first, first + len(records)))

    async with Outbox(on_kafka, idempotent=idempotent, stored=stored_at) as outbox:
        results = await outbox.write([ProducerRecord(topic, 0, None, value) for value in values])
        assert [n for n, result in enumerate(results) if not isinstance(result, int)] == large
        assert all(result.too_large for result in missing(results))
        assert [result for result in results if isinstance(result, int)] == told == list(range(58))
        await outbox.store([ProducerRecord(topic, 0, b"last", b"")])
    stored = await asyncio.to_thread(lambda: [record.value for record in read_topic(on_kafka, topic)])
    assert stored == [*(value for n, value in enumerate(values) if n not in large), b""]


@pytest.mark.kafka
async def test_a_broker_that_goes_while_a_batch_is_split_costs_no_result(
    on_kafka: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idempotent outbox needs another connection after a refusal. What was stored before is known."""
    topic = await a_topic(on_kafka, 2, OF_2_KB)
    values = [(0, b"small"), (1, os.urandom(4_000)), (1, b"behind")]
    away = on_kafka.model_copy(update={"bootstrap": f"127.0.0.1:{free_port()}"})
    async with Outbox(on_kafka, idempotent=True) as outbox:
        monkeypatch.setattr(outbox, "_new_producer", Outbox(away)._new_producer)
        results = await outbox.write([ProducerRecord(topic, at, None, value) for at, value in values])
        assert results[0] == 0
        assert [type(result.error) for result in missing(results)] == [KafkaConnectionError] * 2
        assert outbox.broken


@pytest.mark.kafka
@pytest.mark.parametrize("keeps_time", [False, True])
async def test_a_time_that_kafka_refuses_is_refused_or_left_out(on_kafka: Settings, keeps_time: bool) -> None:
    topic = await a_topic(on_kafka, 2, {"message.timestamp.before.max.ms": "0"})
    values = [b"%d" % n for n in range(8_000)]  # older when all are packed
    records = [ProducerRecord(topic, n % 2, None, value) for n, value in enumerate(values)]
    async with Outbox(on_kafka, idempotent=True, keeps_time=keeps_time) as outbox:
        results = await outbox.write(records)
    assert [result.refused for result in missing(results)] == [True] * len(records) * keeps_time
    stored = await asyncio.to_thread(lambda: list(read_topic(on_kafka, topic)))
    assert {record.timestamp for record in stored} == (set() if keeps_time else {NO_TIMESTAMP})
    assert len(stored) == len(records) * (not keeps_time)


def test_the_helpers_take_every_field_of_their_event() -> None:
    assert make_arguments.MODULE.read_text("utf-8") == make_arguments.module(), "run: make schema"


@pytest.fixture(params=ENGINES, scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    directory = tmp_path_factory.mktemp("publish")
    with online(directory, bootstrap_of(request, request.param), request.param, worker=False) as result:
        yield result


def values_of(settings: Settings, key: bytes) -> list[bytes]:
    topic = Names(settings.namespace).trial_events
    return [record.value for record in read_topic(settings, topic) if record.key == key]


@pytest.mark.parametrize("key", [b"run-1", b"", b"r\xc3\xbcn", b"x" * 513])
def test_a_key_goes_where_java_and_aiokafka_would_put_it(key: bytes) -> None:
    partitions = list(range(7))
    assert partition_of_key(key, 7) == DefaultPartitioner()(key, partitions, partitions)


def test_a_record_is_sent_while_its_source_is_silent(stack: Online) -> None:
    with ThreadedPublisher(stack.settings) as publisher:
        for sent in (1, 2):
            publisher.send(outgoing(a_trial(run_id="slow", task_id=f"t{sent}")))
            wait_for(
                lambda expected=sent: publisher.acknowledged == expected, "acknowledged without a flush", 10
            )


def test_blocking_code_keeps_the_order_of_a_run(stack: Online) -> None:
    values = [b"%d" % number for number in range(3_000)]
    publish_values(stack.settings, b"ordered", values)
    assert values_of(stack.settings, b"ordered") == values


def test_what_was_handed_over_before_an_error_arrives_and_the_error_is_told(stack: Online) -> None:
    with pytest.raises(ZeroDivisionError), ThreadedPublisher(stack.settings) as publisher:  # noqa: PT012
        publisher.send(Outgoing(b"before", b"an error"))
        raise ZeroDivisionError
    assert values_of(stack.settings, b"before") == [b"an error"]


def test_records_that_an_unexpected_error_meets_are_told_and_the_next_ones_arrive(
    stack: Online, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadedPublisher(stack.settings) as publisher:
        with monkeypatch.context() as broken:
            broken.setattr(publisher._outbox, "publish", lambda _: 1 / 0)
            publisher.send(Outgoing(b"unexpected", b"lost"))
            with pytest.raises(NotDelivered, match="1 event was not acknowledged"):
                publisher.flush(20)
        publisher.send(Outgoing(b"unexpected", b"arrives"))
    assert values_of(stack.settings, b"unexpected") == [b"arrives"]


def publish_values(settings: Settings, key: bytes, values: list[bytes]) -> None:
    with ThreadedPublisher(settings) as publisher:
        for value in values:
            publisher.send(Outgoing(key, value))


def test_what_the_broker_refuses_is_counted_and_the_rest_arrives(stack: Online) -> None:
    values = [b"small", b"x" * 5 * 1024 * 1024, b"also small"]
    with pytest.raises(NotDelivered, match=r"^1 event was not acknowledged .* \(2 were\)"):
        publish_values(stack.settings, b"refused", values)
    assert values_of(stack.settings, b"refused") == [values[0], values[2]]


@pytest.mark.kafka
def test_a_time_that_kafka_refuses_is_named_as_a_wrong_clock(on_kafka: Settings) -> None:
    """The topic takes no record that is older than a second: as if this machine's clock were behind."""

    async def configured() -> None:
        await ensure_topics(on_kafka)
        limit = {"message.timestamp.before.max.ms": "1000"}
        topic = Names(on_kafka.namespace).trial_events
        async with administering(on_kafka) as admin:
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, limit)])

    asyncio.run(configured())
    refused = pytest.raises(NotDelivered, match=r"too far from the broker's clock .* Compare the clocks")
    with refused, ThreadedPublisher(on_kafka) as publisher:
        publisher.send(Outgoing(b"late", b"value", timestamp_ms=1))


def test_a_missing_topic_is_an_error_and_is_not_created(stack: Online) -> None:
    settings = stack.settings.model_copy(update={"namespace": "nobody"})

    async def topics() -> list[str]:
        async with administering(settings) as admin:
            return list(await admin.list_topics())

    with pytest.raises(TopicMissing, match=r"nobody\.trial-events"), ThreadedPublisher(settings):
        pass
    assert "nobody.trial-events" not in asyncio.run(topics())


def test_a_broker_that_is_away_is_an_error_at_once() -> None:
    settings = Settings(bootstrap=f"127.0.0.1:{free_port()}", embedded=True)
    with pytest.raises(KafkaConnectionError), ThreadedPublisher(settings):
        pass


@pytest.mark.stack
def test_a_broker_that_goes_away_is_noticed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "DELIVERY_SECONDS", 1.0)
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
