"""The asyncio reader answers as the plain one does, waits, and follows without missing anything."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from pathlib import Path

import orjson
import pytest
import redis

from streamer.client import AsyncStateReader, NotReached, StateReader
from streamer.client.queries import RedisUnavailable, UnknownRun
from streamer.operate.local.processes import free_port
from streamer.schemas.summaries import RunSummary
from streamer.settings import Settings
from tests.client.following import DEADLINE_SECONDS, KEYS, Worker, following
from tests.storage.test_redis_stack import ClusterNode
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.servers import RedisServer, pause


def test_it_has_every_question_of_the_plain_reader() -> None:
    def questions(kind: type) -> dict[str, list[str]]:
        public = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters) for name, value in public.items()}

    asked = questions(AsyncStateReader)
    assert asked.pop("updates")
    assert asked == questions(StateReader)


async def test_it_answers_as_the_plain_reader_does(
    reader: AsyncStateReader, settings: Settings, worker: Worker
) -> None:
    await worker.write(
        a_run_change("r/1", benchmark="tb", labels={"team": "x"}),
        an_agent_model_change("r/1", "a", "m:1", accuracy=0.5),
        an_agent_model_change("r/1", "b", accuracy=0.75),
        a_tier_change("r/1", "T0"),
        a_tier_change("r/1", "T0", "a", "m:1"),
        a_run_change("r2"),
    )
    with StateReader(settings) as plain:
        assert await reader.runs() == plain.runs()
        assert await reader.run("r/1") == plain.run("r/1")
        assert await reader.agents("r/1") == plain.agents("r/1") != []
        assert await reader.tiers("r/1", within=True) == plain.tiers("r/1", within=True) != []
        for narrowed in ({}, {"run": "r/1"}, {"benchmark": "tb"}, {"labels": {"team": "x"}}, {"limit": 1}):
            result = await reader.leaderboard("accuracy", **narrowed)  # type: ignore[arg-type]
            assert result == plain.leaderboard("accuracy", **narrowed) != []  # type: ignore[arg-type]
        assert await reader.history("r/1", limit=3) == plain.history("r/1", limit=3) != []
        assert await reader.workers() == plain.workers()
    with pytest.raises(UnknownRun, match="Did you mean r2, r/1"):
        await reader.run("r/2")


async def test_a_redis_that_is_not_there_is_told_at_once() -> None:
    async with AsyncStateReader(Settings(redis=f"redis://127.0.0.1:{free_port()}/0")) as reader:
        with pytest.raises(RedisUnavailable):
            await reader.runs()
        with pytest.raises(RedisUnavailable):
            await anext(reader.updates())
        with pytest.raises(RedisUnavailable):
            await reader.wait_for("r", timeout_seconds=5)


async def test_a_restarted_redis_does_not_fail_the_next_question(
    reader: AsyncStateReader, redis_server: RedisServer
) -> None:
    assert await reader.runs() == []
    redis_server.restart_empty()
    assert await reader.runs() == []


@pytest.mark.stack
async def test_a_cluster_is_read_and_followed_too(tmp_path: Path) -> None:
    with ClusterNode(tmp_path) as node:
        settings = Settings(redis=f"{node.url}?cluster=true", namespace="team")
        worker = Worker(settings)
        async with AsyncStateReader(settings) as reader, following(reader) as follower:
            await worker.write(a_run_change("r1", version=1), a_tier_change("r1", version=1))
            await worker.write(a_run_change("r2", version=1))
            await follower.until(r1_run=1, r1_tier=1, r2_run=1)
            assert {run.run_id for run in await reader.runs()} == {"r1", "r2"}
            assert len(await reader.tiers("r1")) == 1
        await worker.sink.close()


# -----------------------------------------------------------------------------
# Following the changes in Redis: what stands, each change, and all that a lost connection hid.


async def test_updates_begin_with_what_stands_go_on_with_each_change_and_a_deleted_run_takes_all_along(
    reader: AsyncStateReader, worker: Worker
) -> None:
    await worker.write(a_run_change(version=1), an_agent_model_change(version=1), a_tier_change(version=1))
    async with following(reader) as follower, following(reader, "r2") as of_one_run:
        await follower.until(r1_run=1, r1_agent_model=1, r1_tier=1)
        await worker.write(a_run_change(version=2), a_run_change("r2", version=7))
        await follower.until(r1_run=2, r2_run=7)
        await worker.write(a_tier_change(version=3, deleted=True))
        await follower.until(r1_tier=None)
        [agent] = [update for update in follower.told if update.kind == "agent_model"]
        assert (agent.run_id, agent.group) == ("r1", "claude:opus")
        assert agent.key == KEYS.agent_model("r1", "claude", "opus")
        await worker.write(a_run_change(version=4, deleted=True), a_run_change("r2", version=8))
        await follower.until(r1_run=None, r1_agent_model=None)
        await of_one_run.until(r2_run=8)
        assert {update.run_id for update in of_one_run.told} == {"r2"}


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


async def test_a_message_of_something_older_tells_nothing_and_a_value_under_an_equal_version_is_told(
    reader: AsyncStateReader, worker: Worker, redis_server: RedisServer
) -> None:
    await worker.write(a_run_change(version=5, trials=1))
    async with following(reader) as follower:
        await follower.until(r1_run=5)
        stale = a_run_change(version=4)
        message = {"run": "r1", "kind": "run", "group": "", "key": KEYS.run("r1"), "deleted": False}
        with redis.Redis.from_url(redis_server.url) as client:
            client.set(KEYS.run("r1"), stale.value or b"")
            client.publish(KEYS.updates, orjson.dumps(message | {"epoch": 1, "state_version": 4}))
        await worker.write(a_run_change("r2", version=1))
        await follower.until(r2_run=1)
        await worker.write(a_run_change(version=5, trials=2))
        await worker.write(a_run_change("r2", version=2))
        await follower.until(r2_run=2)
        told = [update.summary for update in follower.told if update.run_id == "r1"]
        assert [one and (one.state_version, one.trials) for one in told] == [(5, 1), (5, 2)]


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
        pause(hung_redis.child.pid)
        with pytest.raises(RedisUnavailable):
            await reader.runs()
        hung_redis.child.signal(signal.SIGCONT)
        await worker.write(a_run_change(version=2))
        await follower.until(r1_run=2)
    await worker.sink.close()


# -----------------------------------------------------------------------------
# Waiting for a condition of a run ends when it holds, or says where the run is.


async def test_waiting_ends_when_the_run_is_finished_or_a_condition_holds(
    reader: AsyncStateReader, worker: Worker
) -> None:
    finished = asyncio.create_task(reader.wait_for("r1", timeout_seconds=DEADLINE_SECONDS))
    enough = asyncio.create_task(
        reader.wait_for("r1", lambda run: run.trials >= 3, timeout_seconds=DEADLINE_SECONDS)
    )
    part = {"done": 1, "planned": 2}
    for number in range(1, 5):
        await worker.write(a_run_change(version=number, trials=number, progress=part))
    assert (await enough).trials >= 3
    assert not finished.done()
    await worker.write(a_run_change(version=5, progress=part, status="done"))
    assert (await finished).status == "done"
    await worker.write(a_run_change("r2", version=1, progress={"done": 2, "planned": 2}))
    assert (await reader.wait_for("r2", timeout_seconds=DEADLINE_SECONDS)).run_id == "r2"


async def test_waiting_in_vain_says_where_the_run_is(reader: AsyncStateReader, worker: Worker) -> None:
    with pytest.raises(NotReached, match=r"'r1' did not get there within 0\.2 s: there is no such run yet"):
        await reader.wait_for("r1", timeout_seconds=0.2)
    await worker.write(a_run_change(version=1, progress={"done": 1, "planned": 2_000}))
    with pytest.raises(NotReached, match=r"1 of 2,000 slots filled, stalled") as caught:
        await reader.wait_for("r1", timeout_seconds=1)
    assert isinstance(caught.value, TimeoutError)
    reading = {"done": 1, "planned": None, "plan_complete": False}
    await worker.write(a_run_change(version=2, progress=reading))
    with pytest.raises(NotReached, match=r"1 of \? slots filled, plan not complete yet, unfinished"):
        await reader.wait_for("r1", timeout_seconds=1)
    assert caught.value.last is not None


async def test_plain_code_can_wait_too(settings: Settings, worker: Worker) -> None:
    result: list[RunSummary] = []
    with StateReader(settings) as plain:
        thread = threading.Thread(
            target=lambda: result.append(plain.wait_for("r1", timeout_seconds=DEADLINE_SECONDS))
        )
        thread.start()
        await worker.write(a_run_change(version=2, status="done"))
        await asyncio.to_thread(thread.join)
        assert result[0].status == "done"
        with pytest.raises(NotReached, match="no such run"):
            plain.wait_for("r2", timeout_seconds=0.1)
