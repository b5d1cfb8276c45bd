"""A budget: what is sure, what is a forecast, and when it will be passed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamer.views.outlook import BudgetOutlook, BudgetStanding, Estimate, Eta, budget_of, budget_words

AT = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)
NOTHING_LEFT = Estimate(0.0, 0.0, 0.0)
HOUR = Estimate(3000.0, 3600.0, 5000.0)


@pytest.mark.parametrize(
    ("usd", "spent", "left", "total", "standing"),
    [
        (10.0, 10.0, NOTHING_LEFT, Estimate(10.0, 10.0, 10.0), "within"),
        (9.9, 10.0, NOTHING_LEFT, Estimate(10.0, 10.0, 10.0), "passed"),
        (9.9, 10.0, None, None, "passed"),
        (20.0, 10.0, None, None, "unknown"),
        (20.0, None, HOUR, None, "unknown"),
        (40.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "will_pass"),
        (41.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "may_pass"),
        (46.9, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "may_pass"),
        (47.0, 10.0, HOUR, Estimate(41.0, 44.0, 47.0), "kept"),
        (0.0, 0.0, HOUR, Estimate(0.0, 0.0, 0.0), "kept"),
    ],
)
def test_a_budget_stands_as_spending_and_the_interval_of_the_forecast_say(
    usd: float, spent: float | None, left: Estimate | None, total: Estimate | None, standing: BudgetStanding
) -> None:
    assert budget_of(usd, spent, Eta(0.5, left, None, total)).standing == standing


def test_it_is_passed_where_spending_in_proportion_to_time_reaches_it() -> None:
    pace = Eta(0.5, HOUR, None, Estimate(41.0, 44.0, 47.0))
    assert budget_of(40.0, 10.0, pace).seconds_until == pytest.approx(3600 * 30 / 34)
    assert budget_of(10.0, 10.0, pace).seconds_until == 0
    assert budget_of(45.0, 10.0, pace).seconds_until is None
    assert budget_of(40.0, 10.0, pace.__class__(0.5, None, None, pace.projected_usd)).seconds_until is None


@pytest.mark.parametrize(
    ("standing", "seconds", "said"),
    [
        ("passed", None, "over the budget of $1,040.00"),
        ("within", None, "within the budget of $1,040.00"),
        ("will_pass", 600.0, "forecast: the budget of $1,040.00 is passed about 22:10 UTC"),
        ("will_pass", 90_000.0, "forecast: the budget of $1,040.00 is passed about 1 Feb 23:00 UTC"),
        ("may_pass", None, "forecast: the budget of $1,040.00 may be passed"),
        ("kept", None, "forecast: the budget of $1,040.00 is not passed"),
        ("unknown", None, "no forecast yet for the budget of $1,040.00"),
    ],
)
def test_each_standing_has_its_words(standing: BudgetStanding, seconds: float | None, said: str) -> None:
    assert budget_words(BudgetOutlook(usd=1040.0, standing=standing, seconds_until=seconds), AT) == said


def test_without_a_time_there_is_no_clock() -> None:
    found = BudgetOutlook(usd=4.0, standing="will_pass", seconds_until=5.0)
    assert budget_words(found, None) == "forecast: the budget of $4.00 is passed"
