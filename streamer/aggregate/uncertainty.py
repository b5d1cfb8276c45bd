"""What may be concluded from the trials of a group, as its summary says it (docs/inference.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamer.aggregate.evidence import Evidence
from streamer.aggregate.group import COMPOSITE, GroupState
from streamer.aggregate.keys import GroupId
from streamer.aggregate.plan import GroupPlan
from streamer.aggregate.queue import Queue
from streamer.aggregate.roster import MEANS, Lineup
from streamer.inference.ability import Clusters, Interval, mean_interval, repeats
from streamer.inference.bounds import Attempted, Reach, decided, median, pass_rate, reachable_pass_at_k
from streamer.inference.conclusion import Conclusion, FinalMissing, TrialPlan, conclude, missing_in_plan
from streamer.inference.finite_population import ALPHA, Outcome
from streamer.inference.order import Trial
from streamer.schemas.canonical import json_number
from streamer.score import GradingProfile
from streamer.stats.pass_at_k import pass_hat_k, sizes

LEVEL = float(1 - ALPHA)

NO_ERROR: dict[str, Any] = dict.fromkeys(("standard_error", "low", "high"))
"""The fields of an error and its interval where there is none; to be read only."""

MOST_ATTEMPTS = 1_000
"""Attempts at a task up to which pass@k has a bound: binomials of a million would take minutes."""


def uncertainty_body(
    evidence: Evidence,
    group: GroupState,
    group_id: GroupId,
    plan: GroupPlan,
    queue: Queue,
    profile: GradingProfile,
) -> dict[str, Any]:
    """The field `uncertainty` of a group's summary; a group that mixes agents has `ability` only."""
    body: dict[str, Any] = dict.fromkeys(("reachable", "decided", "final", "final_missing", "repeat"))
    body["ability"] = _ability(evidence)
    if group_id.agent is None:
        return body
    body["repeat"] = _repeat(evidence.successes)
    planned = plan.declared
    if planned and group.trials <= planned:
        reach = pass_rate(evidence.passed, evidence.known - evidence.passed, planned)
        grade = _reachable_grade(group, plan, planned, reach, profile)
        body["reachable"] = {
            "pass_rate": reach._asdict(),
            "pass_at_k": _reachable_pass_at_k(evidence, group, plan),
            "grade": grade and {"low": profile.grade(grade.low), "high": profile.grade(grade.high)},
        }
        body["decided"] = {"grade": grade is not None and decided(grade, profile.grade)}
    if plan.undeclared:
        return body | {"final_missing": FinalMissing.PLAN_UNDECLARED_TIERS}
    return body | _final(evidence, planned, queue)


def conclusion(
    evidence: Evidence, planned: int | None, queue: Queue, known: Mapping[int, Outcome] | None = None
) -> Conclusion:
    """The interval of the final pass rate, or why there is none (inference 5).

    Args:
        known: outcomes of the rows that stood at an earlier moment, as known then; None: as they are now.
    """
    if not planned:
        return Conclusion(None, FinalMissing.NO_PLAN)
    first = queue.first_trials(planned)
    if first is None:
        return Conclusion(None, FinalMissing.ORDER_UNKNOWN_IN_PART)
    lineup = evidence.lineup
    positions = lineup.positions() if queue.places is None else {}
    others = lineup.others() if positions else ()
    plan = TrialPlan(first, queue.kind, queue.concurrency, queue.difficulty, others, queue.places)
    rows = np.flatnonzero(lineup.states).tolist() if known is None else sorted(known)
    later = _later(lineup, rows, queue)
    placed = not rows or queue.places is not None or bool(positions)
    if missing := missing_in_plan(plan, len(rows) - len(later), placed=placed):
        return Conclusion(None, missing)
    grown = planned - first
    if len(later) > grown:
        return Conclusion(None, FinalMissing.PLAN_EXCEEDED)
    keys, outcomes = lineup.keys(), evidence.outcomes() if known is None else known
    trials = [
        Trial(
            str(keys[row]),
            keys[row].task_id,
            outcomes[row],
            positions.get(row) if queue.places is None else queue.place(keys[row]),
        )
        for row in rows
        if row not in later
    ]
    concluded = conclude(queue.run_id, plan, trials, [outcomes[row] for row in later])
    if concluded.passes is None:
        return concluded
    return Conclusion(concluded.passes.with_unknown(grown - len(later)), None)


