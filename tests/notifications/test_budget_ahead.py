"""A budget that will be passed: only once the whole interval of the forecast lies above it."""

from __future__ import annotations

import pytest

from streamer.operate.notices import budget_ahead
from tests.notifications.watching import run


@pytest.mark.parametrize(
    ("usd", "done", "told"),
    [
        (10.0, 50, True),
        (35.0, 50, False),  # the middle of the forecast is 36
        (10.0, 200, False),  # nothing is awaited
        (8.0, 50, False),  # passed already: that has a notice of its own
    ],
)
def test_only_a_forecast_that_is_sure_is_told(usd: float, done: int, told: bool) -> None:
    said = budget_ahead(run(total_cost=9.0, progress={"done": done, "planned": 200}), usd)
    assert (said is not None) == told
    assert said is None or said.startswith("forecast: about $36.00 in all, $")


def test_without_a_plan_nothing_is_foretold() -> None:
    assert budget_ahead(run(total_cost=9.0), 10.0) is None
