"""R2, R14, R15: costs, cost of pass and modes, example by example, through the whole pipeline."""

from __future__ import annotations

import pytest

from tests.conformance.ruling_examples import Json, passes, scored, statistics, summary
from tests.support.events import a_trial

# R14: cost of pass


def test_r14_a_failed_trial_costs_infinity_per_pass_whether_its_cost_is_known_or_not() -> None:
    failed = [a_trial(task_id="known", resolved=False, cost_usd=1.0), a_trial(task_id="t2", resolved=False)]
    assert statistics(*failed, of="cost_of_pass") == {
        "median": "Infinity",
        "mean": "Infinity",
        "mode": "Infinity",
        "min": "Infinity",
        "max": "Infinity",
        "std_dev": None,
        "count": 2,
    }
    for event in failed:
        held = scored(event)
        assert held["cost_of_pass"] == "Infinity"


def test_r14_a_pass_at_an_unknown_cost_has_none() -> None:
    assert statistics(a_trial(), of="cost_of_pass")["count"] == 0
    held = scored(a_trial())
    assert held["cost_of_pass"] is None


def test_r14_infinite_values_stand_in_median_min_max_and_mode() -> None:
    """1, 3, Infinity, Infinity: of the middle two one is infinite."""
    events = [a_trial(task_id=f"t{cost}", cost_usd=cost) for cost in (1.0, 3.0)] + passes(0, 2)
    held = statistics(*events, of="cost_of_pass")
    assert (held["min"], held["max"], held["count"]) == (1.0, "Infinity", 4)
    assert (held["median"], held["mode"]) == ("Infinity", "Infinity")
    assert (held["mean"], held["std_dev"]) == ("Infinity", None)
    assert statistics(*events[:3], of="cost_of_pass")["median"] == 3.0


def test_r14_the_cost_per_pass_of_a_group_is_over_trials_with_a_known_cost() -> None:
    """$2 and $4 for one pass; the pass at an unknown cost is not counted."""
    events = [
        a_trial(cost_usd=2.0),
        a_trial(task_id="t2", cost_usd=4.0, resolved=False),
        a_trial(task_id="t3"),
    ]
    assert summary(*events)["cost_of_pass"] == 6.0


def test_r14_no_pass_at_all_is_infinite_known_cost_or_not() -> None:
    assert summary(a_trial(resolved=False))["cost_of_pass"] == "Infinity"
    assert summary(a_trial(resolved=False, cost_usd=1.0))["cost_of_pass"] == "Infinity"


def test_r14_passes_at_unknown_costs_alone_are_unknown() -> None:
    assert summary(a_trial())["cost_of_pass"] is None
    failed = a_trial(task_id="t2", resolved=False, cost_usd=1.0)
    assert summary(a_trial(), failed)["cost_of_pass"] is None


# R15: mode


def test_r15_the_mode_compares_values_exactly_as_they_are() -> None:
    """Rounded to six decimals the first two would be one value, and the mode (S4)."""
    costs = (0.1234561, 0.1234562, 0.5, 0.5)
    events = [a_trial(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(costs)]
    assert statistics(*events, of="cost_usd")["mode"] == 0.5
    assert statistics(*events[:2], of="cost_usd")["mode"] == 0.1234561


def test_r15_ties_go_to_the_smallest_value() -> None:
    costs = (0.3, 0.2, 0.3, 0.2, 0.1)
    events = [a_trial(task_id=f"t{n}", cost_usd=cost) for n, cost in enumerate(costs)]
    assert statistics(*events, of="cost_usd")["mode"] == 0.2


def test_r15_the_mode_is_never_below_the_minimum_or_above_the_maximum() -> None:
    held = statistics(a_trial(cost_usd=0.00920315), of="cost_usd")
    assert held["mode"] == held["min"] == held["max"] == 0.00920315


# R2: unknown costs


@pytest.mark.parametrize("tokens", [{}, {"input_tokens": 0, "output_tokens": 0}])
def test_r2_tokens_that_nobody_counted_cost_an_unknown_sum(tokens: Json) -> None:
    held = scored(a_trial(**tokens))
    assert (held["cost_usd"], held["cost_source"]) == (None, None)
    assert summary(a_trial(**tokens))["total_cost"] is None


def test_r2_a_model_without_a_price_never_costs_nothing() -> None:
    counted = {"input_tokens": 10, "output_tokens": 10}
    held = scored(a_trial(model="nobody/sells-this", **counted))
    assert (held["cost_usd"], held["cost_source"]) == (None, None)


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("Claude Opus 4.5", 90.0),
        ("Claude Sonnet 4", 18.0),
        ("GPT-4o", 20.0),
        ("claude-opus-4-5-20251101", 90.0),
    ],
)
def test_r2_the_specifications_prices_have_its_names(model: str, cost: float) -> None:
    """A million tokens in and a million out."""
    counted = {"input_tokens": 10**6, "output_tokens": 10**6}
    held = scored(a_trial(model=model, **counted))
    assert (held["cost_usd"], held["cost_source"]) == (pytest.approx(cost), "estimated")


def test_r2_a_reported_cost_of_zero_is_a_cost() -> None:
    held = scored(a_trial(cost_usd=0.0, input_tokens=10, output_tokens=10))
    assert (held["cost_usd"], held["cost_source"]) == (0.0, "reported")
