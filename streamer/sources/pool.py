"""One plan for several runs that are pooled into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from streamer.sources.base import RunPlan
from streamer.sources.files import known, time_of

_SHARED = ("harness", "benchmark", "benchmark_version", "subtests")
"""Fields that the pooled run has only if all its runs agree."""


def pooled_started(plans: Sequence[RunPlan]) -> dict[str, Any]:
    """The `run_started` of the pooled run, without its id. What only some of the runs say is left out."""
    started = [plan.started or {} for plan in plans]
    tasks = _union(started, "tasks")
    labels = _union(started, "agent_models")
    shared = {name: started[0].get(name) for name in _SHARED if _agree([one.get(name) for one in started])}
    return known(
        {
            "type": "run_started",
            "revision": max(one.get("revision", 0) for one in started),
            "started_at": _extreme([one.get("started_at") for one in started], min),
            "tasks": tasks,
            "attempts": _attempts(started, tasks, labels),
            "agent_models": labels,
            "tiers": _union(started, "tiers"),
            "order_kind": "chosen" if any(one.get("order_kind") == "chosen" for one in started) else None,
            "plan_complete": _complete(plans),
            **shared,
        }
    )


def pooled_finished(plans: Sequence[RunPlan]) -> dict[str, Any] | None:
    """The `run_finished` of the pooled run, without its id; None until every run is finished."""
    finished = [plan.finished for plan in plans if plan.finished]
    if not finished or len(finished) < len(plans):
        return None
    return known(
        {
            "type": "run_finished",
            "revision": max(one.get("revision", 0) for one in finished),
            "finished_at": _extreme([one.get("finished_at") for one in finished], max),
            "status": finished[0].get("status"),
        }
    )


def _union(started: Sequence[dict[str, Any]], name: str) -> list[Any] | None:
    """All items of a list field in order of appearance; None unless every run has the list."""
    lists = [one.get(name) for one in started]
    items = [item for found in lists if isinstance(found, list) for item in found]
    if not all(isinstance(found, list) for found in lists) or not all(isinstance(i, str) for i in items):
        return None
    return list(dict.fromkeys(items))


def _attempts(
    started: Sequence[dict[str, Any]], tasks: list[Any] | None, labels: list[Any] | None
) -> int | None:
    """Attempts per task and agent:model over all runs; None unless it is the same for each of them."""
    if not tasks or not labels or not all(isinstance(one.get("attempts"), int) for one in started):
        return None
    totals: Counter[tuple[str, str]] = Counter()
    for one in started:
        for label in one["agent_models"]:
            totals.update(dict.fromkeys(((label, task) for task in one["tasks"]), one["attempts"]))
    combinations = [(label, task) for label in labels for task in tasks]
    return totals[combinations[0]] if _agree([totals[c] for c in combinations]) else None


def _complete(plans: Sequence[RunPlan]) -> bool:
    """Whether no run lacks a part of its plan, or cannot be read.

    Always said: a plan that leaves it out would not take back a False of an earlier reading.
    """
    return all((plan.started or {}).get("plan_complete", not plan.problems) is not False for plan in plans)


def _agree(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


def _extreme(times: Sequence[Any], choose: Any) -> str | None:
    """The earliest or latest of the times, as written; None unless all are times with a zone."""
    parsed = [(time, text) for text in times if (time := time_of(text)) is not None]
    return choose(parsed)[1] if parsed and len(parsed) == len(times) else None
