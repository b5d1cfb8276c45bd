"""The budget of a run on the command line: the forecast of its cost beside it."""

from __future__ import annotations

from datetime import datetime

from streamer.client.results import RunSnapshot
from streamer.views.budget import budget_words
from streamer.views.estimate import Estimate, usd_words
from streamer.views.outlook import Outlook, outlook_of


def budget_outlook(found: RunSnapshot, now: datetime, budget_usd: float | None) -> Outlook:
    """The outlook of a run with the budget asked for.

    Args:
        found: the run.
        now: the time of asking.
        budget_usd: USD; None: no budget.
    """
    return outlook_of(found.run, found.agents, found.in_flight, None, now, budget_usd)


def budget_forecast(outlook: Outlook) -> str:
    """What the run will cost and what becomes of its budget, in words; what is not known is left out."""
    total, words = outlook.total_usd, []
    if total is not None and total.low < total.high:
        words.append(usd_words(Estimate(total.low, total.likely, total.high)))
    if outlook.budget is not None:
        words.append(budget_words(outlook.budget, outlook.at))
    return "; ".join(words)
