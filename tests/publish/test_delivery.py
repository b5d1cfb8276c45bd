"""The broker goes away under a publishing harness: everything arrives, and no call waits."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streamer.client import AsyncTrialPublisher, EventsLost, NotAccepted, TrialPublisher
from streamer.client.capture import MAX_WAITING_BYTES, REFUSED
from streamer.operate.local.broker import Broker
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.process import ensure_topics
from tests.publish.publishing import (
    PARTITIONS,
    Harness,
    arrived,
    make_topics,
    settings_of,
    spilled_lines,
    tasks,
    unwritable,
)
from tests.support.servers import KafkaServer
from tests.support.worker_process import wait_for

LONGEST_CALL_SECONDS = 0.5
"""Far below every timeout on the way to the broker; far above what a busy machine takes from a thread."""

BACK_SECONDS = 40


class Hurt(Protocol):
    """A broker that can be hurt."""

    def away(self) -> None: ...

    def back(self) -> None: ...


class Paused:
    """SIGSTOP: connections stay open, nothing answers."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server

    def away(self) -> None:
        self._server.pause()

    def back(self) -> None:
        self._server.resume()


class Killed(Paused):
    """SIGKILL, and a start on the same port with the same data."""

    def away(self) -> None:
        self._server.kill()

    def back(self) -> None:
        self._server.start()


