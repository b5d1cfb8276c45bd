"""Runs followed in the event log: folded once, then event by event."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from aiokafka import AIOKafkaProducer

from streamer.client.folded import FollowedRuns
from streamer.folding.score.prices import PriceTable
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing, partition_of
from streamer.worker.process import ensure_topics
from tests.publish.publishing import PARTITIONS, settings_of
from tests.support.events import a_trial

SECONDS = 30


@pytest.fixture
async def log(embedded_broker: str, namespace: str) -> Settings:
    settings = settings_of(embedded_broker, namespace)
    await ensure_topics(settings)
    return settings


async def written(settings: Settings, *runs: str, task: str) -> None:
    topic = Names(settings.namespace).trial_events
    async with AIOKafkaProducer(**settings.kafka_options()) as producer:
        for run in runs:
            value = json.dumps(a_trial(run_id=run, task_id=task)).encode()
            partition = partition_of(run, PARTITIONS)
            await producer.send_and_wait(topic, value, key=run.encode(), partition=partition)


async def test_the_first_look_has_what_the_log_held_and_later_ones_what_came(log: Settings) -> None:
    await written(log, "one", "two", "other", task="x")
    followed = FollowedRuns(log, ["one", "two", "absent"], PriceTable.default())
    async with asyncio.timeout(SECONDS), aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        assert {run: len(state.slots) for run, state in followed.states().items()} == {"one": 1, "two": 1}
        await written(log, "two", "other", task="y")
        while len(followed.states()["two"].slots) < 2:
            await anext(looks)
    assert set(followed.states()) == {"one", "two"}


async def test_nothing_is_told_of_other_runs(log: Settings) -> None:
    followed = FollowedRuns(log, ["one"], PriceTable.default())
    async with aclosing(followed.looks(0.01)) as looks:
        await anext(looks)
        waiting = asyncio.ensure_future(anext(looks))
        await written(log, *(f"other-{number}" for number in range(9)), task="x")
        await written(log, "one", task="x")
        await asyncio.wait_for(waiting, SECONDS)
        assert set(followed.states()) == {"one"}


async def test_without_a_topic_it_says_so(embedded_broker: str, namespace: str) -> None:
    followed = FollowedRuns(settings_of(embedded_broker, namespace), ["one"], PriceTable.default())
    with pytest.raises(TopicMissing):
        await anext(followed.looks(1))
