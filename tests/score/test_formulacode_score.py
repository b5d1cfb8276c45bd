"""FormulaCode's score and payload: validity, levels, fallback, claims, limits (A, C, R3, R4, R21, R22)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score import score_trial, score_trial_group
from streamer.folding.score.formulacode import TaskMetrics, task_metrics
from streamer.schemas.events import ADVANTAGES
from tests.score.build import BROKEN, RULES, Json, a_trial, counts, payload, ratio, score
from tests.support.examples import examples


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
