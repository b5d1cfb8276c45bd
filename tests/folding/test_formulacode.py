"""The advantages are those of a plain computation, group by group, to the last bit."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.folding.score import score_trial_group
from streamer.folding.score.formulacode import TaskMetrics, benchmark_name, speedups, task_metrics
from tests.folding.build import RULES, Json, a_trial, counts, payload, ratio, score

names = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "a.", "a.b.", "x.y.z."]),
    st.sampled_from(["", "C.", "D.", "c."]),
    st.sampled_from(["f", "g", "time_x"]),
    st.sampled_from(["", "(1)", "(2)", "(n='a')"]),
)
any_ratio = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1.0, 0.1, 1.7, 5e-324, 0.0, -1.0]))


def plainly(benchmarks: dict[str, Any]) -> tuple[float, ...] | None:
    """Levels 1 to 4 as the specification says it: group, take both geometric means, average (A5, A6).

    Where no benchmark is valid, nothing was measured (R21).
    """
    valid = [one for one in speedups(benchmarks, fallback=False) if one.advantage is not None]
    levels = []
    for depth in (1, 2, 3, 0):
        groups: dict[tuple[str | None, ...], list[tuple[float, float]]] = {}
        for one in valid:
            logs = (math.log(one.agent or 0.0), math.log(one.oracle or 0.0))
            groups.setdefault(benchmark_name(one.name)[:depth], []).append(logs)
        differences = [
            _gmean(agent) - _gmean(oracle)
            for agent, oracle in (zip(*g, strict=True) for g in groups.values())
        ]
        levels.append(math.fsum(differences) / len(differences) if differences else 0.0)
    return tuple(levels) if valid else None


def _gmean(logs: tuple[float, ...]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(names, st.builds(ratio, any_ratio, any_ratio), max_size=60))
def test_the_levels_are_those_of_a_plain_computation(benchmarks: dict[str, Any]) -> None:
    """Invalid entries among them count in no level (A1)."""
    assert repr(task_metrics(benchmarks, fallback=False).advantages) == repr(plainly(benchmarks))


def test_more_benchmarks_than_are_remembered_give_the_same_bits() -> None:
    benchmarks = {f"m{i % 7}.C{i % 31}.f({i})": ratio(1.0 + i / 977, 1.3) for i in range(2_500)}
    assert task_metrics(benchmarks, fallback=False).advantages == plainly(benchmarks)


# -----------------------------------------------------------------------------
# Speedups of single benchmarks: valid ratios, ratios from seconds, and of failed agents (R21).


@pytest.mark.parametrize(
    "value", [None, "1.2", [2.0], {}, 0, 0.0, -1.0, False, -math.inf, math.inf, math.nan]
)
def test_what_is_no_positive_finite_number_is_invalid(value: Any) -> None:
    result = task_metrics({"m.f": ratio(value, 1.0), "m.g": ratio(4.0, 1.0)}, fallback=False)
    assert result == TaskMetrics(4.0, (3.0, 3.0, 3.0, 3.0), 2, 1)


@pytest.mark.parametrize("value", [True, 1, 1e-320, 10**18, 5e-324, sys.float_info.max])
def test_every_positive_finite_number_is_valid(value: Any) -> None:
    result = task_metrics({"m.f": ratio(value, 1.0)}, fallback=False)
    assert result.num_valid_benchmarks == 1
    assert result.task_speedup == pytest.approx(float(value), rel=1e-12)


def test_seconds_become_ratios_over_the_baseline_by_medians_of_the_samples() -> None:
    given_seconds = {"agent_s": [4.0, 1.0, 2.0], "nop_s": [6.0, 2.0], "oracle_s": 1.0}
    assert payload(benchmarks={"m.f": given_seconds})["per_benchmark_speedups"] == {
        "m.f": {"agent/nop": 2.0, "oracle/nop": 4.0, "advantage": -2.0}
    }


@pytest.mark.parametrize(
    "entry",
    [
        {"agent_s": [], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": [1.0, 0.0], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": [1.0, "2"], "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": -1.0, "nop_s": 1.0, "oracle_s": 1.0},
        {"agent_s": 1.0, "oracle_s": 1.0},
        {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": None},
        {"agent_s": 5e-324, "nop_s": 1e308, "oracle_s": 1.0},
    ],
)
def test_seconds_that_give_no_ratio_are_invalid(entry: Json) -> None:
    result = score(benchmarks={"m.f": ratio(2.0, 1.0), "m.g": entry})
    assert (result.num_benchmarks, result.num_valid_benchmarks, result.task_speedup) == (2, 1, 2.0)


def test_a_ratio_that_is_given_wins_over_seconds() -> None:
    entry = ratio(3.0, 1.0) | {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": 1.0}
    assert score(benchmarks={"m.f": entry}).task_speedup == pytest.approx(3.0)
    assert score(benchmarks={"m.f": entry | {"agent/nop": None}}).num_valid_benchmarks == 0


def sub_trial(index: int, agent: str, **fields: Any) -> Any:
    return a_trial(agent=agent, model=agent, agent_index=index, **fields)


def formulacode_of(*events: Any) -> list[Any]:
    return [scored.formulacode for scored in score_trial_group(events, RULES)]


def test_r21_a_failed_agents_claims_do_not_count() -> None:
    result = score(tests=counts(1, 0), claimed={"agent_advantage": 5.0, "total_benchmarks": 3})
    assert (result.advantages, result.claimed, result.num_benchmarks) == (None, False, 0)


def test_r21_measured_benchmarks_without_any_sign_of_failure_stand() -> None:
    fields: Json = {"benchmarks": {"m.f": ratio(2.0, 1.0)}}
    assert score(**fields).task_speedup == 2.0
    assert score(**fields, resolved=False).task_speedup == 1.0
    assert score(**fields, failure_mode="agent_timeout").task_speedup == 1.0
    assert score(**fields, failure_mode="agent_timeout", resolved=True).task_speedup == 2.0


@given(st.permutations(range(4)))
def test_r21_the_order_of_the_sub_trials_changes_no_benchmark(order: list[int]) -> None:
    events = [
        sub_trial(1, "nop", resolved=True, benchmarks={"m.f": ratio(1.0, 3.0)}),
        sub_trial(2, "oracle", resolved=True, benchmarks={"m.f": ratio(2.0, 2.0), "m.g": ratio(5.0, 5.0)}),
        sub_trial(3, "terminus", resolved=True, benchmarks={"m.h": ratio(2.0, 7.0)}),
        sub_trial(4, "other", failure_mode="agent_timeout"),
    ]
    expected = formulacode_of(*events)
    assert formulacode_of(*(events[place] for place in order)) == [expected[place] for place in order]
    assert expected[3].num_valid_benchmarks == 3
    assert expected[3].advantages[0] == pytest.approx(1.0 - (2.0 * 5.0 * 7.0) ** (1 / 3))
