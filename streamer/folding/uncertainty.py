"""The inferences from a group's trials, for its summary (docs/inference.md)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.folding.groups import COMPOSITE, GroupState, Owner
from streamer.folding.plan import GroupPlan, Queue
from streamer.folding.score import GradingProfile, Scored
from streamer.folding.slots import Slot, SlotKey
from streamer.schemas.base import NO_TIME, RUN, GroupId, groups_of, microseconds
from streamer.schemas.events import NAMED, NO_FAILURE
from streamer.schemas.provenance import OF_TRIALS
from streamer.schemas.wire import Result
from streamer.statistics.ability import (
    Attempted,
    Clusters,
    Interval,
    Reach,
    decided,
    mean_interval,
    median,
    pass_hat_k,
    pass_rate,
    rate_interval,
    reachable_pass_at_k,
    repeats,
    sizes,
)
from streamer.statistics.distribution import ExactSum
from streamer.statistics.final import (
    ALPHA,
    Conclusion,
    FinalMissing,
    OrderKind,
    Outcome,
    Trial,
    TrialPlan,
    conclude,
    missing_in_plan,
)

# -----------------------------------------------------------------------------
# The trials of a run in rows, one for each slot, from which its groups' uncertainty is computed.
#
# Groups count totals. Inference also needs each trial's task, whether its outcome is final, and its place in
# the queue. Rows are kept by agent, model and tier, so a group consists of some of these lists.


MEANS = ("impl_rate", "cost_usd", "duration_seconds")
"""Metrics besides the pass rate whose mean is on a board, with an error."""

STORED, PASSED, RESOLVED, PENDING, RETRYABLE, STARTED, UNJUDGED, NUMERIC = (1 << bit for bit in range(8))
"""Bits of a row: a result is there, it succeeded (R20), it is resolved. A verdict or the oracle is missing.
Infrastructure failed the trial, so it may run again. A start is known. A judge may still give a verdict.
There are only numbers, so no verdict will come (R31).
"""

UNFINISHED = PENDING | RETRYABLE
"""Bits of rows that are not final before the run has ended (inference 3)."""


_NEVER = int(np.iinfo(np.int64).max)


class Rows:
    """Trials of one agent:model in one tier, by column; a row always keeps its slot.

    Attributes:
        times: start, else end, of the result, microseconds since 1970; _NEVER if unknown.
        values: values of each metric of :data:`MEANS` or `metrics/NAME` (R30); NaN if missing.
        speedups: task speedup by row, in groups with FormulaCode's sections; None if not measured.
        provenance: facts about how each trial was made that comparisons read (R36), by row.
    """

    def __init__(self) -> None:
        self.keys: list[SlotKey] = []
        self.tasks = array("i")
        self.states = array("B")
        self.times = array("q")
        self.started: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.values = {metric: array("d") for metric in MEANS}
        self.speedups: dict[int, float | None] = {}
        self.provenance: dict[int, dict[str, str]] = {}

    def append(self, key: SlotKey, task: int) -> int:
        self.keys.append(key)
        self.tasks.append(task)
        self.states.append(0)
        self.times.append(_NEVER)
        for column in self.values.values():
            column.append(nan)
        return len(self.keys) - 1

    def measure(self, row: int, scored: Scored) -> None:
        for metric in MEANS:
            value = getattr(scored, metric)
            self.values[metric][row] = nan if value is None else value
        if not scored.metrics and len(self.values) == len(MEANS):
            return
        named = {NAMED + name: value for name, value in (scored.metrics or {}).items()}
        for metric in named.keys() - self.values.keys():
            self.values[metric] = array("d", [nan]) * len(self.keys)
        for metric in self.values.keys() - MEANS:
            self.values[metric][row] = named.get(metric, nan)

    def began(self) -> int:
        stored = np.frombuffer(self.states, np.uint8) & STORED != 0
        times = np.frombuffer(self.times, np.int64)[stored]
        return min(int(times.min(initial=_NEVER)), min(self.started.values(), default=_NEVER))

    def task_speedups(self) -> Iterator[tuple[str, float]]:
        for row, (key, state) in enumerate(zip(self.keys, self.states, strict=True)):
            if state & STORED:
                speedup = self.speedups.get(row, None if state & PASSED else 1.0)
                if speedup is not None:
                    yield key.task_id, speedup


class Lineup:
    def __init__(self, parts: list[Rows], every: Iterable[Rows]) -> None:
        self._parts, self._every = parts, every
        self.states: NDArray[np.uint8] = _joined([part.states for part in parts], np.uint8)

    @cached_property
    def of_states(self) -> list[tuple[int, int]]:
        counts: list[int] = np.bincount(self.states).tolist()
        return [(state, rows) for state, rows in enumerate(counts) if rows]

    @property
    def stored(self) -> NDArray[np.bool_]:
        stored: NDArray[np.bool_] = self.states & STORED != 0
        return stored

    @property
    def tasks(self) -> NDArray[np.int32]:
        return _joined([part.tasks for part in self._parts], np.int32)

    def values(self, metric: str) -> NDArray[np.float64]:
        columns = (part.values.get(metric, array("d", [nan]) * len(part.keys)) for part in self._parts)
        return _joined(list(columns), np.float64)

    def speedups(self) -> list[tuple[str, float]]:
        return [speedup for part in self._parts for speedup in part.task_speedups()]

    def keys(self) -> list[SlotKey]:
        return [key for part in self._parts for key in part.keys]

    def positions(self) -> dict[int, int]:
        positions, first = {}, 0
        for part in self._parts:
            positions.update({first + row: position for row, position in part.positions.items()})
            first += len(part.keys)
        return positions

    def provenance(self) -> Iterator[tuple[SlotKey, dict[str, str]]]:
        for part in self._parts:
            yield from (
                (part.keys[row], of)
                for row, of in part.provenance.items()
                if of and part.states[row] & STORED
            )

    def others(self) -> set[int]:
        others = (part for part in self._every if part not in self._parts)
        return {position for part in others for position in part.positions.values()}

    def in_flight(self) -> list[SlotKey]:
        rows = np.flatnonzero(self.states & (STARTED | STORED) == STARTED).tolist()
        keys = self.keys() if rows else []
        return [keys[row] for row in rows]

    def count(self, bits: int, among: int) -> int:
        return sum(rows for state, rows in self.of_states if state & among == bits)

    def count_any(self, bits: int) -> int:
        return sum(rows for state, rows in self.of_states if state & bits)


class Roster:
    """Rows of all slots of a run. Pooled tiers leave out baselines (R4)."""

    def __init__(self, is_baseline: Callable[[str], bool]) -> None:
        self._is_baseline = is_baseline
        self._rows: dict[Owner, Rows] = {}
        self._groups: dict[GroupId, list[Rows]] = {}
        self._tasks: dict[str, int] = {}
        self._provenance: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self.positions_changed = 0
        self._began: int | None = None

    def enter(self, key: SlotKey, slot: Slot, scored: Scored) -> None:
        rows = self._rows_of(key, slot)
        row = slot.row
        rows.states[row] = rows.states[row] & STARTED | _state(scored)
        self._timed(_NEVER, rows.times[row])
        rows.measure(row, scored)
        if scored.formulacode is not None:
            rows.speedups[row] = scored.formulacode.task_speedup
        elif rows.speedups:
            rows.speedups.pop(row, None)

    def timed(self, key: SlotKey, slot: Slot, event: Result) -> None:
        """Note times and provenance of the slot's current or next result."""
        at, rows = microseconds(event.started_at or event.finished_at), self._rows_of(key, slot)
        before, rows.times[slot.row] = rows.times[slot.row], _NEVER if at == NO_TIME else at
        self._timed(before, rows.times[slot.row])
        if event.provenance or rows.provenance:
            said = sorted(one for one in (event.provenance or {}).items() if one[0] in OF_TRIALS)
            # trials of one task mostly have the same, so they share it
            rows.provenance[slot.row] = self._provenance.setdefault(tuple(said), dict(said))

    def began(self) -> int | None:
        """The earliest start, or end without a start, in microseconds. NO_TIME: the results have no times.
        None: there is no result, and no start with a time.
        """
        if self._began is None:
            self._began = min((rows.began() for rows in self._rows.values()), default=_NEVER)
        if self._began != _NEVER:
            return self._began
        return NO_TIME if any(s & STORED for rows in self._rows.values() for s in rows.states) else None

    def _timed(self, before: int, after: int) -> None:
        if self._began is not None:
            self._began = None if before == self._began < after else min(self._began, after)

    def leave(self, key: SlotKey, slot: Slot) -> None:
        rows = self._rows_of(key, slot)
        rows.states[slot.row] &= STARTED
        self._timed(rows.times[slot.row], _NEVER)

    def start(self, key: SlotKey, slot: Slot) -> None:
        rows = self._rows_of(key, slot)
        rows.states[slot.row] = rows.states[slot.row] & ~STARTED | (STARTED if slot.starts else 0)
        before, after = rows.positions.pop(slot.row, None), slot.position
        if after is not None:
            rows.positions[slot.row] = after
        at = rows.started.pop(slot.row, _NEVER)
        if slot.started_at is not None:
            rows.started[slot.row] = slot.started_at
        self._timed(at, rows.started.get(slot.row, _NEVER))
        self.positions_changed += before != after

    def lineup(self, group: GroupId) -> Lineup:
        every = self._rows.values()
        return Lineup(list(every) if group == RUN else self._groups.get(group, []), every)

    def groups(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def _rows_of(self, key: SlotKey, slot: Slot) -> Rows:
        owner = (key.agent, key.model, key.tier)
        rows = self._rows.get(owner)
        if rows is None:
            rows = self._rows[owner] = Rows()
            for group in groups_of(*owner, baseline=self._is_baseline(key.agent)):
                self._groups.setdefault(group, []).append(rows)
        if slot.row < 0:
            slot.row = rows.append(key, self._tasks.setdefault(key.task_id, len(self._tasks)))
        return rows


def _state(scored: Scored) -> int:
    return (
        STORED
        | (PASSED if scored.success else 0)
        | (RESOLVED if scored.resolved else 0)
        | (PENDING if scored.pending else 0)
        | (RETRYABLE if scored.infrastructure_failure and not scored.success else 0)
        | _without_verdict(scored)
    )


def _without_verdict(scored: Scored) -> int:
    if scored.success is None:
        return NUMERIC
    return UNJUDGED if scored.resolved is None and scored.failure_mode in NO_FAILURE else 0


def _joined(columns: list[array[int]] | list[array[float]], kind: type) -> NDArray[Any]:
    """A copy: a view would keep the columns from growing."""
    return np.concatenate([np.frombuffer(column, kind) for column in columns] or [np.empty(0, kind)])


# -----------------------------------------------------------------------------
# The inferences from a group's trials, for its summary (docs/inference.md).


LEVEL = float(1 - ALPHA)

MOST_ATTEMPTS = 1_000
"""The most attempts at a task for which pass@k has a bound: a million would take minutes."""

_BOTH = PASSED | RESOLVED


class MeanError(NamedTuple):
    standard_error: float | None
    low: float
    high: float


def error_of(values: Clusters) -> MeanError | None:
    """The error and t interval of a mean; None with fewer than two tasks."""
    interval = mean_interval(values)
    return interval and MeanError(values.standard_error(), *interval)


class Evidence:
    """The evidence from one group's trials, read from its rows.

    Attributes:
        known: trials with a final value (inference 3).
        numeric: trials with only numbers; no other field counts them (R31).
        in_flight: trials with a start and no result; 0 once the harness has ended the run.
        retracted: whether a trial was retracted with its start, and has not started again.
    """

    def __init__(
        self,
        group: GroupState,
        lineup: Lineup,
        *,
        finished: bool,
        open_states: int = UNFINISHED,
        retracted: bool = False,
    ) -> None:
        self._group = group
        self.lineup = lineup
        self.retracted = retracted
        self._open = open_states | NUMERIC
        self.numeric = lineup.count(NUMERIC, NUMERIC)
        self.known = lineup.count(STORED, STORED | self._open)
        self.passed = lineup.count(STORED | PASSED, STORED | PASSED | self._open)
        self.in_flight = 0 if finished else lineup.count(STARTED, STARTED | STORED)

    @cached_property
    def successes(self) -> list[tuple[int, int, int]]:
        """Attempts and successes of the tasks, like resolved trials in `PassAtK.counts`."""
        if all(state & _BOTH in (0, _BOTH) for state, _ in self.lineup.of_states):
            return self._group.pass_at_k.counts()
        return self._counts(STORED, PASSED, without=NUMERIC)

    def attempted(self, planned: int) -> list[Attempted] | None:
        """The tasks with results and their planned attempts; None if a task has more than planned."""
        if self.known == self._group.trials:
            counts = self._group.pass_at_k.counts()
        else:
            counts = self._counts(STORED, RESOLVED, without=self._open)
        tasks = [Attempted(n, c, planned - n, times) for n, c, times in counts]
        return None if any(task.missing < 0 for task in tasks) else tasks

    @cached_property
    def pass_rate(self) -> Clusters:
        return Clusters.of_counts(self.successes)

    @cached_property
    def pass_rate_interval(self) -> Interval | None:
        return rate_interval(self.pass_rate)

    def means(self, metric: str) -> Clusters:
        group = self._group
        named = group.named.get(metric.removeprefix(NAMED)) if metric.startswith(NAMED) else None
        distribution = named or group.distributions.get(metric)
        if distribution is None or distribution.count != distribution.finite.count:
            return Clusters()
        if self._one_attempt_each:
            return Clusters.of_single(distribution.finite.count, *distribution.finite.whole())
        values = self.lineup.values(metric)
        rows = np.flatnonzero(~np.isnan(values) & self.lineup.stored)
        return Clusters.of_values(self.lineup.tasks[rows].tolist(), values[rows].tolist())

    def error(self, metric: str) -> MeanError | None:
        if metric != "pass_rate":
            return error_of(self.means(metric))
        interval = self.pass_rate_interval
        return interval and MeanError(self.pass_rate.standard_error(), *interval)

    def speedups(self, sums: ExactSum, missing: Counter[str]) -> Clusters:
        """The speedups in FormulaCode's mean, by task, for an agent that is not a baseline (R21).

        A `missing` trial, without a sub-trial of this planned agent, counts as 1.0.
        """
        if not missing and self._one_attempt_each:
            return Clusters.of_single(sums.count, *sums.whole())
        counted = [*self.lineup.speedups(), *((task, 1.0) for task in missing.elements())]
        return Clusters.of_values([task for task, _ in counted], [speedup for _, speedup in counted])

    @property
    def _one_attempt_each(self) -> bool:
        return self._group.tasks == self._group.trials

    def starts_fit(self, concurrency: int | None) -> bool:
        """Whether the starts of all trials are known, and no more run at once than planned (inference 3).

        A retraction takes the start with it, so it is not known that the trial is among the first ones.
        """
        unstarted = self.lineup.count(STORED, STORED | STARTED)
        return not unstarted and not self.retracted and (concurrency is None or self.in_flight <= concurrency)

    def outcomes(self) -> list[bool | None]:
        final, passed = self.final_and_passed()
        pairs = zip(final.tolist(), passed.tolist(), strict=True)
        return [outcome if is_final else None for is_final, outcome in pairs]

    def final_and_passed(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks of the rows with a final value, and of those that passed."""
        final = self.lineup.states & (STORED | self._open) == STORED
        return final, final & (self.lineup.states & PASSED != 0)

    def _counts(self, bits: int, passed: int, *, without: int = 0) -> list[tuple[int, int, int]]:
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
    """The field `uncertainty` of a group's summary; a group with mixed agents has only `ability`."""
    names = ("reachable", "decided", "final", "final_if_unrelated", "final_missing", "repeat", "ability")
    body: dict[str, Any] = dict.fromkeys(names)
    if not group.has_verdicts:
        return body
    planned = plan.declared and plan.declared - group.numeric
    body["ability"] = _ability(evidence, planned, plan.tasks)
    if group_id.agent is None:
        return body
    body["repeat"] = _repeat(evidence.successes)
    if planned and group.verdict_trials <= planned:
        reach = pass_rate(evidence.passed, evidence.known - evidence.passed, planned)
        grade = _reachable_grade(group, plan, planned, reach, profile) if profile.thresholds else None
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
    evidence: Evidence, planned: int | None, queue: Queue, stored: Mapping[int, Outcome] | None = None
) -> Conclusion:
    """The interval of the final pass rate, or the reason why it is missing (inference 5).

    `stored` has the outcomes of the rows at an earlier moment; None: now.
    """
    if not planned:
        return Conclusion(None, FinalMissing.NO_PLAN)
    if evidence.numeric:
        return Conclusion(None, FinalMissing.ORDER_UNKNOWN_IN_PART)
    first = queue.first_trials(planned)
    if first is None:
        return Conclusion(None, FinalMissing.ORDER_UNKNOWN_IN_PART)
    lineup = evidence.lineup
    positions = lineup.positions() if queue.places is None else {}
    others = lineup.others() if positions else ()
    order, places = queue.order, queue.places
    plan = TrialPlan(
        first,
        queue.kind,
        order.concurrency,
        queue.difficulty,
        others,
        places,
        evidence.starts_fit(order.concurrency),
        order.contradicted,
        queue.order_flaw,
    )
    rows = np.flatnonzero(lineup.states).tolist() if stored is None else sorted(stored)
    later = _later(lineup, rows, queue)
    placed = not rows or queue.places is not None or bool(positions)
    if missing := missing_in_plan(plan, len(rows) - len(later), placed=placed):
        return Conclusion(None, missing)
    grown = planned - first
    if len(later) > grown:
        return Conclusion(None, FinalMissing.PLAN_EXCEEDED)
    keys, outcomes = lineup.keys(), evidence.outcomes() if stored is None else stored
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
    if not queue.has_grown:
        return set()
    keys = lineup.keys()
    return {row for row in rows if queue.is_later(keys[row])}


def _ability(evidence: Evidence, planned: int | None, tasks_planned: int | None) -> dict[str, Any] | None:
    interval = evidence.pass_rate_interval
    if interval is None:
        return None
    return {
        "standard_error": evidence.pass_rate.standard_error(),
        **interval._asdict(),
        "level": LEVEL,
        "method": "wilson-clustered",
        "tasks": evidence.pass_rate.tasks,
        "tasks_planned": tasks_planned,
        "incomplete": evidence.in_flight > 0
        or evidence.known < (planned or 0)
        or evidence.pass_rate.tasks < (tasks_planned or 0),
    }


def _repeat(counts: list[tuple[int, int, int]]) -> dict[str, Any] | None:
    repeated = repeats(counts)
    if repeated is None:
        return None
    hats = {str(k): pass_hat_k(k, counts)[0] for k in sizes(max(n for n, _, _ in counts))}
    return repeated._asdict() | {"pass_hat_k": hats}


def _reachable_pass_at_k(evidence: Evidence, group: GroupState, plan: GroupPlan) -> dict[str, Any] | None:
    """None if the summary has no pass@k (R11), or the plan has no attempts or too many."""
    attempts = plan.attempts_per_task
    if len(group.owners) > 1 or plan.tasks is None or attempts is None or attempts > MOST_ATTEMPTS:
        return None
    tasks = evidence.attempted(attempts)
    if tasks is None:
        return None
    unseen = plan.tasks - sum(task.tasks for task in tasks)
    every = [*tasks, Attempted(0, 0, attempts, unseen)] if unseen > 0 else tasks
    reach = {k: reachable_pass_at_k(k, every) for k in sizes(attempts)}
    return {str(k): value._asdict() for k, value in reach.items() if value}


def _reachable_grade(
    group: GroupState, plan: GroupPlan, planned: int, rate: Reach, profile: GradingProfile
) -> Reach | None:
    """Bounds of the number behind the grade (R13): a judged group's median composite, else the pass rate."""
    judged = plan.judged if plan.judged is not None else group.distributions["impl_rate"].count > 0
    return median(group.distributions[COMPOSITE].ascending(), planned) if judged else rate


def _final(evidence: Evidence, planned: int | None, queue: Queue) -> dict[str, Any]:
    concluded, kind = conclusion(evidence, planned, queue), queue.kind
    if concluded.passes is None:
        return {"final_missing": concluded.missing}
    low, high = concluded.passes.rates()
    unknown = (planned or 0) - evidence.known
    interval = {
        "low": low,
        "high": high,
        "level": LEVEL,
        "planned": planned,
        "passes": evidence.passed,
        "unknown": unknown,
        "order_kind": kind,
        "order_changed": queue.order.changed,
        "method": "finite-population",
    }
    if unknown and kind is not OrderKind.SHUFFLED:
        return {"final_if_unrelated": interval, "final_missing": FinalMissing.ORDER_UNDECLARED}
    return {"final": interval}