def _later(lineup: Lineup, rows: list[int], queue: Queue) -> set[int]:
    """The rows of trials that joined the plan after its first version."""
    if not queue.has_grown:
        return set()
    keys = lineup.keys()
    return {row for row in rows if queue.is_later(keys[row])}


def mean_error(evidence: Evidence | None, metric: str) -> dict[str, Any]:
    """Error and interval of a metric's mean; None of fewer than two tasks, and of metrics without a board."""
    if evidence is None or metric not in ("pass_rate", *MEANS):
        return NO_ERROR
    if metric == "pass_rate":
        return _error_body(evidence.pass_rate, evidence.pass_rate_interval)
    return error_body(evidence.means(metric))


def error_body(values: Clusters | None) -> dict[str, Any]:
    """Error and t interval of a mean: `standard_error`, `low`, `high`; None of fewer than two tasks."""
    return _error_body(values, mean_interval(values)) if values else NO_ERROR


def _error_body(values: Clusters, interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return NO_ERROR
    numbers = values.standard_error(), *interval
    return dict(zip(NO_ERROR, map(json_number, numbers), strict=True))


def _ability(evidence: Evidence) -> dict[str, Any] | None:
    interval = evidence.pass_rate_interval
    if interval is None:
        return None
    return {
        "standard_error": evidence.pass_rate.standard_error(),
        **interval._asdict(),
        "level": LEVEL,
        "method": "wilson-clustered",
        "tasks": evidence.pass_rate.tasks,
    }


def _repeat(counts: list[tuple[int, int, int]]) -> dict[str, Any] | None:
    found = repeats(counts)
    if found is None:
        return None
    hats = {str(k): pass_hat_k(k, counts)[0] for k in sizes(max(n for n, _, _ in counts))}
    return found._asdict() | {"pass_hat_k": hats}


def _reachable_pass_at_k(evidence: Evidence, group: GroupState, plan: GroupPlan) -> dict[str, Any] | None:
    """None where the summary has no pass@k (R11), or the plan has no attempts, or too many of them."""
    attempts = plan.attempts_per_task
    if len(group.owners) > 1 or plan.tasks is None or attempts is None or attempts > MOST_ATTEMPTS:
        return None
    tasks = evidence.attempted(attempts)
    if tasks is None:
        return None
    unseen = plan.tasks - sum(task.tasks for task in tasks)
    every = [*tasks, Attempted(0, 0, attempts, unseen)] if unseen > 0 else tasks
    reach = {k: reachable_pass_at_k(k, every) for k in sizes(attempts)}
    return {str(k): found._asdict() for k, found in reach.items() if found}


def _reachable_grade(
    group: GroupState, plan: GroupPlan, planned: int, rate: Reach, profile: GradingProfile
) -> Reach | None:
    """The number behind the grade (R13): the median composite of a judged group, else the pass rate."""
    judged = plan.judged if plan.judged is not None else group.distributions["impl_rate"].count > 0
    return median(group.distributions[COMPOSITE].ascending(), planned) if judged else rate


def _final(evidence: Evidence, planned: int | None, queue: Queue) -> dict[str, Any]:
    """The fields `final` and `final_missing`."""
    concluded = conclusion(evidence, planned, queue)
    if concluded.passes is None:
        return {"final_missing": concluded.missing}
    low, high = concluded.passes.rates()
    return {
        "final": {
            "low": low,
            "high": high,
            "level": LEVEL,
            "planned": planned,
            "passes": evidence.passed,
            "unknown": (planned or 0) - evidence.known,
            "order_kind": queue.kind,
            "method": "finite-population",
        }
    }
