"""One METRIC, read alone, is the number in the summary; `tests/client/test_moves.py` has the law."""

from __future__ import annotations

import pytest

from streamer.folding.groups import GroupState
from streamer.folding.summaries import board_value, headline
from streamer.schemas.events import BOARD_METRICS, BoardMetric, named_metric
from tests.support.events import a_trial, folded

METRICS = [*BOARD_METRICS.values(), named_metric("reward", {})]
BENCHMARKS = {"m.f": {"agent/nop": 0.5, "oracle/nop": 1}}
TRIALS = [
    a_trial(task_id="a", cost_usd=0.5, score=0.4, duration_seconds=3.0, metrics={"reward": 2.0}),
    a_trial(
        task_id="b", cost_usd=0.25, resolved=False, benchmarks={"m.f": {"agent/nop": 0.5, "oracle/nop": 1}}
    ),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_it_is_the_number_in_the_summary(metric: BoardMetric) -> None:
    run = folded(TRIALS)[0].run("run-1")
    [summary] = [change.summary for change in run.summaries() if change.kind == "agent_model"]
    [group] = run.state.groups.values()
    assert summary is not None
    value = board_value(metric, group, "terminus", None, formulacode=True)
    assert value is not None
    assert value == metric.value(summary)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_it_is_unknown_of_no_trial(metric: BoardMetric) -> None:
    assert board_value(metric, GroupState(), "a", None, formulacode=False) is None


def test_a_group_without_a_pass_has_an_infinite_cost_of_pass() -> None:
    run = folded([a_trial(resolved=False, cost_usd=1.0)])[0].run("run-1").state
    run.count()
    [group] = run.groups.values()
    assert headline(group)["cost_of_pass"] == "Infinity"
    assert board_value(BOARD_METRICS["cost_of_pass"], group, "a", None, formulacode=False) == float("inf")
