"""The asyncio reader answers as the plain one does, waits, and follows without missing anything."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from streamer.client import AsyncStateReader, StateReader
from streamer.client.queries import RedisUnavailable, UnknownRun
from streamer.operate.local.processes import free_port
from streamer.settings import Settings
from tests.client.following import Worker, following
from tests.redis.test_connect import ClusterNode
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.servers import RedisServer


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
            found = await reader.leaderboard("accuracy", **narrowed)  # type: ignore[arg-type]
            assert found == plain.leaderboard("accuracy", **narrowed) != []  # type: ignore[arg-type]
        assert await reader.history("r/1", limit=3) == plain.history("r/1", limit=3) != []
        assert await reader.workers() == plain.workers()
    with pytest.raises(UnknownRun, match="Did you mean r2, r/1"):
        await reader.run("r/2")


async def test_a_redis_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
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
