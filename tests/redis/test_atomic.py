"""Whatever happens to Redis, a reader never sees a run whose keys do not belong together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import redis

from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate
from streamer.schemas.wire import Record
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.redis.conftest import MakeSink
from tests.support.eventually import eventually
from tests.support.polling import Poller
from tests.support.servers import RedisServer

KEYS = Keys()
AGENTS, TIERS, RUNS = 6, 3, 3


class Folding:
    """A worker in small: folds events of some runs and publishes what changed."""

    def __init__(self, make_sink: MakeSink) -> None:
        self.pipeline = Pipeline()
        self.sink: RedisSink = make_sink(owner=self)
        self._random = random.Random(7)
        self._offset = 0

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def standing(self, run_id: str) -> RunUpdate:
        known = self.pipeline.knows(run_id)
        return RunUpdate(run_id, self.pipeline.run(run_id).summaries() if known else [])

    async def step(self) -> None:
        """One event of each run; it changes one agent of many."""
        touched: set[str] = set()
        for number in range(RUNS):
            touched |= self.pipeline.fold([Record(self._event(f"run {number}"), self._offset)]).touched
            self._offset += 1
        await self.sink.write([self.pipeline.run(run_id).take_changes() for run_id in sorted(touched)])

    def _event(self, run_id: str) -> bytes:
        return orjson.dumps(
            {
                "type": "trial_result",
                "run_id": run_id,
                "task_id": f"task {self._offset}",
                "agent": f"agent {self._random.randrange(AGENTS)}",
                "model": "m",
                "tier": f"T{self._random.randrange(TIERS)}",
                "resolved": self._random.random() < 0.5,
            }
        )


@pytest.fixture
def poller(redis_server: RedisServer) -> Iterator[Poller]:
    with Poller(redis_server.url, [f"run {number}" for number in range(RUNS)]) as poller:
        yield poller


async def test_a_reader_never_sees_a_torn_run_through_flushes_and_reconciliations(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    folding = Folding(make_sink)
    for number in range(400):
        await folding.step()
        if number % 20 == 10:
            redis_server.flush()
        if number % 20 == 15:
            await asyncio.gather(folding.sink.reconcile(folding.run_ids()), folding.step())
    await eventually(lambda: poller.polls > 400, "enough reads")
    assert poller.torn == []


async def test_a_reader_never_sees_a_torn_run_when_redis_restarts_empty(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    folding = Folding(make_sink)
    for number in range(120):
        await folding.step()
        if number % 40 == 20:
            redis_server.restart_empty()
    await eventually(lambda: poller.polls > 100, "enough reads")
    assert poller.torn == []


async def test_a_worker_that_takes_over_from_another_never_tears_a_run(
    make_sink: MakeSink, redis_server: RedisServer, poller: Poller
) -> None:
    first, second = Folding(make_sink), Folding(make_sink)
    for number in range(200):
        await first.step()
        await second.step()
        if number % 10 == 5:
            redis_server.flush()
        if number % 10 == 7:
            await second.sink.reconcile(second.run_ids())
    assert poller.torn == []


async def test_the_reader_notices_a_part_of_another_state(
    make_sink: MakeSink, client: redis.Redis, poller: Poller
) -> None:
    folding, key = Folding(make_sink), KEYS.of_run("run 0", "agent_model:agent 0:m")
    while not client.exists(key):
        await folding.step()
    earlier: Any = client.get(key)
    for _ in range(60):
        await folding.step()
    client.set(key, earlier)
    await eventually(lambda: poller.torn != [], "it is noticed")
