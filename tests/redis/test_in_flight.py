"""The trials in flight of a run in Redis: guarded, deleted and restored with the run's other keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
import redis

from streamer.client.queries import UnknownRun, UnreadableSummary
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.slots import RunUpdate
from streamer.schemas.summaries import TrialInFlight
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.redis import RedisSink
from tests.redis.conftest import MakeSink
from tests.support.eventually import eventually
from tests.support.servers import RedisServer

KEYS = Keys()
RUN = "run/1"
IN_FLIGHT = KEYS.in_flight(RUN)
NOON = "2026-01-31T12:00:00Z"


def slot(task: str) -> dict[str, Any]:
    return {"run_id": RUN, "task_id": task, "agent": "a:b", "model": "m", "tier": "T0"}


def started(task: str, **fields: Any) -> dict[str, Any]:
    return {"type": "trial_started", **slot(task), **fields}


def result(task: str) -> dict[str, Any]:
    return {"type": "trial_result", **slot(task), "resolved": True}


class Worker:
    """A worker in small: folds events of a run and publishes what changed."""

    def __init__(self, make_sink: MakeSink, *, epoch: int = 1, offset: int = 0, **options: Any) -> None:
        self.pipeline = Pipeline(epoch=epoch)
        self.sink: RedisSink = make_sink(owner=self, **options)
        self.offset = offset

    def run_ids(self) -> list[str]:
        return self.pipeline.runs()

    def standing(self, run_id: str) -> RunUpdate:
        run = self.pipeline.run(run_id)
        return RunUpdate(run_id, run.summaries(), run.in_flight_taken, run.comparisons.tasks_taken)

    def fold(self, *events: Mapping[str, Any]) -> None:
        records = [Record(orjson.dumps(event), self.offset + n) for n, event in enumerate(events)]
        assert self.pipeline.fold(records).rejections == []
        self.offset += len(events)

    async def publish(self, *events: Mapping[str, Any]) -> None:
        """Fold these events as one batch and publish the run."""
        self.fold(*events)
        await self.sink.write([self.pipeline.run(RUN).take_changes()])


def the_trial(client: redis.Redis, field: str) -> dict[str, Any]:
    trial: dict[str, Any] = orjson.loads(str(client.hget(IN_FLIGHT, field)))
    return trial


def counted(client: redis.Redis) -> int:
    """Trials in flight as the run's summary counts them."""
    return int(orjson.loads(str(client.get(KEYS.run(RUN))))["in_flight"])


def tasks(client: redis.Redis) -> list[str]:
    return sorted(orjson.loads(trial)["task_id"] for trial in client.hvals(IN_FLIGHT))


