"""FormulaCode's score and payload: validity, levels, fallback, claims, limits (A, C, R3, R4, R21, R22)."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.formulacode import ADVANTAGES
from streamer.score import (
    score_trial,
    score_trial_group,
)
from streamer.score.formulacode.task_metrics import TaskMetrics, task_metrics
from tests.score.build import BROKEN, RULES, a_trial, counts, payload, ratio, score
from tests.support.examples import examples

Json = dict[str, Any]


def advantages(**fields: Any) -> Json:
    return dict(zip(ADVANTAGES, score(**fields).advantages or (), strict=True))


# Task metrics


def test_levels_are_means_over_modules_classes_functions_and_all() -> None:
    """Module a: sqrt(2*8) - 1 = 3, its classes 2-1 = 1, 8-1 = 7; module b: 4-2 = 2; all: 4 - 2 ** (1/3)."""
    found = advantages(
        benchmarks={
            "a.C.f(1)": ratio(2.0, 1.0),
            "a.D.g": ratio(8.0, 1.0),
            "b.h": ratio(4.0, 2.0),
        }
    )
    assert found == {
        "agent_advantage": pytest.approx(4.0 - 2.0 ** (1 / 3)),
        "agent_advantage_level1": pytest.approx((3.0 + 2.0) / 2),
        "agent_advantage_level2": pytest.approx((1.0 + 7.0 + 2.0) / 3),
        "agent_advantage_level3": pytest.approx((1.0 + 7.0 + 2.0) / 3),
        "agent_advantage_level4": pytest.approx(4.0 - 2.0 ** (1 / 3)),
    }


def test_a_class_of_the_same_name_in_two_modules_is_two_groups() -> None:
    two = task_metrics({"a.C.f": ratio(2.0, 1.0), "b.C.f": ratio(8.0, 1.0)}, fallback=False)
    one = task_metrics({"a.C.f(1)": ratio(2.0, 1.0), "a.C.f(2)": ratio(8.0, 1.0)}, fallback=False)
    assert two.advantages == pytest.approx((4.0, 4.0, 4.0, 3.0))
    assert one.advantages == pytest.approx((3.0, 3.0, 3.0, 3.0))


def test_a_benchmark_without_a_valid_oracle_is_dropped_altogether() -> None:
    found = task_metrics({"m.f": ratio(2.0, 1.0), "m.g": ratio(50.0, 0.0)}, fallback=False)
    assert found == TaskMetrics(2.0, (1.0, 1.0, 1.0, 1.0), 2, 1)


@pytest.mark.parametrize(
    "value", [None, "1.2", [2.0], {}, 0, 0.0, -1.0, False, -math.inf, math.inf, math.nan]
)
def test_what_is_no_positive_finite_number_is_invalid(value: Any) -> None:
    found = task_metrics({"m.f": ratio(value, 1.0), "m.g": ratio(4.0, 1.0)}, fallback=False)
    assert found == TaskMetrics(4.0, (3.0, 3.0, 3.0, 3.0), 2, 1)


@pytest.mark.parametrize("value", [True, 1, 1e-320, 10**18, 5e-324, sys.float_info.max])
def test_every_positive_finite_number_is_valid(value: Any) -> None:
    found = task_metrics({"m.f": ratio(value, 1.0)}, fallback=False)
    assert found.num_valid_benchmarks == 1
    assert found.task_speedup == pytest.approx(float(value), rel=1e-12)


def test_numbers_at_the_edge_of_floats_overflow_nothing() -> None:
    """Their sum is infinite, their mean is not."""
    huge = sys.float_info.max
    found = task_metrics({f"m{i}.f": ratio(huge, 1.0) for i in range(3)}, fallback=False)
    assert found.advantages == pytest.approx((huge,) * 4)
    assert score(benchmarks={"m.f": ratio(huge, 1.0)}).speedup_percentage is None


names = st.sampled_from(
    ["a.C.f(1)", "a.C.f(2)", "a.C.g", "a.D.f", "a.f", "b.C.f", "f", "", "x.y.Z.t", "b.c.f"]
)
values = st.sampled_from([0.1, 0.3, 1.0, 1.7, 3.3, 1e-300, 1e300, None, 0, "x", True])
entries: st.SearchStrategy[Any] = st.one_of(
    st.builds(ratio, values, values), st.sampled_from([None, 5, [], {}, {"oracle/nop": 2.0}])
)
dicts = st.dictionaries(names, entries)


@examples(200)
@given(dicts, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_benchmarks_never_matters(benchmarks: Json, fallback: bool, rng: Any) -> None:
    shuffled = list(benchmarks.items())
    rng.shuffle(shuffled)
    assert task_metrics(dict(shuffled), fallback=fallback) == task_metrics(benchmarks, fallback=fallback)


def test_every_size_gives_the_bits_of_one_log_and_one_exp() -> None:
    """The same pair, once or a thousand times over, in one group or in many."""
    alone = task_metrics({"m.f": ratio(1.7, 1.3)}, fallback=False)
    for size in (2, 10, 100, 1000):
        for name in ("m.C.f({})", "m{}.C.f", "m.C.f{}"):
            many = task_metrics({name.format(i): ratio(1.7, 1.3) for i in range(size)}, fallback=False)
            assert many.task_speedup == pytest.approx(alone.task_speedup, rel=4e-16)
            assert many.advantages == pytest.approx(alone.advantages, rel=1e-14)


# Seconds


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
    found = score(benchmarks={"m.f": ratio(2.0, 1.0), "m.g": entry})
    assert (found.num_benchmarks, found.num_valid_benchmarks, found.task_speedup) == (2, 1, 2.0)


def test_a_ratio_that_is_given_wins_over_seconds() -> None:
    entry = ratio(3.0, 1.0) | {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": 1.0}
    assert score(benchmarks={"m.f": entry}).task_speedup == pytest.approx(3.0)
    assert score(benchmarks={"m.f": entry | {"agent/nop": None}}).num_valid_benchmarks == 0


# Fallback to the baseline


def test_a_failed_agent_is_treated_as_if_it_had_changed_nothing() -> None:
    """Two benchmarks: 1 - 2 and 1 - 8; overall 1 - 4."""
    found = payload(benchmarks={"m.f": ratio(9.0, 2.0), "n.f": ratio("bad", 8.0)}, snapshot=BROKEN)
    assert found["fallback_to_baseline"] is True
    assert found["task_speedup"] == 1.0
    assert found["agent_advantage"] == pytest.approx(-3.0)
    assert found["agent_advantage_level1"] == pytest.approx((-1.0 - 7.0) / 2)
    assert (found["num_benchmarks"], found["num_valid_benchmarks"]) == (2, 2)
    assert found["per_benchmark_speedups"]["n.f"] == {
        "agent/nop": 1.0,
        "oracle/nop": 8.0,
        "advantage": -7.0,
        "fallback_to_baseline": True,
    }


def test_r21_a_fallback_drops_entries_that_are_no_objects_and_invents_no_oracle_value() -> None:
    found = payload(
        benchmarks={
            "m.kept": ratio(3.0, 2.0),
            "m.missing": {"agent/nop": 3.0},
            "m.text": ratio(3.0, "2"),
            "m.negative": ratio(3.0, -2.0),
            "m.zero": ratio(3.0, 0),
            "m.seconds": {"agent_s": 1.0, "nop_s": 4.0, "oracle_s": 1.0},
            "m.bad_seconds": {"agent_s": 1.0, "nop_s": 4.0, "oracle_s": []},
            "m.null": None,
            "m.list": [1.0, 2.0],
        },
        tests=counts(1, 0),
    )
    shown = {name: entry["oracle/nop"] for name, entry in found["per_benchmark_speedups"].items()}
    assert shown == {
        "m.kept": 2.0,
        "m.missing": None,
        "m.text": None,
        "m.negative": None,
        "m.zero": None,
        "m.seconds": 4.0,
        "m.bad_seconds": None,
    }
    assert (found["num_benchmarks"], found["num_valid_benchmarks"]) == (7, 2)


@pytest.mark.parametrize("benchmarks", [None, {}, {"m.f": None}, {"m.f": 3.0, "m.g": [1]}])
def test_without_anything_to_fall_back_on_the_flag_stays_false(benchmarks: Json | None) -> None:
    found = score(benchmarks=benchmarks, tests=counts(1, 0))
    assert (found.pytest_failed, found.fallback) == (True, False)
    assert (found.task_speedup, found.advantages, found.num_benchmarks) == (1.0, None, 0)


def test_r4_nop_never_falls_back_alone_or_in_a_group() -> None:
    event = a_trial(
        agent="nop", agent_index=1, tests=counts(3, 0), snapshot=BROKEN, benchmarks={"m.f": ratio(2.0, 1.0)}
    )
    for scored in (
        score_trial(event, RULES),
        *score_trial_group([event], RULES),
    ):
        assert scored.formulacode is not None
        assert (scored.success, scored.formulacode.fallback, scored.formulacode.task_speedup) == (
            False,
            False,
            2.0,
        )


@pytest.mark.parametrize("agent", ["oracle", "nopx", "NOP", "terminus"])
def test_every_other_agent_falls_back_the_oracle_too(agent: str) -> None:
    assert score(agent=agent, snapshot=BROKEN, benchmarks={"m.f": ratio(2.0, 1.0)}).fallback is True


# Failed agents in a group (R21)


def sub_trial(index: int, agent: str, **fields: Any) -> Any:
    return a_trial(agent=agent, model=agent, agent_index=index, **fields)


def formulacode_of(*events: Any) -> list[Any]:
    return [scored.formulacode for scored in score_trial_group(events, RULES)]


def test_r21_an_agent_that_crashed_has_the_benchmarks_that_the_oracle_knows() -> None:
    known = {"m.f": ratio(1.5, 1.5), "m.g": ratio(2.0, None)}
    oracle = sub_trial(1, "oracle", resolved=True, benchmarks=known)
    crashed = sub_trial(2, "terminus", failure_mode="agent_timeout")
    _, found = formulacode_of(oracle, crashed)
    assert (found.fallback, found.task_speedup, found.num_benchmarks) == (True, 1.0, 2)
    assert found.num_valid_benchmarks == 1
    assert found.advantages == pytest.approx((-0.5,) * 5)


def test_r21_a_failed_agent_takes_the_oracle_value_that_its_own_log_lacks() -> None:
    oracle = sub_trial(1, "oracle", resolved=True, benchmarks={"m.f": ratio(1.5, 1.5)})
    own = {"m.f": ratio(9.0, None), "m.own": ratio(3.0, 4.0)}
    failed = sub_trial(2, "terminus", tests=counts(1, 0), benchmarks=own)
    _, found = formulacode_of(oracle, failed)
    assert (found.num_benchmarks, found.num_valid_benchmarks) == (2, 2)
    assert found.advantages[0] == pytest.approx(1.0 - (1.5 * 4.0) ** 0.5)


def test_r21_where_nobody_knows_a_benchmark_the_speedup_is_1_and_advantages_are_unknown() -> None:
    passed = sub_trial(1, "oracle", tests=counts(0, 0))
    failed = sub_trial(2, "terminus", tests=counts(1, 0))
    measured, found = formulacode_of(passed, failed)
    assert (measured.task_speedup, measured.advantages) == (None, None)
    assert (found.task_speedup, found.advantages, found.speedup_percentage) == (1.0, None, 0.0)


def test_r21_a_failed_agents_claims_do_not_count() -> None:
    found = score(tests=counts(1, 0), claimed={"agent_advantage": 5.0, "total_benchmarks": 3})
    assert (found.advantages, found.claimed, found.num_benchmarks) == (None, False, 0)


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
    wanted = formulacode_of(*events)
    assert formulacode_of(*(events[place] for place in order)) == [wanted[place] for place in order]
    assert wanted[3].num_valid_benchmarks == 3
    assert wanted[3].advantages[0] == pytest.approx(1.0 - (2.0 * 5.0 * 7.0) ** (1 / 3))
