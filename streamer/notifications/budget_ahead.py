"""Whether a run will pass its budget, by the forecast of its cost. Pure."""

from __future__ import annotations

from streamer.notifications.notification import Json
from streamer.schemas.summaries import RunSummary
from streamer.views.budget import budget_of
from streamer.views.estimate import usd_words
from streamer.views.eta import eta_of
from streamer.views.formatting import finite


def budget_ahead(run: Json, usd: float) -> str | None:
    """The forecast in words, if its whole interval lies above the budget; None: not so, or passed already.

    Args:
        run: a run's summary.
        usd: the budget, USD.
    """
    found = RunSummary.model_validate(run)
    pace = eta_of(found)
    if pace.projected_usd is None:
        return None
    standing = budget_of(usd, finite(found.total_cost), pace).standing
    return usd_words(pace.projected_usd) if standing == "will_pass" else None
