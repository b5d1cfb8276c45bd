"""What a plain says of what a sink wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from streamer.client.readers import StateReader
from streamer.settings import Settings
from streamer.storage.redis import BadRedisUrl, RedisSink
from tests.client.writing import write
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.servers import RedisServer


@pytest.fixture
def reader(redis_server: RedisServer) -> Iterator[StateReader]:
    with StateReader(Settings(redis=redis_server.url, namespace="team")) as plain:
        yield plain


async def test_runs_come_newest_first(sink: RedisSink, plain: StateReader) -> None:
    times = {
        "a": "2026-01-01T00:00:00Z",
        "b:|{}": "2026-01-03T00:00:00Z",
        "c": None,
        "d": "2026-01-02T00:00:00Z",
    }
    await write(sink, *[a_run_change(run, last_event_at=at) for run, at in times.items()])
    assert [run.run_id for run in plain.runs()] == ["b:|{}", "d", "a", "c"]


async def test_a_run_reads_back_as_it_was_published(sink: RedisSink, plain: StateReader) -> None:
    change = a_run_change("r/1", trials=7, labels={"team": "x"}, total_cost="Infinity")
    await write(sink, change)
    run = plain.run("r/1")
    assert (run.trials, run.labels, run.total_cost, run.digest) == (
        7,
        {"team": "x"},
        "Infinity",
        change.digest,
    )


async def test_agents_come_by_label_baselines_included(sink: RedisSink, plain: StateReader) -> None:
    await write(
        sink,
        a_run_change(),
        *[an_agent_model_change(agent=agent, model="m:1/2") for agent in ("nop", "b:c", "a")],
    )
    assert [agent.agent_model for agent in plain.agents("r1")] == ["a:m:1/2", "b%3Ac:m:1/2", "nop:m:1/2"]


async def test_tiers_come_by_name_each_followed_by_the_agents_within(
    sink: RedisSink, plain: StateReader
) -> None:
    await write(
        sink,
        a_run_change(),
        a_tier_change(tier="T:1"),
        a_tier_change(tier="T0"),
        a_tier_change(tier="T0", agent="a", model="m"),
        a_tier_change(tier="T:1", agent="a|", model="m"),
    )
    assert [tier.tier for tier in plain.tiers("r1")] == ["T0", "T:1"]
    within = [(tier.tier, tier.agent_model) for tier in plain.tiers("r1", within=True)]
    assert within == [("T0", None), ("T0", "a:m"), ("T:1", None), ("T:1", "a|:m")]


async def test_workers_tell_when_they_last_spoke(sink: RedisSink, plain: StateReader) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await sink.heartbeat("w2", {"lag": 5}, at=now)
    await sink.heartbeat("w1", {}, at=now - timedelta(minutes=1))
    first, second = plain.workers()
    assert (first.worker_id, first.stale(now), second.stale(now), second.status) == (
        "w1",
        True,
        False,
        {"lag": 5},
    )


def test_an_empty_redis_has_no_runs_boards_or_workers(plain: StateReader) -> None:
    assert (plain.runs(), plain.leaderboard("accuracy"), plain.workers()) == ([], [], [])


@pytest.mark.parametrize("url", ["127.0.0.1:6379", "http://host", "redis://user:secret@host:port/0"])
def test_a_url_that_is_none_of_redis_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(BadRedisUrl, match="redis://HOST:PORT/0") as caught:
        StateReader(Settings(redis=url))
    assert "secret" not in str(caught.value)
