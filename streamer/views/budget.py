"""A budget that somebody who looks has set: whether a run has passed it, and whether it will. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from streamer.schemas.base import Message
from streamer.views.estimate import clock
from streamer.views.eta import Eta

BudgetStanding = Literal["passed", "within", "will_pass", "may_pass", "kept", "unknown"]

WORDS: dict[BudgetStanding, str] = {
    "passed": "over the budget of {usd}",
    "within": "within the budget of {usd}",
    "will_pass": "forecast: the budget of {usd} is passed{about}",
    "may_pass": "forecast: the budget of {usd} may be passed{about}",
    "kept": "forecast: the budget of {usd} is not passed",
    "unknown": "no forecast yet for the budget of {usd}",
}
"""Standing -> what people read; `about` is a clock time, or nothing."""


class BudgetOutlook(Message):
    """What becomes of a budget; it is about the known cost."""

    usd: float = Field(ge=0, description="The budget, USD.")
    standing: BudgetStanding = Field(
        description="`passed`: it costs more; `within`: nothing is awaited, and it does not; else by the "
        "interval of the forecast: `will_pass`, `may_pass`, `kept`; `unknown`: there is no forecast."
    )
    seconds_until: float | None = Field(
        ge=0,
        description="Until it is passed by the middle of both forecasts, seconds; null: it is, or is not "
        "passed, or no time is known.",
    )


def budget_of(usd: float, spent: float | None, pace: Eta) -> BudgetOutlook:
    """The outlook of a budget.

    Args:
        usd: the budget, USD, >= 0.
        spent: known cost so far, USD; None: no cost is known.
        pace: the forecasts of the run.

    >>> from streamer.views.estimate import Estimate
    >>> pace = Eta(0.5, Estimate(3000.0, 3600.0, 5000.0), 20.0, Estimate(41.0, 44.0, 47.0))
    >>> [budget_of(usd, 20.0, pace).standing for usd in (10, 40, 45, 50)]
    ['passed', 'will_pass', 'may_pass', 'kept']
    >>> budget_of(32.0, 20.0, pace).seconds_until
    1800.0
    """
    total = pace.projected_usd
    if spent is not None and spent > usd:
        return BudgetOutlook(usd=usd, standing="passed", seconds_until=None)
    if spent is None or total is None:
        return BudgetOutlook(usd=usd, standing="unknown", seconds_until=None)
    if pace.seconds_left is not None and not pace.seconds_left.high:
        return BudgetOutlook(usd=usd, standing="within", seconds_until=None)
    if total.high <= usd:
        return BudgetOutlook(usd=usd, standing="kept", seconds_until=None)
    until = None
    if pace.seconds_left is not None and total.likely > usd:
        until = pace.seconds_left.likely * (usd - spent) / (total.likely - spent)
    standing: BudgetStanding = "will_pass" if total.low > usd else "may_pass"
    return BudgetOutlook(usd=usd, standing=standing, seconds_until=until)


def budget_words(found: BudgetOutlook, at: datetime | None) -> str:
    """The outlook of a budget as people read it.

    Args:
        at: the time that `seconds_until` is counted from; None: not known.

    >>> from datetime import UTC
    >>> night = datetime(2026, 1, 31, 2, 40, tzinfo=UTC)
    >>> budget_words(BudgetOutlook(usd=40.0, standing="will_pass", seconds_until=1800.0), night)
    'forecast: the budget of $40.00 is passed about 03:10 UTC'
    """
    about = ""
    if at is not None and found.seconds_until is not None:
        end = at + timedelta(seconds=found.seconds_until)
        about = f" about {clock(end, at)} {at:%Z}"
    return WORDS[found.standing].format(usd=f"${found.usd:,.2f}", about=about)
