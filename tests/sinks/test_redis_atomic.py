"""Whatever happens to Redis, a reader never sees a run whose keys do not belong together."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import orjson
import pytest
import redis

from streamer.client.reader import StateReader
from streamer.client.reading import ReaderError
from streamer.pipeline import Pipeline, Record
from streamer.settings import Settings
from streamer.sinks.names import Names
from streamer.sinks.redis import RedisSink
from tests.sinks.conftest import MakeSink
from tests.support.eventually import eventually
from tests.support.servers import RedisServer

NAMES = Names()
AGENTS, TIERS, RUNS = 6, 3, 3
SNAPSHOT = """
local found = { redis.call('GET', KEYS[1] .. 'run') or '' }
for _, label in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'agent_models')) do
  table.insert(found, redis.call('GET', KEYS[1] .. 'agent_model:' .. label) or '')
end
return found
"""
"""Reads a run in one step, by nothing but its keys."""


class Folding:
    """A worker in small: folds events of some runs and publishes what changed."""

    def __init__(self, make_sink: MakeSink) -> None:
        self.pipeline = Pipeline()
        self.sink: RedisSink = make_sink(owner=self)
        self._random = random.Random(7)
        self._offset = 0

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def summaries(self, run_id: str) -> list[Any]:
        return self.pipeline.all_summaries(run_id) if self.pipeline.knows(run_id) else []

    async def step(self) -> None:
        """One event of each run; it changes one agent of many."""
        touched: set[str] = set()
        for number in range(RUNS):
            touched |= self.pipeline.fold([Record(self._event(f"run {number}"), self._offset)]).touched
            self._offset += 1
        await self.sink.write([self.pipeline.cut(run_id) for run_id in sorted(touched)])

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


class Poller(threading.Thread):
    """Reads runs atomically as fast as it can; notes every torn one."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.polls, self.empty, self.torn = 0, 0, list[str]()
        self._client = redis.Redis.from_url(url)
        self._reader = StateReader(Settings(redis=url))
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join()
        self._client.close()
        self._reader.close()

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            run_id = f"run {number % RUNS}"
            number += 1
            try:
                self._by_keys(run_id)
                self._by_reader(run_id)
            except (redis.RedisError, ReaderError):
                self.empty += 1

    def _by_keys(self, run_id: str) -> None:
        prefix = NAMES.of_run(run_id, "")
        run, *agents = self._client.eval(SNAPSHOT, 1, prefix)
        if run or agents:
            trials = [orjson.loads(agent)["trials"] if agent else None for agent in agents]
            self._check(orjson.loads(run or b"{}").get("trials"), trials)

    def _by_reader(self, run_id: str) -> None:
        found = self._reader.snapshot(run_id)
        self._check(found.run.trials, [agent.trials for agent in found.agents])
        self._check(found.run.trials, [tier.trials for tier in found.tiers if tier.agent_model is None])
        self._check(found.run.trials, [tier.trials for tier in found.tiers if tier.agent_model is not None])

    def _check(self, done: int | None, parts: list[int | None]) -> None:
        self.polls += 1
        if done is None or None in parts or sum(part or 0 for part in parts) != done:
            self.torn.append(f"{done} != sum of {parts}")


@pytest.fixture
def poller(redis_server: RedisServer) -> Iterator[Poller]:
    with Poller(redis_server.url) as poller:
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