async def test_a_trial_is_listed_from_its_start_until_its_result(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(started("t|1", started_at=NOON, position=3), started("t2"))
    assert client.hgetall(IN_FLIGHT).keys() == {"|t%7C1|1|a%3Ab|m|T0|", "|t2|1|a%3Ab|m|T0|"}
    assert the_trial(client, "|t%7C1|1|a%3Ab|m|T0|") == {
        "shard": "",
        "task_id": "t|1",
        "attempt": 1,
        "agent": "a:b",
        "model": "m",
        "tier": "T0",
        "subtest": None,
        "started_at": NOON,
        "position": 3,
    }
    assert counted(client) == 2
    await worker.publish(result("t|1"))
    assert tasks(client) == ["t2"]
    await worker.publish(result("t2"))
    assert not client.exists(IN_FLIGHT)


async def test_a_start_that_changes_no_summary_changes_the_list(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(started("t", started_at=NOON))
    history = client.xlen(KEYS.history(RUN))
    await worker.publish(started("t", started_at="2026-01-31T11:00:00Z"))
    [trial] = client.hvals(IN_FLIGHT)
    assert orjson.loads(trial)["started_at"] == "2026-01-31T11:00:00Z"
    assert client.xlen(KEYS.history(RUN)) == history


async def test_a_run_that_finished_or_was_deleted_has_no_list(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(started("t1"))
    await worker.publish({"type": "run_finished", "run_id": RUN, "revision": 1})
    assert not client.exists(IN_FLIGHT)
    other = Worker(make_sink, offset=100)
    await other.publish(started("t2", revision=5))
    assert tasks(client) == ["t2"]
    await other.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    assert client.keys() == [KEYS.versions(RUN)]
    await other.publish(started("t3", revision=10))
    assert tasks(client) == ["t3"]


async def test_an_older_writer_replaces_nothing_and_brings_nothing_back(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker, zombie = Worker(make_sink, offset=7), Worker(make_sink, offset=3)
    await worker.publish(started("t1"))
    await zombie.publish(started("stale"))
    assert tasks(client) == ["t1"]
    await worker.publish(result("t1"))
    await zombie.publish(started("staler"))
    await zombie.sink.reconcile([RUN])
    assert not client.exists(IN_FLIGHT)
    other_epoch = Worker(make_sink, epoch=2)
    await other_epoch.publish(started("t2"))
    assert tasks(client) == ["t2"]


async def test_the_list_converges_after_redis_was_away_and_came_back_empty(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(started("t1"), started("t2"))
    redis_server.kill()
    await worker.publish(started("t3"))
    await worker.publish(result("t1"))
    assert worker.sink.away
    redis_server.start()
    await eventually(lambda: worker.sink.unsent == 0 and not worker.sink.away, "the sink is done")
    assert tasks(client) == ["t2", "t3"]


async def test_a_reconcile_restores_a_lost_list_and_removes_one_that_is_over(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(started("t1"))
    client.delete(IN_FLIGHT)
    await worker.sink.reconcile([RUN])
    assert tasks(client) == ["t1"]
    successor = Worker(make_sink)
    successor.fold(started("t1"), result("t1"))
    successor.pipeline.run(RUN).take_changes()
    await successor.sink.reconcile([RUN])
    assert not client.exists(IN_FLIGHT)


async def test_a_foreign_key_in_its_place_is_replaced(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    client.set(IN_FLIGHT, "not ours")
    await worker.publish(started("t1"))
    assert tasks(client) == ["t1"]


async def test_the_list_expires_with_the_run(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink, expire_seconds=1000)
    await worker.publish(started("t1"))
    client.expire(IN_FLIGHT, 10)
    await worker.publish(result("t0"))
    assert 900 < client.ttl(IN_FLIGHT) <= 1000


async def test_of_more_than_a_thousand_the_longest_in_flight_are_listed(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    starts = [started(f"t{n}", started_at=f"2026-01-31T12:{n // 60:02}:{n % 60:02}Z") for n in range(1_200)]
    await worker.publish(*reversed(starts), started("of unknown start"))
    assert counted(client) == 1_201
    with StateReader(Settings(redis=redis_server.url)) as reader:
        found = reader.in_flight(RUN)
    assert [trial.task_id for trial in found] == [f"t{n}" for n in range(1_000)]
    assert all(isinstance(trial, TrialInFlight) for trial in found)


async def test_readers_say_when_a_run_is_unknown_or_a_list_unreadable(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    with StateReader(Settings(redis=redis_server.url)) as reader:
        with pytest.raises(UnknownRun):
            reader.in_flight(RUN)
        worker = Worker(make_sink)
        await worker.publish(result("t0"))
        assert reader.in_flight(RUN) == []
        await worker.publish(started("t1", started_at=NOON, position=7))
        [trial] = reader.in_flight(RUN)
        async with AsyncStateReader(Settings(redis=redis_server.url)) as awaited:
            assert await awaited.in_flight(RUN) == [trial]
        assert (trial.task_id, trial.position) == ("t1", 7)
        assert trial.started_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
        client.hset(IN_FLIGHT, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="in_flight"):
            reader.in_flight(RUN)
