"""The questions to Redis: boards, histories, and stale places."""

from __future__ import annotations

from datetime import UTC, datetime

import redis

from streamer.client.readers import StateReader
from streamer.storage.redis import RedisSink
from tests.client.writing import KEYS, a_benchmark_of_three_runs, write
from tests.support.builders import a_run_change, a_tier_change
from tests.support.servers import RedisServer


async def test_a_board_is_best_first_in_the_direction_of_its_metric(
    sink: RedisSink, plain: StateReader
) -> None:
    await a_benchmark_of_three_runs(sink)
    cheapest = plain.leaderboard("mean_cost")
    assert [(row.rank, row.run, row.agent_model, row.value) for row in cheapest] == [
        (1, "r3", "a:opus", 0.5),
        (2, "r2", "a:opus", 1.0),
        (3, "r2", "b:opus", 2.0),
        (4, "r1", "a:opus", 3.0),
        (5, "r1", "early:opus", 1.0),
    ]
    best = plain.leaderboard("accuracy", benchmark="tb")
    assert [(row.rank, row.run, row.agent_model, row.grade) for row in best] == [
        (1, "r2", "b:opus", None),
        (2, "r1", "a:opus", "B"),
        (2, "r2", "a:opus", None),
        (4, "r2", "unpriced:opus", None),
        (5, "r1", "early:opus", None),
    ]
    assert [row.provisional for row in best] == [False] * 4 + [True]


async def test_a_board_can_be_narrowed_to_a_run_a_benchmark_labels_and_a_length(
    sink: RedisSink, plain: StateReader
) -> None:
    await a_benchmark_of_three_runs(sink)

    def runs(**narrowed: object) -> list[str]:
        return [row.run for row in plain.leaderboard("accuracy", **narrowed)]  # type: ignore[arg-type]

    assert runs(run="r1") == ["r1", "r1"]
    assert runs(labels={"team": "x"}) == ["r3", "r1", "r1"]
    assert runs(labels={"team": "x", "gpu": "no"}) == ["r1", "r1"]
    assert runs(benchmark="tb", labels={"team": "x"}) == ["r1", "r1"]
    assert runs(benchmark="tb", limit=2) == ["r2", "r1"]
    assert runs(labels={"team": "z"}) == []
    assert runs(run="r3", benchmark="tb") == []
    [row] = plain.leaderboard("cost_of_pass")
    assert row.value == float("inf")


async def test_a_stale_place_on_a_board_shows_the_summary_it_stands_for_or_nothing(
    sink: RedisSink, plain: StateReader, redis_server: RedisServer
) -> None:
    await a_benchmark_of_three_runs(sink)
    with redis.Redis.from_url(redis_server.url) as client:
        client.zadd(KEYS.benchmark_board("tb", "accuracy"), {"r2|b:opus": 0.0, "gone|a:b": 1.0})
    assert [(row.run, row.value) for row in plain.leaderboard("accuracy", benchmark="tb", limit=1)] == [
        ("r2", 0.75)
    ]


async def test_history_tells_each_emission_oldest_first(sink: RedisSink, plain: StateReader) -> None:
    await write(sink, a_run_change(version=1, progress={"done": 3, "planned": 5}))
    await write(sink, a_tier_change(tier="T 1", version=2, means={"pass_rate": 0.5}))
    await write(sink, a_tier_change(tier="T 1", version=3, deleted=True))
    first, second, third = plain.history("r1")
    assert (first.kind, first.group, first.state_version) == ("run", "", 1)
    assert (first.headline["done"], first.headline["planned"]) == ("3", "5")
    assert (second.group, second.headline["pass_rate"], second.deleted) == ("T 1", "0.5", False)
    assert second.last_event_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (third.deleted, third.last_event_at, third.headline) == (True, None, {})
    assert plain.history("r1", limit=1) == [third]
