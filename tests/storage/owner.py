"""Workers in small that publish to a sink, events of one run, and whether Redis says what an owner says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import redis

from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate, SummaryChange
from streamer.schemas.base import RUN as GROUP
from streamer.schemas.wire import Record
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.events import Event, a_plan, a_retraction, a_start, a_trial
from tests.support.eventually import eventually
from tests.support.owning import Owning

KEYS = Keys()
MakeSink = Callable[..., RedisSink]

RUN = "run/1"
"""The run of these events and of `Worker`."""


def started(task: str, agent: str = "a:b", **fields: Any) -> Event:
    return a_start(run_id=RUN, task_id=task, agent=agent, model="m", **fields)


def result(task: str, agent: str = "a", **fields: Any) -> Event:
    return a_trial(run_id=RUN, task_id=task, agent=agent, model="m", **fields)


def rewarded(task: str, agent: str = "a", **metrics: float) -> Event:
    return result(task, agent, metrics=metrics)


def retracted(task: str, agent: str) -> Event:
    return a_retraction(run_id=RUN, task_id=task, agent=agent, model="m", revision=1)


def plan(**fields: Any) -> Event:
    return a_plan(run_id=RUN, **fields)


class Worker:
    """A worker in small: folds events and publishes what changed."""

    def __init__(self, make_sink: MakeSink, *, epoch: int = 1, offset: int = 0, **options: Any) -> None:
        self.epoch, self.pipeline = epoch, Pipeline(epoch=epoch)
        self.sink: RedisSink = make_sink(owner=self, **options)
        self.offset = offset

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def current(self, run_id: str) -> RunUpdate:
        run = self.pipeline.run(run_id)
        deleted = SummaryChange.tombstone(run_id, GROUP, self.epoch, run.state.state_version)
        summaries = run.summaries() or [deleted]
        return RunUpdate(run_id, summaries, run.in_flight_taken, run.comparisons.tasks_taken)

    def fold(self, *events: Mapping[str, Any]) -> None:
        records = [Record(orjson.dumps(event), self.offset + n) for n, event in enumerate(events)]
        assert self.pipeline.fold(records).rejections == []
        self.offset += len(events)

    async def publish(self, *events: Mapping[str, Any]) -> None:
        self.fold(*events)
        runs = sorted({event["run_id"] for event in events})
        await self.sink.write([self.pipeline.run(run_id).take_changes() for run_id in runs])


class Owner(Owning):
    """A worker in small: what it owns, published to a sink as it changes."""

    def __init__(self, make_sink: MakeSink, runs: int = 3, **options: Any) -> None:
        super().__init__()
        self.sink: RedisSink = make_sink(owner=self, **options)
        self.runs = [f"run {number}" for number in range(runs)]
        self.version = -1

    def expected(self) -> list[SummaryChange]:
        return [change for run_id in self.run_ids() for change in self.summaries(run_id)]

    async def step(self) -> None:
        self.version += 1
        updates = [self._cut(run) for run in self.runs]
        for update in updates:
            self.put(*update.summaries)
        await self.sink.write(updates)

    def _cut(self, run: str) -> RunUpdate:
        version, trials = self.version, self.version + 1
        return an_update(
            an_agent_model_change(run, version=version, trials=trials, mean_cost=trials / 4),
            a_tier_change(run, version=version, trials=trials),
            a_run_change(run, version=version, benchmark="b", trials=trials),
        )


def holds(client: redis.Redis, owner: Owner) -> bool:
    """Whether Redis says of every summary and board what the owner says."""
    try:
        for change in owner.expected():
            suffix = {"run": "run", "tier": "tier:T0", "agent_model": "agent_model:claude:opus"}[change.kind]
            if client.get(KEYS.of_run(change.run_id, suffix)) != (change.value or b"").decode():
                return False
        cost = (owner.version + 1) / 4
        members = [(f"{run}|claude:opus", cost) for run in owner.runs]
        boards = [client.zrange(KEYS.board(run, "mean_cost"), 0, -1, withscores=True) for run in owner.runs]
        return bool(
            client.zrange(KEYS.benchmark_board("b", "mean_cost"), 0, -1, withscores=True) == members
            and boards == [[("claude:opus", cost)]] * len(owner.runs)
            and client.zcard(KEYS.runs) == len(owner.runs)
        )
    except redis.RedisError:
        return False


async def converged(client: redis.Redis, owner: Owner) -> None:
    await eventually(lambda: owner.sink.unsent == 0 and not owner.sink.away, "the sink is done")
    await eventually(lambda: holds(client, owner), "Redis says what the owner says")
