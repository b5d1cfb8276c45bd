"""How lists of trials are filtered, ordered and divided into pages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from streamer.views.failures import stated_mode
from streamer.views.models import TrialRow
from streamer.web.models import ListedTrial, TrialPage, TrialsQuery

ORDERS: dict[str, Callable[[TrialRow], Any]] = {
    "task": lambda row: (row.task_id, row.attempt),
    "agent": lambda row: row.agent_model,
    "tier": lambda row: row.tier,
    "outcome": lambda row: row.outcome,
    "composite_score": lambda row: row.composite_score,
    "cost_usd": lambda row: row.cost_usd,
    "duration_seconds": lambda row: row.duration_seconds,
}


def page_of(rows: Sequence[TrialRow], query: TrialsQuery, kind: Collection[str] | None = None) -> TrialPage:
    """The page that the query asks for.

    Args:
        rows: all trials of the run, the one that changed last at the end.
        query: filters, order, offset and limit.
        kind: ids of the trials whose message is of the kind that the query asks for; None: it asks for none.
    """
    found = [row for row in rows if _wanted(row, query) and (kind is None or row.id in kind)]
    if query.sort == "latest":
        found = found if query.descending else found[::-1]
    else:
        order = ORDERS[query.sort]
        known = [row for row in found if order(row) is not None]
        known.sort(key=order, reverse=query.descending)
        found = known + [row for row in found if order(row) is None]
    page = found[query.offset : query.offset + query.limit]
    trials = [ListedTrial.model_construct(**dict(row)) for row in page]
    return TrialPage(total=len(rows), matching=len(found), offset=query.offset, trials=trials)


def _wanted(row: TrialRow, query: TrialsQuery) -> bool:
    failed = query.failure_mode is not None or query.kind is not None
    return (
        query.task in (None, row.task_id)
        and query.tier in (None, row.tier)
        and query.agent in (None, row.agent_model, row.agent_model.partition(":")[0])
        and query.outcome in (None, row.outcome)
        and not (failed and row.success)
        and query.failure_mode in (None, stated_mode(row.failure_mode) or "")
        and (not query.search or query.search.casefold() in _text(row).casefold())
    )


def _text(row: TrialRow) -> str:
    return "\n".join((row.task_id, row.agent_model, row.failure_mode or ""))
