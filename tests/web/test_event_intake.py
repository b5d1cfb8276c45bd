"""Bodies wait for the broker in limited memory; a broker that is away is said, and found again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.storage.kafka import Names, administering, create_topic, partition_count
from streamer.storage.log import read_topic
from streamer.storage.outbox import Outgoing
from streamer.web import intake as event_intake
from streamer.web.intake import MAX_BODY_BYTES, EventIntake
from tests.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.web.serving import Serving


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def own(own_broker: Broker, redis_server: RedisServer, namespace: str) -> Settings:
    settings = settings_of(own_broker.bootstrap, namespace)
    return make_topics(settings.model_copy(update={"redis": redis_server.url}))


def body_of(number: int, size: int = 0) -> bytes:
    """One event, and blank lines up to a size."""
    event = json.dumps(a_trial(task_id=f"task-{number}")).encode()
    return event + b"\n" * max(1, size - len(event))


def tasks(settings: Settings) -> set[str]:
    records = read_topic(settings, Names(settings.namespace).trial_events)
    return {json.loads(record.value or b"")["task_id"] for record in records}


async def create_small_topic(settings: Settings) -> None:
    """The event topic, with a lower limit than ours."""
    async with administering(settings) as admin:
        name = Names(settings.namespace).trial_events
        await create_topic(admin, name, PARTITIONS, 1, {"max.message.bytes": "2000"})
        await partition_count(admin, name)


def test_while_the_broker_is_slow_memory_is_limited_and_the_rest_is_told_to_come_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 120.0)
    with Serving(own) as serving, ThreadPoolExecutor(4) as threads:
        assert serving.post(body_of(0)).status == 200
        own_broker.child.signal(signal.SIGSTOP)
        waiting = [threads.submit(serving.post, body_of(number, MAX_BODY_BYTES)) for number in range(1, 5)]
        intake = serving.web.intake
        wait_for(
            lambda: intake.held_bytes == event_intake.MAX_HELD_BYTES, "four whole bodies fill the memory"
        )
        refused = serving.post(body_of(5))
        assert (refused.status, refused.headers["retry-after"]) == (429, "2")
        assert "64 MiB" in refused.json()["detail"]
        assert serving.get("/api/runs").status == 200
        own_broker.child.signal(signal.SIGCONT)
        assert [future.result().status for future in waiting] == [200] * 4
        assert serving.post(body_of(6)).status == 200
    assert tasks(own) == {f"task-{number}" for number in (0, 1, 2, 3, 4, 6)}


def test_a_broker_that_does_not_acknowledge_in_time_is_a_503_and_the_next_body_finds_it_again(
    own: Settings, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_intake, "PATIENCE_SECONDS", 1.0)
    with Serving(own) as serving:
        assert serving.post(body_of(0)).status == 200
        own_broker.child.signal(signal.SIGSTOP)
        answer = serving.post(body_of(1))
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert "no acknowledgement within 1 s" in answer.json()["detail"]
        assert "Send the same body again" in answer.json()["detail"]
        own_broker.child.signal(signal.SIGCONT)
        wait_for(lambda: serving.post(body_of(1)).status == 200, "the broker is found again")
        assert serving.web.intake.held_bytes == 0
    assert tasks(own) == {"task-0", "task-1"}


def test_without_a_broker_every_body_is_a_503_until_there_is_one(
    redis_server: RedisServer, namespace: str
) -> None:
    broker = Broker()
    settings = settings_of(broker.bootstrap, namespace).model_copy(update={"redis": redis_server.url})
    with Serving(settings) as serving:
        answer = serving.post(body_of(0))
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert broker.bootstrap in answer.json()["detail"]
        with broker:
            answer = serving.post(body_of(0))
            assert answer.status == 503
            assert "does not exist" in answer.json()["detail"]
            make_topics(settings)
            assert serving.post(body_of(0)).status == 200
            assert tasks(settings) == {"task-0"}


def test_a_client_that_leaves_before_the_end_of_its_body_gives_its_room_back(
    own: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with Serving(own) as serving:
        with socket.create_connection(("127.0.0.1", serving.port)) as half:
            half.sendall(head + b"Content-Length: 1000\r\n\r\n" + body_of(0))
            wait_for(lambda: serving.web.intake.held_bytes == 1000, "there is room for the body")
        wait_for(lambda: serving.web.intake.held_bytes == 0, "the room is free again")
    assert caplog.text == ""
    assert tasks(own) == set()


class SlowLink:
    """In place of a connection: counts the batches that are on their way."""

    now = most = 0

    def __init__(self, settings: Settings) -> None:
        self.records: list[Outgoing] = []

    async def connect(self) -> None: ...

    async def deliver(self, records: list[Outgoing], patience_seconds: float) -> None:
        SlowLink.now += 1
        SlowLink.most = max(SlowLink.most, SlowLink.now)
        await asyncio.sleep(0)
        self.records += records
        SlowLink.now -= 1

    async def drop(self) -> None: ...


async def test_few_batches_are_on_their_way_at_once_so_that_none_times_out_behind_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_intake, "BrokerConnection", SlowLink)
    intake = EventIntake(Settings())
    bodies = [[Outgoing(b"%d" % run, b"%d" % n) for n in range(3)] for run in range(50)]
    monkeypatch.setattr(event_intake, "BATCH_BYTES", 1)
    await asyncio.gather(*(intake.publish(body) for body in bodies))
    assert SlowLink.most == event_intake.MAX_BATCHES
    link = await intake._connected()
    assert isinstance(link, SlowLink)
    for body in bodies:
        assert [record for record in link.records if record.key == body[0].key] == body
    await intake.close()


@pytest.mark.kafka
def test_an_event_that_the_broker_refuses_for_its_size_is_a_413(
    kafka_bootstrap: str, redis_server: RedisServer, namespace: str
) -> None:
    settings = settings_of(kafka_bootstrap, namespace, embedded=False)
    settings = settings.model_copy(update={"redis": redis_server.url})
    asyncio.run(create_small_topic(settings))
    with Serving(settings) as serving:
        assert serving.post(body_of(0)).status == 200
        answer = serving.post(os.urandom(4000).hex().encode())  # does not compress below the limit
        assert answer.status == 413
        assert "max.message.bytes" in answer.json()["detail"]
