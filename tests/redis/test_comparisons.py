"""The comparison and the tasks of a run in Redis: guarded, deleted and restored with the run's other keys."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import redis

from streamer.client.queries import UnknownRun, UnreadableSummary
from streamer.client.readers import AsyncStateReader, StateReader
from streamer.settings import Settings
from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.redis.test_in_flight import Worker
from tests.support.eventually import eventually
from tests.support.servers import RedisServer

KEYS = Keys()
RUN = "run/1"
COMPARISONS, TASKS = KEYS.comparisons(RUN), KEYS.tasks(RUN)


def result(agent: str, task: str, **fields: Any) -> dict[str, Any]:
    slot = {"run_id": RUN, "task_id": task, "agent": agent, "model": "m"}
    return {"type": "trial_result", **slot, "resolved": agent == "a", **fields}


def started_plan(**fields: Any) -> dict[str, Any]:
    return {"type": "run_started", "run_id": RUN, "tasks": 2, "attempts": 1, **fields}


def compared(client: redis.Redis) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(str(client.get(COMPARISONS)))
    return found


def tasks(client: redis.Redis) -> dict[str, Any]:
    return {task: orjson.loads(held) for task, held in client.hgetall(TASKS).items()}


async def test_both_follow_the_results_and_their_retraction(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(started_plan(), result("a", "t|1"))
    assert not client.exists(COMPARISONS)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}
    await worker.publish(result("b", "t|1"))
    [pair] = compared(client)["pairs"]
    assert (pair["wins"], pair["losses"], pair["unknown"]) == (1, 0, 1)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0], "b:m": [1, 0, 0]}}
    gone = {"type": "trial_retracted", "run_id": RUN, "task_id": "t|1", "agent": "b", "model": "m"}
    await worker.publish(gone | {"revision": 1})
    assert not client.exists(COMPARISONS)
    assert tasks(client) == {"t%7C1": {"a:m": [1, 1, 0]}}


async def test_neither_is_news(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    kinds = {fields["kind"] for _, fields in client.xrange(KEYS.history(RUN))}
    assert kinds == {"agent_model", "run"}


async def test_a_deleted_run_has_neither(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    await worker.publish({"type": "run_deleted", "run_id": RUN, "revision": 9})
    assert client.keys() == [KEYS.versions(RUN)]
    await worker.publish(result("a", "t2", revision=10), result("b", "t2", revision=10))
    assert (len(compared(client)["pairs"]), list(tasks(client))) == (1, ["t2"])


async def test_an_older_writer_replaces_nothing_and_brings_nothing_back(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker, zombie = Worker(make_sink, offset=7), Worker(make_sink, offset=3)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    standing = client.get(COMPARISONS), tasks(client)
    await zombie.publish(result("a", "stale"), result("b", "stale"))
    await zombie.sink.reconcile([RUN])
    assert (client.get(COMPARISONS), tasks(client)) == standing
    successor = Worker(make_sink, epoch=2)
    await successor.publish(result("a", "t2"), result("c", "t2"))
    assert [one["agent"] for one in compared(client)["agents"]] == ["a", "c"]


async def test_both_converge_after_redis_was_away_and_came_back_empty(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    redis_server.kill()
    await worker.publish(result("a", "t2"))
    await worker.publish(result("b", "t2"))
    assert worker.sink.away
    redis_server.start()
    await eventually(lambda: worker.sink.unsent == 0 and not worker.sink.away, "the sink is done")
    assert compared(client)["pairs"][0]["wins"] == 2
    assert sorted(tasks(client)) == ["t1", "t2"]


async def test_a_reconcile_restores_lost_keys_and_removes_those_that_are_over(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    standing = client.get(COMPARISONS), tasks(client)
    client.delete(COMPARISONS, TASKS)
    await worker.sink.reconcile([RUN])
    assert (client.get(COMPARISONS), tasks(client)) == standing
    successor = Worker(make_sink, offset=9)
    successor.fold(result("a", "t1"))
    successor.pipeline.run(RUN).take_changes()
    await successor.sink.reconcile([RUN])
    assert not client.exists(COMPARISONS)
    assert tasks(client) == {"t1": {"a:m": [1, 1, 0]}}


async def test_tasks_beyond_what_lua_passes_at_once_are_all_there(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    worker = Worker(make_sink)
    await worker.publish(*(result("a", f"t{number}") for number in range(5_000)))
    assert client.hlen(TASKS) == 5_000
    assert client.hget(TASKS, "t4999") == '{"a:m":[1,1,0]}'


async def test_both_expire_with_the_run(make_sink: MakeSink, client: redis.Redis) -> None:
    worker = Worker(make_sink, expire_seconds=1000)
    await worker.publish(result("a", "t1"), result("b", "t1"))
    for key in (COMPARISONS, TASKS):
        client.expire(key, 10)
    await worker.publish(result("a", "t2"))
    assert all(900 < client.ttl(key) <= 1000 for key in (COMPARISONS, TASKS))


async def test_readers_get_both_from_one_moment_or_say_what_is_wrong(
    make_sink: MakeSink, redis_server: RedisServer, client: redis.Redis
) -> None:
    with StateReader(Settings(redis=redis_server.url)) as reader:
        with pytest.raises(UnknownRun):
            reader.comparison(RUN)
        worker = Worker(make_sink)
        await worker.publish(result("a", "t|1"))
        alone = reader.comparison(RUN)
        assert (alone.comparison, alone.tasks) == (None, {"t%7C1": {"a:m": (1, 1, 0)}})
        await worker.publish(started_plan(), result("b", "t|1"))
        found = reader.comparison(RUN)
        assert found.comparison is not None
        assert found.comparison.pairs[0].wins == 1
        async with AsyncStateReader(Settings(redis=redis_server.url)) as awaited:
            assert await awaited.comparison(RUN) == found
        client.hset(TASKS, "x", "garbage")
        with pytest.raises(UnreadableSummary, match="tasks"):
            reader.comparison(RUN)
