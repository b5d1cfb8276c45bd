"""Following a topic from code: all runs, or one of them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from streamer.client.feeds import subscribe
from streamer.settings import Settings
from streamer.storage.kafka import Names, TopicMissing
from streamer.worker.process import ensure_topics
from tests.client.writing import send
from tests.publish.publishing import settings_of
from tests.support.builders import a_run_change

SECONDS = 20


@pytest.fixture
async def log(embedded_broker: str, namespace: str) -> Settings:
    settings = settings_of(embedded_broker, namespace)
    await ensure_topics(settings)
    changes = [a_run_change(run, version=version) for version in (1, 2) for run in ("one", "two")]
    topic = Names(namespace).run_summaries
    await send(settings, topic, [(change.key.encode(), change.value) for change in changes])
    return settings


async def told(settings: Settings, count: int, run_id: str | None = None) -> list[tuple[str | None, object]]:
    found = []
    async with (
        asyncio.timeout(SECONDS),
        aclosing(subscribe("run", settings, run_id=run_id, from_beginning=True)) as updates,  # type: ignore[type-var]
    ):
        async for update in updates:
            found.append((update.run_id, update.version))
            if len(found) == count:
                break
    return found


async def test_of_one_run_no_other_is_told(log: Settings) -> None:
    assert [run for run, _ in await told(log, 2, "two")] == ["two", "two"]


async def test_without_a_run_everything_is_told(log: Settings) -> None:
    assert {run for run, _ in await told(log, 4)} == {"one", "two"}


async def test_before_any_worker_the_topic_is_missing(embedded_broker: str, namespace: str) -> None:
    with pytest.raises(TopicMissing):
        await told(settings_of(embedded_broker, namespace), 1)
