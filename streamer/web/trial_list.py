"""What a list of trials shows of each, and how lists are filtered, ordered and cut. Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamer.web.models import Outcome, TrialPage, TrialRow, TrialsQuery

ORDERS: dict[str, Callable[[TrialRow], Any]] = {
    "task": lambda row: (row.task_id, row.attempt),
    "agent": lambda row: row.agent_model,
    "tier": lambda row: row.tier,
    "outcome": lambda row: row.outcome,
    "composite_score": lambda row: row.composite_score,
    "cost_usd": lambda row: row.cost_usd,
    "duration_seconds": lambda row: row.duration_seconds,
}


def page_of(rows: Sequence[TrialRow], query: TrialsQuery) -> TrialPage:
    """The page that the query asks for.

    Args:
        rows: all trials of the run, the one that changed last at the end.
        query: filters, order, offset and limit.
    """
    found = [row for row in rows if _wanted(row, query)]
    if query.sort == "latest":
        found = found if query.descending else found[::-1]
    else:
        order = ORDERS[query.sort]
        known = [row for row in found if order(row) is not None]
        known.sort(key=order, reverse=query.descending)
        found = known + [row for row in found if order(row) is None]
    page = found[query.offset : query.offset + query.limit]
    return TrialPage(total=len(rows), matching=len(found), offset=query.offset, trials=page)


def _wanted(row: TrialRow, query: TrialsQuery) -> bool:
    return (
        query.task in (None, row.task_id)
        and query.tier in (None, row.tier)
        and query.agent in (None, row.agent_model, row.agent_model.partition(":")[0])
        and query.outcome in (None, row.outcome)
        and (not query.search or query.search.casefold() in _text(row).casefold())
    )


def _text(row: TrialRow) -> str:
    return "\n".join((row.task_id, row.agent_model, row.failure_mode or ""))


def row_of(trial_id: str, trial: Mapping[str, Any]) -> TrialRow:
    """What a list shows of a scored trial (as parsed from JSON)."""
    formulacode = trial["formulacode"] or {}
    return TrialRow(
        id=trial_id,
        shard=trial["shard"],
        task_id=sys.intern(trial["task_id"]),
        attempt=trial["attempt"],
        agent_model=sys.intern(trial["agent_model"]),
        tier=_interned(trial["tier"]),
        subtest=_interned(trial["subtest"]),
        resolved=trial["resolved"],
        success=trial["success"],
        outcome=outcome_of(trial),
        failure_mode=_interned(trial["failure_mode"]),
        composite_score=trial["composite_score"],
        grade=trial["grade"],
        cost_usd=trial["cost_usd"],
        duration_seconds=trial["duration_seconds"],
        task_speedup=formulacode.get("task_speedup"),
        agent_advantage=formulacode.get("agent_advantage"),
    )


def outcome_of(trial: Mapping[str, Any]) -> Outcome:
    """A trial that fell back to the baseline did not pass, whatever its numbers say (C1)."""
    if (trial["formulacode"] or {}).get("fallback_to_baseline"):
        return "fell_back"
    if trial["success"]:
        return "passed"
    return "no_verdict" if trial["resolved"] is None and trial["formulacode"] is None else "failed"


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)
