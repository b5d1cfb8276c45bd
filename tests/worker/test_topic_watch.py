"""The topics of a running worker: what was deleted ends it, and a finite retention is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import KafkaConnectionError
from streamer.worker import process as module
from streamer.worker.process import TopicDeleted, TopicWatch, plan

SETTINGS = Settings(partitions=3)
COUNTS = {topic.name: topic.partitions for topic in plan(SETTINGS)}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the broker says of the topics, check by check; then the watch is cancelled."""
    answers: list[Any] = []

    async def read_counts(_: Settings) -> dict[str, int]:
        if not answers:
            raise asyncio.CancelledError
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    async def read_retention(_: Settings) -> dict[str, str]:
        return {"retention.ms": "1000", "retention.bytes": "-1", "cleanup.policy": "delete"}

    monkeypatch.setattr(module, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(module, "read_partition_counts", read_counts)
    monkeypatch.setattr(module, "read_retention", read_retention)
    return answers


async def test_a_topic_that_is_gone_ends_the_worker_and_is_named(answers: list[Any]) -> None:
    gone = next(iter(COUNTS))
    answers += [COUNTS, {name: count for name, count in COUNTS.items() if name != gone}]
    with pytest.raises(TopicDeleted, match=rf"topics {gone} were deleted"):
        await TopicWatch(SETTINGS).watch()


async def test_a_broker_that_is_away_is_waited_for(answers: list[Any]) -> None:
    answers += [KafkaConnectionError("away"), OSError(), COUNTS]
    with pytest.raises(asyncio.CancelledError):
        await TopicWatch(SETTINGS).watch()
    assert answers == []


async def test_a_retention_that_deletes_events_is_said_once(
    answers: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    answers += [COUNTS, COUNTS]
    watch = TopicWatch(SETTINGS)
    with pytest.raises(asyncio.CancelledError):
        await watch.watch()
    assert watch.finite
    assert [record.getMessage() for record in caplog.records] == [watch.finite]


async def test_the_embedded_broker_has_no_other_administrator(answers: list[Any]) -> None:
    answers += [{}]
    await TopicWatch(Settings(embedded=True)).watch()
    assert answers == [{}]
