"""How fc-eval merges the results of a trial's agents: later values win, totals are summed."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.sources.fc_eval import ENTRIES
from tests.support.layouts import merged

SPEEDUPS = {"m.f": {"agent/nop": 2.0, "oracle/nop": 3.0}}
FINE = {"passed": 3, "pass-to-fail": 0}


def a_result(cost: float = 1.0, failed: int = 0, snapshot: Any = FINE, **fields: Any) -> dict[str, Any]:
    metrics = {
        "tests_dict": {"passed": 3, "failed": failed},
        "snapshot_dict": snapshot,
        "improvements_dict": {"per_benchmark_speedups": SPEEDUPS},
        "trajectory_length": 4,
    }
    tokens = {"total_input_tokens": 10, "total_output_tokens": 2}
    return {"total_cost": cost, "parser_extra_metrics": metrics} | tokens | fields


def entries(**results: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = merged(results)["parser_extra_metrics"][ENTRIES]
    return result


def test_the_last_agents_values_stand_for_the_trial_and_totals_are_of_all() -> None:
    whole = merged({"a": a_result(1.0, trial_name="first"), "b": a_result(0.5, trial_name="last")})
    assert (whole["trial_name"], whole["total_cost"], whole["total_input_tokens"]) == ("last", 1.5, 20)
    assert whole["costs_by_agent_model"] == {"a": 1.0, "b": 0.5}


@pytest.mark.parametrize(("failed", "passes"), [(2, True), (3, False)])
def test_an_agent_may_fail_as_many_tests_as_the_oracle(failed: int, passes: bool) -> None:
    entry = entries(oracle=a_result(failed=2), agent=a_result(failed=failed))["agent"]
    assert (entry["success"], entry["fallback_to_baseline"]) == (passes, not passes)


@pytest.mark.parametrize("snapshot", [{}, {"passed": 3, "pass-to-fail": 1}])
def test_a_snapshot_that_is_missing_or_broke_fails_the_agent(snapshot: dict[str, int]) -> None:
    entry = entries(agent=a_result(snapshot=snapshot))["agent"]
    assert (entry["snapshot_failed"], entry["success"]) == (True, False)


def test_who_failed_counts_as_one_that_changed_nothing_but_nop_never_falls_back() -> None:
    result = entries(agent=a_result(failed=1), nop=a_result(failed=1))
    fallen = result["agent"]["per_benchmark_speedups"]["m.f"]
    assert (fallen["agent/nop"], fallen["oracle/nop"], fallen["fallback_to_baseline"]) == (1.0, 3.0, True)
    assert result["nop"]["per_benchmark_speedups"] == SPEEDUPS
