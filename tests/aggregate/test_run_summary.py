"""Uplift, variance, spread and cost of a pass, with the specification's worked example 3."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.groups import GroupState
from streamer.folding.score import cost_of_pass
from streamer.folding.summaries import cost_delta, delta, tier_uplift, uplift, variance_of_medians
from tests.support.events import a_trial, folded
from tests.support.examples import examples


def a_group(*, resolved: bool) -> GroupState:
    """One trial."""
    run = folded([a_trial(resolved=resolved)])[0].run("run-1").state
    run.count()
    [group] = run.groups.values()
    return group


EXAMPLE_3 = {"T0": 0.70, "T1": 0.80, "T2": 0.85, "T3": 0.90}


@pytest.mark.parametrize(("tier", "printed"), [("T1", "0.143"), ("T2", "0.214"), ("T3", "0.286")])
def test_example_3_uplifts_are_those_of_the_specification(tier: str, printed: str) -> None:
    uplift = tier_uplift(EXAMPLE_3[tier], EXAMPLE_3["T0"])
    assert f"{uplift:.3f}" == printed


def test_example_3_variance_is_that_of_the_specification() -> None:
    # (0.1125^2 + 0.0125^2 + 0.0375^2 + 0.0875^2) / 4 = 0.021875 / 4
    variance = variance_of_medians(EXAMPLE_3.values(), ddof=0)
    assert variance == pytest.approx(0.00546875, rel=1e-12)
    assert f"{variance:.5f}" == "0.00547"


def test_the_specifications_uplift_example_is_20_percent() -> None:
    assert tier_uplift(0.90, 0.75) == pytest.approx(0.20, rel=1e-12)


@pytest.mark.parametrize("baseline", [0.0, -0.2, -0.0, math.nan])
def test_uplift_needs_a_baseline_above_zero(baseline: float) -> None:
    assert tier_uplift(0.5, baseline) is None


def test_a_missing_side_leaves_uplift_and_delta_unknown() -> None:
    passed, nothing = a_group(resolved=True), GroupState()
    for group, baseline in ((nothing, passed), (passed, nothing), (passed, None)):
        assert uplift(group, baseline, None) is None
        assert delta(group, baseline, None) is None


def test_delta_needs_no_positive_baseline() -> None:
    passed, failed = a_group(resolved=True), a_group(resolved=False)
    assert (uplift(passed, failed, None), delta(passed, failed, None)) == (None, 1.0)


def test_variance_of_none_is_unknown_and_of_one_is_zero() -> None:
    for ddof in (0, 1):
        assert variance_of_medians([], ddof) is None
        assert variance_of_medians([0.7], ddof) == 0.0


def test_what_is_not_finite_enters_no_variance_and_no_spread() -> None:
    assert variance_of_medians([1.0, math.inf, 3.0, math.nan], ddof=0) == 1.0
    assert cost_delta([1.0, math.inf, 3.0]) == 2.0
    assert cost_delta([math.inf]) is None


def test_a_variance_beyond_the_floats_is_infinite() -> None:
    assert variance_of_medians([1e300, -1e300], ddof=0) == math.inf


@examples(100)
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=8), st.sampled_from([0, 1]), st.randoms())
def test_the_variance_is_exact_in_any_order(medians: list[float], ddof: int, random: object) -> None:
    exact = [Fraction(m) for m in medians]
    mean = sum(exact) / len(exact)
    expected = float(sum((x - mean) ** 2 for x in exact) / (len(exact) - ddof))
    random.shuffle(medians)  # type: ignore[attr-defined]
    assert variance_of_medians(medians, ddof) == expected


def test_cost_delta_of_nothing_is_unknown_and_of_one_is_zero() -> None:
    assert cost_delta([]) is None
    assert cost_delta([1.5]) == 0.0


def test_r14_no_pass_costs_infinitely_much_and_passes_at_unknown_costs_stay_unknown() -> None:
    assert cost_of_pass(None, 0) == math.inf
    assert cost_of_pass(0.0, 2) == 0.0
    assert cost_of_pass(None, 2) is None
