"""Single trials come from the log: the latest of each slot, and none that was withdrawn."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.feeds import NotInLog, scored_trials
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from tests.publish.publishing import PARTITIONS, make_topics, settings_of
from tests.support.events import a_trial, folded


@pytest.fixture
def log(embedded_broker: str, namespace: str) -> Settings:
    return make_topics(settings_of(embedded_broker, namespace))


def publish(settings: Settings, *records: tuple[str, bytes | None]) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap) as producer:
            for key, value in records:
                place = partition_of("run-1", PARTITIONS)
                topic = Names(settings.namespace).scored_trials
                await producer.send_and_wait(topic, value, key=key.encode(), partition=place)

    asyncio.run(send())


def scored(task: str, **fields: object) -> tuple[str, bytes | None]:
    [change] = folded([a_trial(task_id=task, **fields)])[0].run("run-1").take_scored()
    return change.key, change.value


def test_the_latest_of_each_slot_counts_and_what_was_withdrawn_is_gone(log: Settings) -> None:
    first, second = scored("a", resolved=False), scored("a")
    other, gone = scored("b"), scored("c")
    publish(log, first, gone, other, (gone[0], None))
    assert scored_trials(log, "run-1") == [first[1], other[1]]
    publish(log, second)
    found = scored_trials(log, "run-1")
    assert len(found) == 2
    assert other[1] in found


def test_a_run_of_which_the_log_holds_nothing_is_said_with_what_to_do(log: Settings) -> None:
    with pytest.raises(NotInLog, match=r"holds nothing of run 'run-1'\. `streamer query runs`"):
        scored_trials(log, "run-1")
