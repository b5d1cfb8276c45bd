"""What a reader says of what a sink wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis

from streamer.aggregate.changes import SummaryChange
from streamer.client.reader import StateReader
from streamer.client.results import (
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
)
from streamer.embedded.probe import free_port
from streamer.redis.connect import BadRedisUrl
from streamer.redis.keys import Keys
from streamer.redis.sink import RedisSink
from streamer.settings import Settings
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change, an_update
from tests.support.servers import RedisServer

KEYS = Keys("team")


@pytest.fixture
def reader(redis_server: RedisServer) -> Iterator[StateReader]:
    with StateReader(Settings(redis=redis_server.url, namespace="team")) as reader:
        yield reader


@pytest.fixture
async def sink(redis_server: RedisServer) -> AsyncIterator[RedisSink]:
    settings = Settings(redis=redis_server.url, namespace="team")
    sink = RedisSink.from_settings(settings)
    yield sink
    await sink.close()


async def write(sink: RedisSink, *changes: SummaryChange) -> None:
    await sink.write([an_update(change) for change in changes])


async def test_runs_come_newest_first(sink: RedisSink, reader: StateReader) -> None:
    times = {
        "a": "2026-01-01T00:00:00Z",
        "b:|{}": "2026-01-03T00:00:00Z",
        "c": None,
        "d": "2026-01-02T00:00:00Z",
    }
    await write(sink, *[a_run_change(run, last_event_at=at) for run, at in times.items()])
    assert [run.run_id for run in reader.runs()] == ["b:|{}", "d", "a", "c"]


async def test_a_run_reads_back_as_it_was_published(sink: RedisSink, reader: StateReader) -> None:
    change = a_run_change("r/1", trials=7, labels={"team": "x"}, total_cost="Infinity")
    await write(sink, change)
    run = reader.run("r/1")
    assert (run.trials, run.labels, run.total_cost, run.digest) == (
        7,
        {"team": "x"},
        "Infinity",
        change.digest,
    )


async def test_agents_come_by_label_baselines_included(sink: RedisSink, reader: StateReader) -> None:
    await write(
        sink,
        a_run_change(),
        *[an_agent_model_change(agent=agent, model="m:1/2") for agent in ("nop", "b:c", "a")],
    )
    assert [agent.agent_model for agent in reader.agents("r1")] == ["a:m:1/2", "b%3Ac:m:1/2", "nop:m:1/2"]


async def test_tiers_come_by_name_each_followed_by_the_agents_within(
    sink: RedisSink, reader: StateReader
) -> None:
    await write(
        sink,
        a_run_change(),
        a_tier_change(tier="T:1"),
        a_tier_change(tier="T0"),
        a_tier_change(tier="T0", agent="a", model="m"),
        a_tier_change(tier="T:1", agent="a|", model="m"),
    )
    assert [tier.tier for tier in reader.tiers("r1")] == ["T0", "T:1"]
    within = [(tier.tier, tier.agent_model) for tier in reader.tiers("r1", within=True)]
    assert within == [("T0", None), ("T0", "a:m"), ("T:1", None), ("T:1", "a|:m")]


async def a_benchmark_of_three_runs(sink: RedisSink) -> None:
    await write(
        sink,
        a_run_change("r1", benchmark="tb", labels={"team": "x", "gpu": "no"}),
        an_agent_model_change("r1", "a", mean_cost=3.0, accuracy=0.5, grade="B"),
        an_agent_model_change("r1", "nop", mean_cost=0.0, accuracy=1.0),
        an_agent_model_change("r1", "early", mean_cost=1.0, accuracy=1.0, provisional=True),
        a_run_change("r2", benchmark="tb", labels={"team": "y"}),
        an_agent_model_change("r2", "a", mean_cost=1.0, accuracy=0.5),
        an_agent_model_change("r2", "b", mean_cost=2.0, accuracy=0.75),
        an_agent_model_change("r2", "unpriced", accuracy=0.25),
        a_run_change("r3", labels={"team": "x"}),
        an_agent_model_change("r3", "a", mean_cost=0.5, accuracy=0.9, cost_of_pass="Infinity"),
    )


async def test_a_board_is_best_first_in_the_direction_of_its_metric(
    sink: RedisSink, reader: StateReader
) -> None:
    await a_benchmark_of_three_runs(sink)
    cheapest = reader.leaderboard("mean_cost")
    assert [(row.rank, row.run, row.agent_model, row.value) for row in cheapest] == [
        (1, "r3", "a:opus", 0.5),
        (2, "r2", "a:opus", 1.0),
        (3, "r2", "b:opus", 2.0),
        (4, "r1", "a:opus", 3.0),
        (5, "r1", "early:opus", 1.0),
    ]
    best = reader.leaderboard("accuracy", benchmark="tb")
    assert [(row.rank, row.run, row.agent_model, row.grade) for row in best] == [
        (1, "r2", "b:opus", None),
        (2, "r1", "a:opus", "B"),
        (2, "r2", "a:opus", None),
        (4, "r2", "unpriced:opus", None),
        (5, "r1", "early:opus", None),
    ]
    assert [row.provisional for row in best] == [False] * 4 + [True]


async def test_a_board_can_be_narrowed_to_a_run_a_benchmark_labels_and_a_length(
    sink: RedisSink, reader: StateReader
) -> None:
    await a_benchmark_of_three_runs(sink)

    def runs(**narrowed: object) -> list[str]:
        return [row.run for row in reader.leaderboard("accuracy", **narrowed)]  # type: ignore[arg-type]

    assert runs(run="r1") == ["r1", "r1"]
    assert runs(labels={"team": "x"}) == ["r3", "r1", "r1"]
    assert runs(labels={"team": "x", "gpu": "no"}) == ["r1", "r1"]
    assert runs(benchmark="tb", labels={"team": "x"}) == ["r1", "r1"]
    assert runs(benchmark="tb", limit=2) == ["r2", "r1"]
    assert runs(labels={"team": "z"}) == []
    assert runs(run="r3", benchmark="tb") == []
    [row] = reader.leaderboard("cost_of_pass")
    assert row.value == float("inf")


async def test_a_stale_place_on_a_board_shows_the_summary_it_stands_for_or_nothing(
    sink: RedisSink, reader: StateReader, redis_server: RedisServer
) -> None:
    await a_benchmark_of_three_runs(sink)
    with redis.Redis.from_url(redis_server.url) as client:
        client.zadd(KEYS.benchmark_board("tb", "accuracy"), {"r2|b:opus": 0.0, "gone|a:b": 1.0})
    assert [(row.run, row.value) for row in reader.leaderboard("accuracy", benchmark="tb", limit=1)] == [
        ("r2", 0.75)
    ]


async def test_history_tells_each_emission_oldest_first(sink: RedisSink, reader: StateReader) -> None:
    await write(sink, a_run_change(version=1, progress={"done": 3, "planned": 5}))
    await write(sink, a_tier_change(tier="T 1", version=2, means={"pass_rate": 0.5}))
    await write(sink, a_tier_change(tier="T 1", version=3, deleted=True))
    first, second, third = reader.history("r1")
    assert (first.kind, first.group, first.state_version) == ("run", "", 1)
    assert (first.headline["done"], first.headline["planned"]) == ("3", "5")
    assert (second.group, second.headline["pass_rate"], second.deleted) == ("T 1", "0.5", False)
    assert second.last_event_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (third.deleted, third.last_event_at, third.headline) == (True, None, {})
    assert reader.history("r1", limit=1) == [third]


async def test_workers_tell_when_they_last_spoke(sink: RedisSink, reader: StateReader) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await sink.heartbeat("w2", {"lag": 5}, at=now)
    await sink.heartbeat("w1", {}, at=now - timedelta(minutes=1))
    first, second = reader.workers()
    assert (first.worker_id, first.stale(now), second.stale(now), second.status) == (
        "w1",
        True,
        False,
        {"lag": 5},
    )


def test_an_empty_redis_has_no_runs_boards_or_workers(reader: StateReader) -> None:
    assert (reader.runs(), reader.leaderboard("accuracy"), reader.workers()) == ([], [], [])


async def test_unknown_names_are_answered_with_the_known_ones(sink: RedisSink, reader: StateReader) -> None:
    with pytest.raises(UnknownRun, match="no runs yet"):
        reader.run("r")
    await write(
        sink, *[a_run_change(run, benchmark="terminal") for run in ("nightly-1", "nightly-2", "zebra")]
    )
    for ask in (reader.run, reader.agents, reader.tiers, reader.history):
        with pytest.raises(UnknownRun, match=r"'nightly_1'\. Did you mean nightly-1, nightly-2\?"):
            ask("nightly_1")
    with pytest.raises(UnknownRun, match="of 3 runs"):
        reader.leaderboard("accuracy", run="Q")
    with pytest.raises(UnknownMetric, match=r"'speed'.*accuracy, pass_rate"):
        reader.leaderboard("speed")
    with pytest.raises(UnknownBenchmark, match=r"'term'\. Benchmarks: terminal\."):
        reader.leaderboard("accuracy", benchmark="term")


def test_a_redis_that_is_not_there_is_named_with_what_to_do_and_no_password() -> None:
    url = f"redis://user:secret@127.0.0.1:{free_port()}/0"
    for ending in ("", "?cluster=true"):
        with (
            pytest.raises(RedisUnavailable, match=r"127\.0\.0\.1:.*--redis or STREAMER_REDIS") as caught,
            StateReader(Settings(redis=url + ending)) as reader,
        ):
            reader.runs()
        assert "secret" not in str(caught.value)


async def test_what_is_no_summary_is_named_by_its_key(
    sink: RedisSink, reader: StateReader, redis_server: RedisServer
) -> None:
    await write(sink, a_run_change())
    with redis.Redis.from_url(redis_server.url) as client:
        client.set(KEYS.run("r1"), b'{"type": "run_summary"}')
    with pytest.raises(UnreadableSummary, match=r"team:streamer:\{r1\}:run"):
        reader.run("r1")


@pytest.mark.parametrize("url", ["127.0.0.1:6379", "http://host", "redis://user:secret@host:port/0"])
def test_a_url_that_is_none_of_redis_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(BadRedisUrl, match="redis://HOST:PORT/0") as caught:
        StateReader(Settings(redis=url))
    assert "secret" not in str(caught.value)
