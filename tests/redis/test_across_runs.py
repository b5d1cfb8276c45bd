"""The keys across runs: boards of benchmarks and the list of runs."""

from __future__ import annotations

import redis

from streamer.storage.entries import Keys
from tests.redis.conftest import MakeSink
from tests.support.builders import a_run_change, an_agent_model_change, an_update

KEYS = Keys()


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