class PausedEmbedded:
    """SIGSTOP to the embedded broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def away(self) -> None:
        self._broker.child.signal(signal.SIGSTOP)

    def back(self) -> None:
        self._broker.child.signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    server.start()
    yield server
    server.resume()
    server.stop()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def on_kafka(own_kafka: KafkaServer, namespace: str) -> Settings:
    return make_topics(settings_of(own_kafka.bootstrap, namespace, embedded=False))


def through_an_outage(hurt: Hurt, settings: Settings, directory: Path, seconds: float = 0.0) -> Harness:
    """Publish before, during (for some seconds, and until much has been spilled) and after an outage."""
    with TrialPublisher(settings, spill_dir=directory) as publisher:
        harness = Harness(publisher)
        harness.publish(200)
        assert publisher.flush(BACK_SECONDS)
        hurt.away()
        until = time.monotonic() + seconds
        harness.publish_until(
            lambda: publisher.counts.spilled > 500 and time.monotonic() > until, "500 events are spilled"
        )
        assert publisher.problem is not None
        hurt.back()
        harness.publish_until(lambda: publisher.problem is None, "the publisher is well again", BACK_SECONDS)
        harness.publish(200)
        assert publisher.flush(BACK_SECONDS)
        counts = publisher.counts
    assert (counts.sent, counts.pending, counts.files) == (harness.published, 0, ())
    assert list(directory.iterdir()) == []
    return harness


@pytest.mark.kafka
@pytest.mark.parametrize("kind", [Paused, Killed])
def test_all_events_arrive_over_an_outage_of_kafka_and_no_call_waits(
    kind: type[Paused], own_kafka: KafkaServer, on_kafka: Settings, tmp_path: Path
) -> None:
    harness = through_an_outage(kind(own_kafka), on_kafka, tmp_path)
    assert set(arrived(on_kafka)) == tasks(harness.published)
    assert harness.longest_call_seconds < LONGEST_CALL_SECONDS


@pytest.mark.kafka
async def test_what_kafka_refuses_for_its_size_is_put_aside_and_keeps_nothing_back(
    kafka_bootstrap: str, namespace: str, tmp_path: Path
) -> None:
    settings = settings_of(kafka_bootstrap, namespace, embedded=False)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    await admin.start()
    topic = Names(namespace).trial_events  # a limit that is set later takes some time to hold
    await admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs={"max.message.bytes": "20000"})])
    await admin.close()
    await ensure_topics(settings)
    async with AsyncTrialPublisher(settings, spill_dir=tmp_path) as publisher:
        noise = random.Random(1).randbytes(50_000).hex()  # hardly gets smaller by compression
        large = {noise[at : at + 4_000]: None for at in range(0, len(noise), 4_000)}
        publisher.trial(run_id="r", task_id="large", benchmarks=large)
        for number in range(100):
            publisher.trial(run_id="r", task_id=f"task-{number}", trial_name="x" * 1_000)
        assert await publisher.flush(BACK_SECONDS)
        assert (publisher.counts.sent, publisher.counts.rejected) == (100, 1)
    [refused] = (tmp_path / REFUSED).read_bytes().splitlines()
    assert orjson.loads(refused)["task_id"] == "large"
    assert set(await asyncio.to_thread(arrived, settings)) == tasks(100)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("kind", [Paused, Killed])
def test_all_events_arrive_when_kafka_is_away_for_twenty_seconds(
    kind: type[Paused],
    own_kafka: KafkaServer,
    on_kafka: Settings,
    tmp_path: Path,
    record_property: pytest.RecordProperty,
) -> None:
    harness = through_an_outage(kind(own_kafka), on_kafka, tmp_path, seconds=20)
    assert set(arrived(on_kafka)) == tasks(harness.published)
    record_property("longest_call_seconds", harness.longest_call_seconds)
    print(f"{kind.__name__}: {harness.published} events, longest {harness.longest_call_seconds * 1e3:.1f} ms")
    assert harness.longest_call_seconds < LONGEST_CALL_SECONDS


@pytest.mark.stack
def test_all_events_arrive_when_the_embedded_broker_pauses(own_broker: Broker, tmp_path: Path) -> None:
    settings = make_topics(settings_of(own_broker.bootstrap))
    harness = through_an_outage(PausedEmbedded(own_broker), settings, tmp_path)
    assert set(arrived(settings)) == tasks(harness.published)
    assert harness.longest_call_seconds < LONGEST_CALL_SECONDS


@pytest.mark.stack
def test_a_broker_that_comes_back_empty_gets_all_that_it_had_not_acknowledged_once_it_has_topics(
    own_broker: Broker, tmp_path: Path
) -> None:
    """The embedded broker forgets what it acknowledged (`up` keeps that); the rest is ours."""
    settings = make_topics(settings_of(own_broker.bootstrap))
    with TrialPublisher(settings, spill_dir=tmp_path) as publisher:
        harness = Harness(publisher)
        harness.publish(100)
        assert publisher.flush(BACK_SECONDS)
        own_broker.child.kill()
        harness.publish_until(lambda: publisher.counts.spilled >= 200, "200 events are spilled")
        own_broker.start()
        harness.publish(50)
        assert publisher.counts.sent == 100
        make_topics(settings)  # with our partition count: the publisher has not created them by asking
        assert publisher.flush(BACK_SECONDS)
    assert set(arrived(settings)) == tasks(harness.published) - tasks(100)


@pytest.mark.stack
def test_a_publisher_may_start_before_the_broker_and_says_where_the_events_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(free_port())
    settings = settings_of(broker.bootstrap)
    with TrialPublisher(settings, spill_dir=tmp_path, close_seconds=0.2) as publisher:
        Harness(publisher).publish(20)
        wait_for(lambda: publisher.counts.spilled == 20, "the events are on the disk")
        assert broker.bootstrap in (publisher.problem or "")
    counts = publisher.counts
    assert (counts.sent, counts.pending, len(counts.files)) == (0, 20, 1)
    assert len(spilled_lines(tmp_path)) == 20
    [away, left] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert str(tmp_path) in away
    assert "20 events are not at the broker" in left
    assert str(counts.files[0]) in left
    with broker:
        make_topics(settings)
        with TrialPublisher(settings, spill_dir=tmp_path) as later:
            assert later.counts.pending == 20
        assert (later.counts.sent, later.counts.pending) == (20, 0)
        assert arrived(settings) == dict.fromkeys(tasks(20), 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.stack
def test_without_a_writable_directory_memory_does_while_the_broker_is_away(
    own_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, directory = settings_of(own_broker.bootstrap), tmp_path / "spill"
    with unwritable(directory), TrialPublisher(settings, spill_dir=directory) as publisher:
        harness = Harness(publisher)
        harness.publish_until(lambda: str(directory) in (publisher.problem or ""), "the problem is told")
        harness.publish(100)
        make_topics(settings)
        assert publisher.flush(BACK_SECONDS)
    assert set(arrived(settings)) == tasks(harness.published)
    assert f"cannot keep events in {directory}" in caplog.text


def test_a_directory_that_can_be_written_again_takes_what_waits_in_memory(tmp_path: Path) -> None:
    directory = tmp_path / "spill"
    settings = settings_of(f"127.0.0.1:{free_port()}")
    with TrialPublisher(settings, spill_dir=directory, close_seconds=0) as publisher:
        directory.rmdir()
        with unwritable(directory):
            Harness(publisher).publish(30)
            wait_for(lambda: str(directory) in (publisher.problem or ""), "the problem is told")
        wait_for(lambda: publisher.counts.spilled == 30, "the events are on the disk")
    assert len(spilled_lines(directory)) == 30


def test_what_neither_broker_nor_disk_took_is_told_at_close(tmp_path: Path) -> None:
    directory = tmp_path / "spill"
    settings = settings_of(f"127.0.0.1:{free_port()}")
    with unwritable(directory):
        publisher = TrialPublisher(settings, spill_dir=directory, close_seconds=0.1)
        Harness(publisher).publish(10)
        with pytest.raises(EventsLost, match=r"10 events are lost.*Publish the same events again"):
            publisher.close()
    assert publisher.counts.pending == 10


def test_memory_is_bounded_and_a_call_that_does_not_fit_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "spill"
    settings = settings_of(f"127.0.0.1:{free_port()}")
    with unwritable(directory):
        publisher = TrialPublisher(settings, spill_dir=directory, close_seconds=0)
        text = "x" * 1_000
        most, taken = MAX_WAITING_BYTES // len(text), 0

        def publish_until_full() -> None:
            nonlocal taken
            while taken <= most:
                publisher.trial(run_id="r", task_id=f"task-{taken}", trial_name=text)
                taken += 1

        with pytest.raises(NotAccepted, match=r"events .64 MiB. wait in memory"):
            publish_until_full()
        assert taken > most / 2
    counts = publisher.close()
    assert (counts.pending, len(spilled_lines(directory))) == (taken, taken)
