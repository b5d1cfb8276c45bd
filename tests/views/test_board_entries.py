"""Which runs of an agent:model a leaderboard pools, and the interval that a run's summary has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.schemas.events import BOARD_METRICS, named_metric
from streamer.views.leaderboard import entries_of
from streamer.views.models import Ends
from tests.support.board_runs import a_night, board_runs

PASS_RATE = BOARD_METRICS["pass_rate"]


def test_a_run_in_quarantine_is_not_pooled() -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+" * 6}))
    broken = replace(run, run=run.run.model_copy(update={"degraded": "a bug"}))
    assert [entry.left_out for entry in entries_of([run, broken], PASS_RATE, pooled=True)] == [
        None,
        "unfinished",
    ]


def test_an_agent_without_published_tasks_is_not_pooled() -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+" * 6}))
    [entry] = entries_of([replace(run, tasks={})], PASS_RATE, pooled=True)
    assert (entry.left_out, entry.value) == ("not_compared", 1.0)


@pytest.mark.parametrize("metric", ["accuracy", "cost_of_pass"])
def test_a_metric_without_an_error_has_no_interval(metric: str) -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+-" * 6}))
    assert [e.interval for e in entries_of([run], BOARD_METRICS[metric], pooled=True)] in ([], [None])


def test_the_interval_of_a_run_is_that_of_its_summary() -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+-" * 6}))
    [agent] = run.agents
    ability, reward = agent.uncertainty and agent.uncertainty.ability, agent.metrics["reward"]
    assert ability is not None
    [of_passes] = entries_of([run], PASS_RATE, pooled=True)
    assert of_passes.interval == Ends(low=ability.low, high=ability.high)
    [of_reward] = entries_of([run], named_metric("reward", {}), pooled=True)
    assert of_reward.interval == Ends(low=float(reward.low or 0), high=float(reward.high or 0))
    assert of_reward.value == reward.mean
