"""What stands where in Redis after a write."""

from __future__ import annotations

import pytest
import redis

from streamer.schemas.events import BOARD_METRICS
from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.redis.hostile import HOSTILE, IDS
from tests.support.builders import (
    a_formulacode_summary,
    a_run_change,
    a_tier_change,
    an_agent_model_change,
    an_update,
)

KEYS = Keys()


async def test_the_bytes_of_the_topic_stand_under_the_keys_of_the_run(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    changes = [
        a_run_change(version=3),
        an_agent_model_change(version=3),
        a_tier_change(tier="T1", version=3),
        a_tier_change(tier="T1", agent="claude", model="opus", version=3),
    ]
    await make_sink().write([an_update(*changes)])
    keys = ["run", "agent_model:claude:opus", "tier:T1", "tier:T1:claude:opus"]
    stored = [client.get(f"streamer:{{r1}}:{suffix}") for suffix in keys]
    assert stored == [change.value.decode() for change in changes if change.value]
    assert client.smembers(KEYS.agent_models("r1")) == {"claude:opus"}
    assert client.smembers(KEYS.tiers("r1")) == {"T1"}
    assert client.smembers(KEYS.tier_agent_models("r1", "T1")) == {"claude:opus"}
    assert client.hgetall(KEYS.versions("r1")) == dict.fromkeys(keys, "1:3")


async def test_boards_hold_every_metric_that_is_known_and_no_baseline(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    good = an_agent_model_change(
        accuracy=0.5,
        cost_of_pass="Infinity",
        mean_cost=0.25,
        total_cost=0.1 + 0.2,
        means={"pass_rate": 0.75, "composite_score": "NaN", "duration_seconds": 12.5},
        formulacode=a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125),
    )
    await make_sink().write(
        [an_update(good, an_agent_model_change(agent="nop"), a_run_change(benchmark="b|1"))]
    )
    boards = {
        metric: dict(client.zrange(KEYS.board("r1", metric), 0, -1, withscores=True))
        for metric in BOARD_METRICS
    }
    assert {metric: board["claude:opus"] for metric, board in boards.items() if board} == {
        "accuracy": 0.5,
        "pass_rate": 0.75,
        "cost_of_pass": float("inf"),
        "mean_cost": 0.25,
        "total_cost": 0.1 + 0.2,
        "mean_duration": 12.5,
        "mean_speedup": 1.25,
        "agent_advantage": -0.125,
    }
    assert all(len(board) <= 1 for board in boards.values())
    for metric, board in boards.items():
        across = client.zrange(f"streamer:board:b%7C1:{metric}", 0, -1, withscores=True)
        assert across == [(f"r1|{label}", score) for label, score in board.items()]


async def test_a_group_that_emptied_leaves_its_version_alone(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    groups = [an_agent_model_change(), a_tier_change(), a_tier_change(agent="claude", model="opus")]
    await sink.write([an_update(a_run_change(benchmark="b"), *groups)])
    gone = [
        an_agent_model_change(version=1, deleted=True),
        a_tier_change(version=1, deleted=True),
        a_tier_change(agent="claude", model="opus", version=1, deleted=True),
    ]
    await sink.write([an_update(*gone)])
    left = {key for key in client.scan_iter() if not key.endswith((":history", ":versions"))}
    assert left == {KEYS.run("r1"), KEYS.runs}
    assert client.hget(KEYS.versions("r1"), "tier:T0") == "1:1"


async def test_deleting_a_run_leaves_only_its_versions(make_sink: MakeSink, client: redis.Redis) -> None:
    await make_sink().write(
        [
            an_update(a_run_change(benchmark="b"), an_agent_model_change(), a_tier_change()),
            an_update(a_run_change("other", benchmark="b"), an_agent_model_change("other")),
        ]
    )
    await make_sink().write([an_update(a_run_change(version=1, deleted=True))])
    assert set(client.scan_iter("*{r1}*")) == {KEYS.versions("r1")}
    assert client.zrange(KEYS.runs, 0, -1) == ["other"]
    assert client.zrange(KEYS.benchmark_board("b", "accuracy"), 0, -1) == ["other|claude:opus"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=IDS)
async def test_no_id_breaks_a_key(make_sink: MakeSink, client: redis.Redis, hostile: str) -> None:
    keys, sink = Keys("name.space"), make_sink(keys=Keys("name.space"))
    changes = [
        a_run_change(hostile, benchmark=hostile),
        an_agent_model_change(hostile, hostile, hostile),
        a_tier_change(hostile, hostile),
        a_tier_change(hostile, hostile, hostile, hostile),
    ]
    await sink.write([an_update(*changes)])
    assert sink.unsent == 0
    run_keys = [
        keys.run(hostile),
        keys.agent_model(hostile, hostile, hostile),
        keys.tier(hostile, hostile),
        keys.tier_agent_model(hostile, hostile, hostile, hostile),
        keys.agent_models(hostile),
        keys.tiers(hostile),
        keys.tier_agent_models(hostile, hostile),
        keys.board(hostile, "accuracy"),
        keys.history(hostile),
        keys.versions(hostile),
    ]
    across = [keys.runs, keys.benchmark_board(hostile, "accuracy")]
    assert set(client.scan_iter()) == {*run_keys, *across}
    await sink.write([an_update(a_run_change(hostile, version=1, deleted=True))])
    assert client.keys("*") == [keys.versions(hostile)]
