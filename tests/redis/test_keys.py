"""What stands where in Redis after a write."""

from __future__ import annotations

import json

import pytest
import redis

from streamer.redis.keys import Keys
from streamer.schemas.metrics import BOARD_METRICS
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


async def test_a_batch_is_one_script_per_run_in_one_round_trip(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    updates = [
        an_update(
            *[an_agent_model_change(run, f"a{n}", version=1) for n in range(5)], a_run_change(run, version=1)
        )
        for run in ("r1", "r2", "r3")
    ]
    await sink.write(updates)
    client.config_resetstat()
    await sink.write(updates)
    statistics = client.info("commandstats")
    assert statistics["cmdstat_eval"]["calls"] == 3
    assert not {name for name in statistics if name in ("cmdstat_multi", "cmdstat_watch", "cmdstat_exec")}


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


async def test_a_metric_that_becomes_unknown_and_an_agent_declared_a_baseline_leave_the_boards(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    await sink.write([an_update(a_run_change(benchmark="b"), an_agent_model_change(mean_cost=1.0))])
    await sink.write([an_update(an_agent_model_change(version=1, mean_cost=None))])
    assert not client.exists(KEYS.board("r1", "mean_cost"), KEYS.benchmark_board("b", "mean_cost"))
    assert client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy")) == 2
    await sink.write([an_update(an_agent_model_change(version=2, baseline=True))])
    assert not client.exists(KEYS.board("r1", "accuracy"), KEYS.benchmark_board("b", "accuracy"))
    assert client.exists(KEYS.agent_model("r1", "claude", "opus"))


async def test_a_plan_that_comes_late_or_changes_moves_the_run_between_benchmarks(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()

    def boards() -> dict[str, list[str]]:
        return {name: client.zrange(KEYS.benchmark_board(name, "accuracy"), 0, -1) for name in ("b", "c")}

    await sink.write([an_update(an_agent_model_change(), a_run_change())])
    assert boards() == {"b": [], "c": []}
    await sink.write([an_update(a_run_change(version=1, benchmark="b"))])
    assert boards() == {"b": ["r1|claude:opus"], "c": []}
    await make_sink().write([an_update(a_run_change(version=2, benchmark="c"))])
    assert boards() == {"b": [], "c": ["r1|claude:opus"]}
    await sink.write([an_update(an_agent_model_change(version=3, accuracy=0.5))])
    assert boards() == {"b": [], "c": ["r1|claude:opus"]}


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


async def test_every_emission_is_told_once_and_a_repeated_write_is_not(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    sink = make_sink()
    change = a_tier_change(
        "r:1", "T0", "a", "m", version=4, means={"pass_rate": 0.5, "composite_score": 0.25}
    )
    with client.pubsub() as listener:
        listener.subscribe(KEYS.updates)
        assert listener.get_message(timeout=5)
        for _ in range(3):
            await sink.write([an_update(change)])
        message = listener.get_message(timeout=5)
        assert message
        assert json.loads(message["data"]) == {
            "run": "r:1",
            "kind": "tier",
            "group": "T0:a:m",
            "key": "streamer:{r%3A1}:tier:T0:a:m",
            "deleted": False,
            "epoch": 1,
            "state_version": 4,
        }
        assert listener.get_message(timeout=0.05) is None
    [(_, entry)] = client.xrange(KEYS.history("r:1"))
    assert entry == {
        "kind": "tier",
        "group": "T0:a:m",
        "epoch": "1",
        "state_version": "4",
        "last_event_at": "2026-01-02T03:04:05Z",
        "trials": "1",
        "accuracy": "1.0",
        "pass_rate": "0.5",
        "composite_score": "0.25",
        "provisional": "false",
    }


async def test_the_history_of_an_agent_has_the_headline_numbers_of_formulacode(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    formulacode = a_formulacode_summary(mean_speedup=1.25, agent_advantage=-0.125)
    await make_sink().write([an_update(an_agent_model_change("r", "a", "m", formulacode=formulacode))])
    [(_, entry)] = client.xrange(KEYS.history("r"))
    assert (entry["mean_speedup"], entry["agent_advantage"]) == ("1.25", "-0.125")


async def test_runs_are_listed_by_the_time_of_their_last_event(
    make_sink: MakeSink, client: redis.Redis
) -> None:
    changes = [
        a_run_change("new", last_event_at="2026-01-02T03:04:05.250000Z"),
        a_run_change("timeless", last_event_at=None),
        a_run_change("old", last_event_at="2025-01-02T03:04:05Z"),
    ]
    await make_sink().write([an_update(change) for change in changes])
    listed = client.zrange(KEYS.runs, 0, -1, desc=True, withscores=True)
    assert listed == [("new", 1767323045.25), ("old", 1735787045.0), ("timeless", 0.0)]


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
