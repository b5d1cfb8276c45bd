"""What may be concluded from the trials of a group, as its summary says it (docs/inference.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.group import COMPOSITE, GroupState
from streamer.aggregate.keys import GroupId
from streamer.aggregate.plan import GroupPlan
from streamer.aggregate.queue import Queue
from streamer.aggregate.roster import AWAITED, HELD, PASSED, RESOLVED, RETRYABLE, STARTED, Lineup
from streamer.inference.ability import Clusters, Interval, rate_interval, repeats
from streamer.inference.bounds import Attempted, Reach, decided, median, pass_rate, reachable_pass_at_k
from streamer.inference.conclusion import Conclusion, FinalMissing, TrialPlan, conclude, missing_in_plan
from streamer.inference.finite_population import ALPHA, Outcome
from streamer.inference.order import Trial
from streamer.schemas.details import NAMED
from streamer.score import GradingProfile
from streamer.stats.exact_sum import ExactSum
from streamer.stats.pass_at_k import pass_hat_k, sizes

LEVEL = float(1 - ALPHA)

MOST_ATTEMPTS = 1_000
"""Attempts at a task up to which pass@k has a bound: binomials of a million would take minutes."""

_BOTH = PASSED | RESOLVED


class Evidence:
    """What the trials of one group say, read from its rows.

    Args:
        group: its totals.
        lineup: its rows.
        finished: the run has ended, so a trial that the infrastructure failed will not run again.

    Attributes:
        known: trials with a final value (inference 3).
        passed: known trials that passed.
        in_flight: trials that have started and have no result; 0 once the run has finished.
    """

    def __init__(self, group: GroupState, lineup: Lineup, *, finished: bool) -> None:
        self._group = group
        self.lineup = lineup
        self._open = AWAITED | (0 if finished else RETRYABLE)
        self.known = lineup.count(HELD, HELD | self._open)
        self.passed = lineup.count(HELD | PASSED, HELD | PASSED | self._open)
        self.in_flight = 0 if finished else lineup.count(STARTED, STARTED | HELD)

    @cached_property
    def successes(self) -> list[tuple[int, int, int]]:
        """Attempts and successes of the tasks, as `PassAtK.counts` gives resolved ones."""
        if all(state & _BOTH in (0, _BOTH) for state, _ in self.lineup.of_states):
            return self._group.pass_at_k.counts()
        return self._counts(HELD, PASSED)

    def attempted(self, planned: int) -> list[Attempted] | None:
        """The tasks with results; None if one has more attempts than planned.

        Args:
            planned: attempts at each task.
        """
        if self.known == self._group.trials:
            counts = self._group.pass_at_k.counts()
        else:
            counts = self._counts(HELD, RESOLVED, without=self._open)
        tasks = [Attempted(n, c, planned - n, times) for n, c, times in counts]
        return None if any(task.missing < 0 for task in tasks) else tasks

    @cached_property
    def pass_rate(self) -> Clusters:
        """The pass rate, by task."""
        return Clusters.of_counts(self.successes)

    @cached_property
    def pass_rate_interval(self) -> Interval | None:
        """The interval of the pass rate; None with fewer than two tasks (inference 6)."""
        return rate_interval(self.pass_rate)

    def means(self, metric: str) -> Clusters:
        """A metric, or a named one as `metrics/NAME`, of the trials that have it, by task.

        Nothing where a value is infinite.
        """
        group = self._group
        named = group.named.get(metric.removeprefix(NAMED)) if metric.startswith(NAMED) else None
        held = named or group.distributions.get(metric)
        if held is None or held.count != held.finite.count:
            return Clusters()
        if self._one_attempt_each:
            return Clusters.of_single(held.finite.count, *held.finite.whole())
        values = self.lineup.values(metric)
        rows = np.flatnonzero(~np.isnan(values) & self.lineup.held)
        return Clusters.of_values(self.lineup.tasks[rows].tolist(), values[rows].tolist())

    def speedups(self, sums: ExactSum, missing: Counter[str]) -> Clusters:
        """The speedups that FormulaCode's mean is over, by task; of an agent that is no baseline (R21).

        Args:
            sums: of all of them.
            missing: task to the trials in which the agent was planned and has no sub-trial: 1.0 each.
        """
        if not missing and self._one_attempt_each:
            return Clusters.of_single(sums.count, *sums.whole())
        counted = [*self.lineup.speedups(), *((task, 1.0) for task in missing.elements())]
        return Clusters.of_values([task for task, _ in counted], [speedup for _, speedup in counted])

    @property
    def _one_attempt_each(self) -> bool:
        return self._group.pass_at_k.tasks == self._group.trials

    def outcomes(self) -> list[bool | None]:
        """Whether the trial of each row passed; None without a final value."""
        final, passed = self.final_and_passed()
        pairs = zip(final.tolist(), passed.tolist(), strict=True)
        return [outcome if known else None for known, outcome in pairs]

    def final_and_passed(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Marks of the rows with a final value, and of the final rows that passed."""
        final = self.lineup.states & (HELD | self._open) == HELD
        return final, final & (self.lineup.states & PASSED != 0)

    def _counts(self, bits: int, passed: int, *, without: int = 0) -> list[tuple[int, int, int]]:
        """How many rows of each task have these bits, and how many of these passed."""
        states, tasks = self.lineup.states, self.lineup.tasks
        counted = states & (bits | without) == bits
        attempts = np.bincount(tasks[counted])
        passes = np.bincount(tasks[counted & (states & passed != 0)], minlength=len(attempts))
        pairs = Counter(zip(attempts.tolist(), passes.tolist(), strict=True))
        return [(n, c, times) for (n, c), times in pairs.items() if n]


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
