"""Boards of the named metrics that a plan names, in Redis (R30)."""

from __future__ import annotations

from typing import Any

import redis

from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.redis.test_in_flight import RUN, Worker
from tests.support.eventually import eventually
from tests.support.servers import RedisServer

KEYS = Keys()
BOARD, NAMED = KEYS.board(RUN, "metrics/reward"), KEYS.named_boards(RUN)
ACROSS, NAMED_ACROSS = KEYS.benchmark_board("bench", "metrics/reward"), KEYS.benchmark_named_boards("bench")


def plan(revision: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "run_started", "run_id": RUN, "benchmark": "bench", "revision": revision, **fields}


def result(task: str, agent: str = "a", **metrics: float) -> dict[str, Any]:
    return {
        "type": "trial_result",
        "run_id": RUN,
        "task_id": task,
        "agent": agent,
        "model": "m",
        "metrics": metrics,
    }


REWARDED = plan(metrics={"reward": {"direction": "lower"}})


def board(client: redis.Redis, key: str = BOARD) -> dict[Any, float]:
    return dict(client.zrange(key, 0, -1, withscores=True))


async def test_a_planned_metric_has_a_board_and_another_has_none(
    make_sink: MakeSink, client: redis.Redis, redis_server: RedisServer
) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5, style=3.0), result("t", "b", reward=0.25))
    assert board(client) == {"a:m": 0.5, "b:m": 0.25}
    assert not client.exists(KEYS.board(RUN, "metrics/style"))
    await eventually(
        lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5, "run%2F1|b:m": 0.25}, "the board across runs"
    )
    with StateReader(Settings(redis=redis_server.url)) as reader:
        for benchmark in (None, "bench"):
            run = RUN if benchmark is None else None
            rows = reader.leaderboard("metrics/reward", run=run, benchmark=benchmark)
            assert [(row.rank, row.agent_model, row.value) for row in rows] == [
                (1, "b:m", 0.25),
                (2, "a:m", 0.5),
            ]
        [best] = reader.leaderboard("metrics/style", run=RUN)
        assert (best.agent_model, best.value) == ("a:m", 3.0)


async def test_a_metric_that_the_plan_drops_leaves_its_board(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5))
    await worker.publish(plan(1, metrics={"style": {}}))
    assert not client.exists(BOARD)
    await eventually(lambda: not client.exists(ACROSS), "the board across runs")


async def test_a_retracted_agent_leaves_its_boards(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5), result("t", "b", reward=0.25))
    await worker.publish(
        {"type": "trial_retracted", "run_id": RUN, "task_id": "t", "agent": "a", "model": "m", "revision": 1}
    )
    assert board(client) == {"b:m": 0.25}
    await eventually(lambda: board(client, ACROSS) == {"run%2F1|b:m": 0.25}, "the board across runs")


async def test_a_deleted_run_leaves_no_named_board(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5))
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 1})
    assert not client.exists(BOARD, NAMED)
    await eventually(lambda: not client.exists(ACROSS), "the board across runs")


async def test_after_a_loss_of_redis_the_boards_come_back(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5))
    client.flushall()
    await worker.sink.reconcile([RUN])
    assert board(client) == {"a:m": 0.5}
    await eventually(lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5}, "the board across runs")


async def test_another_worker_corrects_a_board_across_runs(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(REWARDED, result("t", reward=0.5))
    client.zadd(ACROSS, {"run%2F1|gone:m": 1.0})
    await worker.sink.reconcile([RUN])
    await eventually(lambda: board(client, ACROSS) == {"run%2F1|a:m": 0.5}, "the board across runs")


async def test_named_boards_expire_with_the_run(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink, expire_seconds=100)
    await worker.publish(REWARDED, result("t", reward=0.5))
    assert 0 < int(str(client.ttl(BOARD))) <= 100
    assert 0 < int(str(client.ttl(NAMED))) <= 100
    await eventually(lambda: 0 < int(str(client.ttl(NAMED_ACROSS))) <= 100, "the board across runs")
