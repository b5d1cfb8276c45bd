"""Following the changes in Redis: what stands, each change, and all that a lost connection hid."""

from __future__ import annotations

import asyncio
import signal

import orjson
import pytest
import redis

from streamer.client import AsyncStateReader
from streamer.client.queries import RedisUnavailable
from streamer.settings import Settings
from tests.client.following import DEADLINE_SECONDS, KEYS, Worker, following
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.servers import RedisServer


async def test_updates_begin_with_what_stands_and_go_on_with_each_change(
    reader: AsyncStateReader, worker: Worker
) -> None:
    await worker.write(a_run_change(version=1), an_agent_model_change(version=1), a_tier_change(version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r1_agent_model=1, r1_tier=1)
        await worker.write(a_run_change(version=2), a_run_change("r2", version=7))
        await follower.until(r1_run=2, r2_run=7)
        await worker.write(a_tier_change(version=3, deleted=True))
        await follower.until(r1_tier=None)
        [agent] = [update for update in follower.told if update.kind == "agent_model"]
        assert (agent.run_id, agent.group) == ("r1", "claude:opus")
        assert agent.key == KEYS.agent_model("r1", "claude", "opus")


async def test_updates_from_now_leave_out_what_stands(reader: AsyncStateReader, worker: Worker) -> None:
    await worker.write(a_run_change("old", version=1), a_run_change("r1", version=1))
    async with following(reader, from_now=True) as follower:
        version = 1
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not follower.told:  # until it has looked around, changes are part of what stands
                version += 1
                await worker.write(a_run_change("r1", version=version))
                await asyncio.sleep(0.05)
        assert {update.run_id for update in follower.told} == {"r1"}


async def test_updates_of_one_run_tell_nothing_of_others(reader: AsyncStateReader, worker: Worker) -> None:
    await worker.write(a_run_change("r1", version=1), a_run_change("r2", version=1))
    async with following(reader, "r2") as follower:
        await follower.until(r2_run=1)
        await worker.write(a_run_change("r1", version=2), a_run_change("r2", version=2))
        await follower.until(r2_run=2)
        assert {update.run_id for update in follower.told} == {"r2"}


async def test_a_message_of_something_older_tells_nothing(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change(version=5))
    async with following(reader) as follower:
        await follower.until(r1_run=5)
        stale = a_run_change(version=4)
        message = {"run": "r1", "kind": "run", "group": "", "key": KEYS.run("r1"), "deleted": False}
        with redis.Redis.from_url(redis_server.url) as client:
            client.set(KEYS.run("r1"), stale.value or b"")
            client.publish(KEYS.updates, orjson.dumps(message | {"epoch": 1, "state_version": 4}))
        await worker.write(a_run_change("r2", version=1))
        await follower.until(r2_run=1)
        assert [u.summary.state_version for u in follower.told if u.run_id == "r1" and u.summary] == [5]


async def test_a_value_that_changed_under_an_equal_version_is_told(
    reader: AsyncStateReader, worker: Worker
) -> None:
    await worker.write(a_run_change(version=5, trials=1))
    async with following(reader) as follower:
        await follower.until(r1_run=5)
        await worker.write(a_run_change(version=5, trials=2))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(follower.told) < 2:
                await asyncio.sleep(0.01)
        assert [update.summary.trials for update in follower.told if update.summary] == [1, 2]


async def test_a_deleted_run_takes_along_all_that_was_told_of_it(
    reader: AsyncStateReader, worker: Worker
) -> None:
    await worker.write(a_run_change(version=1), an_agent_model_change(version=1), a_tier_change(version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r1_agent_model=1, r1_tier=1)
        await worker.write(a_run_change(version=2, deleted=True))
        await follower.until(r1_run=None, r1_agent_model=None, r1_tier=None)


async def test_what_changed_while_the_connection_was_lost_is_told_after_it(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change("r1", version=1), a_tier_change("r1", version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r1_tier=1)
        with redis.Redis.from_url(redis_server.url) as client:
            client.client_kill_filter(_type="pubsub", skipme=True)
        await worker.write(a_run_change("r1", version=2), a_tier_change("r1", version=2, deleted=True))
        await worker.write(a_run_change("r2", version=3))
        await follower.until(r1_run=2, r1_tier=None, r2_run=3)


async def test_a_redis_that_lost_everything_deletes_nothing_and_later_changes_are_told(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change("r1", version=1), a_run_change("r2", version=1))
    async with following(reader) as follower:
        await follower.until(r1_run=1, r2_run=1)
        redis_server.kill()
        await worker.write(a_run_change("r1", version=2))  # kept by the sink
        redis_server.start()
        await follower.until(r1_run=2)
        await worker.write(a_run_change("r2", version=3))
        await follower.until(r2_run=3)
        assert all(update.summary for update in follower.told)
        versions = [u.summary.state_version for u in follower.told if u.summary and u.run_id == "r1"]
        assert versions == sorted(versions)


async def test_what_is_written_silently_is_told_too(reader: AsyncStateReader, worker: Worker) -> None:
    """Workers that fill an emptied Redis publish nothing: everything is looked at now and then."""
    async with following(reader) as follower:
        await worker.write(a_run_change("loud", version=1))
        await follower.until(loud_run=1)
        worker.owned.put(a_run_change("silent", version=4))
        await worker.sink.reconcile(["silent"])
        await follower.until(silent_run=4)


@pytest.mark.stack
async def test_a_redis_that_hangs_is_noticed_and_followed_again_when_it_goes_on(
    hung_redis: RedisServer,
) -> None:
    settings = Settings(redis=hung_redis.url, namespace="team")
    worker = Worker(settings)
    async with AsyncStateReader(settings, timeout_seconds=0.3) as reader, following(reader) as follower:
        await worker.write(a_run_change(version=1))
        await follower.until(r1_run=1)
        hung_redis.child.signal(signal.SIGSTOP)
        with pytest.raises(RedisUnavailable):
            await reader.runs()
        hung_redis.child.signal(signal.SIGCONT)
        await worker.write(a_run_change(version=2))
        await follower.until(r1_run=2)
    await worker.sink.close()
