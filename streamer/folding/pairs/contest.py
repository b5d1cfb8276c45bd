"""Sides and pairs: the trials of one agent, and two agents matched trial by trial in order (inference 7).

A pair is the same attempt at the same task, tier and subtest, planned by both sides. The pairs stand in the
order of the side that began later. Without an order they are compared at the end only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from streamer.folding.groups import GroupState
from streamer.folding.slots import SlotKey
from streamer.folding.state import RunState
from streamer.folding.uncertainty import NUMERIC, conclusion
from streamer.schemas.base import NO_TIME, microseconds, task_key
from streamer.schemas.events import NAMED
from streamer.schemas.provenance import Made, side_by_side
from streamer.schemas.wire import GroupId
from streamer.statistics.final import FinalMissing, OrderKind, Outcome, digest, with_gaps
from streamer.statistics.pairs import (
    Attempts,
    Ends,
    Pair,
    PairedTask,
    Pairing,
    Task,
    at_worst,
    e_value,
    evidence_worse,
    grouped,
    is_behind,
    pairings_of,
)


def by_place(
    run_id: str, placed: Iterable[tuple[Pairing, int]], planned: int, others: set[int]
) -> list[Pairing | None]:
    """The planned number of trials in order; None stands for an unknown trial.

    Ties go by a hash, never by the name of a task. Places in `others` are left out.
    """
    ordered = sorted(placed, key=lambda at: (at[1], digest(run_id, str(at[0]))))
    gaps = with_gaps([place for _, place in ordered], planned, others)
    return [None if index is None else ordered[index][0] for index in gaps]


class EvidenceMissing(StrEnum):
    """Why no prefix of an order shows anything, so that only the whole plan counts."""

    ORDER_FROM_A_SIDE = "order_from_a_side"
    """The order was made from results of a compared run."""
    ORDER_CHOSEN = "order_chosen"
    """The order was chosen, and its plan does not say from what."""


def evidence_missing(run: RunState, *sides: str) -> EvidenceMissing | None:
    """The reason why evidence may not take its pairs in the order of `run`, or None (inference 5).

    Evidence refutes that neither side is favoured on any task. Only an order made from a side's own
    results can mislead it, so a chosen order has to state its source.
    """
    history = run.plan.get("order_history") or ()
    if set(sides) & set(history):
        return EvidenceMissing.ORDER_FROM_A_SIDE
    is_explained = run.queue.kind is not OrderKind.CHOSEN or bool(history or run.plan.get("order_reason"))
    return None if is_explained else EvidenceMissing.ORDER_CHOSEN


class Contestant:
    """The trials of one agent:model, named as pairs are; `fixed`: nothing more comes, as from a file.

    Where a metric is judged, trials that have `numbers` alone count as known (R31).
    """

    def __init__(
        self,
        run: RunState,
        group: GroupId,
        *,
        fixed: bool = False,
        numbers: bool = False,
        open_states: int | None = None,
    ) -> None:
        run.count()
        self.run, self.group, self._fixed, self._numbers = run, group, fixed, numbers
        self.evidence = run.evidence(group, open_states)
        self._lineup = self.evidence.lineup
        self._rows = np.flatnonzero(self._lineup.states)
        keys = self._lineup.keys()
        self._keys = [keys[row] for row in self._rows.tolist()]
        self.pairings, self.unnumbered = pairings_of(self._keys, run.plan.attempts)
        self.numeric: NDArray[np.bool_] = self._lineup.states[self._rows] & NUMERIC != 0

    @cached_property
    def outcomes(self) -> dict[Pairing, Outcome]:
        """The outcome of every trial that is in, has started, or is planned by name.

        Where the plan only counts its tasks, the attempts seen stand for it.
        """
        outcomes = self.evidence.outcomes()
        rows = zip(self.pairings, self._rows.tolist(), self.numeric.tolist(), strict=True)
        known = {
            one: False if numeric else outcomes[row]
            for one, row, numeric in rows
            if self._numbers or not numeric
        }
        return known | dict.fromkeys(self._waiting())

    @property
    def label(self) -> str:
        return self.group.agent_model or ""

    def with_verdicts(self) -> tuple[list[Pairing], NDArray[np.bool_], NDArray[np.bool_]]:
        rows = self._rows[~self.numeric]
        final, passed = self.evidence.final_and_passed()
        marks = zip(self.pairings, self.numeric.tolist(), strict=True)
        return [one for one, numeric in marks if not numeric], final[rows], passed[rows]

    @property
    def is_sharded(self) -> bool:
        return bool(self._keys and self._keys[0].shard)

    @cached_property
    def _planned(self) -> int | None:
        planned = self.run.denominators().declared(self.group)
        return planned if planned is None or self._numbers else planned - self.evidence.numeric

    @cached_property
    def exceeded(self) -> bool:
        return self._planned is not None and len(self.outcomes) > self._planned

    @property
    def declared(self) -> int | None:
        return None if self.exceeded else self._planned

    def on_numbers(self) -> Contestant:
        if not self.evidence.numeric:
            return self
        return Contestant(self.run, self.group, fixed=self._fixed, numbers=True)

    @property
    def has_verdicts(self) -> bool:
        group = self.run.groups.get(self.group, GroupState())
        return group.as_ruled(self.run.rules.verdicts).has_verdicts

    @property
    def named_metrics(self) -> set[str]:
        return {NAMED + name for name in self.run.groups.get(self.group, GroupState()).named}

    @property
    def known(self) -> int:
        return sum(outcome is not None for outcome in self.outcomes.values())

    @property
    def passed(self) -> int:
        return sum(outcome is True for outcome in self.outcomes.values())

    @property
    def all_named(self) -> bool:
        """Whether `outcomes` lists every trial that will ever count."""
        return self.over or self.declared == len(self.outcomes)

    @property
    def unnamed(self) -> int:
        """Planned tasks that are not in `outcomes`: unknown, also after the end (inference 3)."""
        if self.declared is not None:
            return -(-(self.declared - len(self.outcomes)) // (self.run.plan.attempts or 1))
        return max(0, (self.run.plan.task_count or 0) - len({task_id for _, _, task_id in self.tasks}))

    @cached_property
    def over(self) -> bool:
        """Whether nothing more is awaited: of a file, of a run that has finished, of a plan that is in."""
        finished = self._fixed or self.run.plan.finished is not None
        return finished or (self.declared is not None and self.declared == self.known)

    def outcome(self, pairing: Pairing) -> Outcome:
        """The outcome of a trial in its pair; None: not final, without a number yet, or not there."""
        return None if pairing in self.unnumbered else self.outcomes.get(pairing)

    @cached_property
    def tasks(self) -> dict[Task, list[Pairing]]:
        return grouped((pairing.task, pairing) for pairing in self.outcomes)

    @cached_property
    def provenance(self) -> dict[Task, dict[str, str]]:
        """What the trials at each task say that they were made with (R36)."""
        said = (((key.tier, key.subtest, key.task_id), of) for key, of in self._lineup.provenance())
        return {task: side_by_side(every) for task, every in grouped(said).items()}

    def made(self, tasks: Iterable[Task]) -> Made:
        said = {name: self.run.plan.get(name) for name in ("harness", "provenance", "varies")}
        return Made.of(said, {task_key(*task): self.provenance.get(task, {}) for task in tasks})

    def attempts(self, task: Task) -> Attempts:
        outcomes = [self.outcomes[pairing] for pairing in self.tasks.get(task, [])]
        unknown = outcomes.count(None)
        return Attempts(len(outcomes) - unknown, outcomes.count(True), unknown)

    def reach(self) -> Ends | None:
        """The final pass rates that are still possible (inference 4); None without a plan before the end."""
        planned = self.declared or (len(self.outcomes) if self.over else 0)
        if not planned:
            return None
        failed = self.known - self.passed
        return Ends(Fraction(self.passed, planned), Fraction(planned - failed, planned))

    def values(self, metric: str) -> dict[Task, list[float]] | None:
        """A metric's values by task, of the trials that have it; None where one is infinite."""
        values, stored = self._lineup.values(metric)[self._rows], self._lineup.stored[self._rows]
        known = stored & ~np.isnan(values)
        pairings = (one for one, is_known in zip(self.pairings, known.tolist(), strict=True) if is_known)
        by_task = grouped(zip((one.task for one in pairings), values[known].tolist(), strict=True))
        return by_task if np.isfinite(values[known]).all() else None

    def mean_cost(self) -> float | None:
        return self.evidence.means("cost_usd").mean()

    @property
    def began(self) -> int:
        """Start of its run, microseconds since 1970; NO_TIME: the plan names none."""
        return microseconds(self.run.plan.get("started_at"))

    @property
    def first_position(self) -> int:
        """The smallest position of its starts; -1: there is no position."""
        return min(self._lineup.positions().values(), default=-1)

    @cached_property
    def placed(self) -> list[tuple[Pairing, int]] | None:
        """Its trials and their positions, as far as they have started; None: one has no position."""
        positions, rows = self._lineup.positions(), self._rows.tolist()
        if not rows or any(row not in positions for row in rows):
            return None
        return [(one, positions[row]) for one, row in zip(self.pairings, rows, strict=True)]

    def order_missing(self) -> FinalMissing | None:
        if self.run.denominators().undeclared(self.group):
            return FinalMissing.PLAN_UNDECLARED_TIERS
        return conclusion(self.evidence, self._planned, self.run.queue).missing

    def ordered(
        self, trials: Collection[Pairing], planned: int, declared: int
    ) -> list[Pairing | None] | None:
        """Some of the trials in order, or None without an order; a None among them may be any trial.

        There are `planned` of them in the end, and the plan itself has `declared`.
        """
        queue, others = self.run.queue, set[int]()
        if queue.has_grown or len(trials) > planned:
            return None
        if queue.places is None:
            if self.placed is None or not self.unnumbered.isdisjoint(trials):
                return None
            placed = [at for at in self.placed if at[0] in trials]
            others = self._lineup.others().union(place for one, place in self.placed if one not in trials)
        else:
            shard = "any" if self.is_sharded else ""
            slots = ((t, SlotKey(shard, t.task_id, t.attempt, "", "", t.tier, t.subtest)) for t in trials)
            placed = [(one, place) for one, slot in slots if (place := queue.place(slot)) is not None]
            if len(placed) < len(trials) or queue.places < declared:
                return None
        return by_place(self.run.run_id, placed, planned, others)

    def _waiting(self) -> Iterator[Pairing]:
        if self._planned is None:
            return
        plan, attempts = self.run.plan, self.run.plan.attempts or 1
        has_subtests = bool(plan.get("subtests")) or any(one.subtest is not None for one in self.pairings)
        named, seen = set(self.pairings), Counter(one.task for one in self.pairings)
        names = [] if has_subtests or not isinstance(plan.get("tasks"), list) else plan.get("tasks")
        planned = [(tier, None, name) for tier in plan.get("tiers") or [None] for name in names]
        for tier, subtest, name in dict.fromkeys((*planned, *seen)):
            every = (Pairing(name, number, tier, subtest) for number in range(1, attempts + 1))
            free = (one for one in every if one not in named)
            yield from islice(free, max(0, attempts - seen[tier, subtest, name]))


class Unmatched(StrEnum):
    """The first reason why two sides are compared at the end only."""

    NOTHING_IN_COMMON = "nothing_in_common"
    PLAN_EXCEEDED = "plan_exceeded"
    TASKS_UNNAMED = "tasks_unnamed"


class Matched:
    """The two sides, trial by trial and task by task; the order of events cannot matter.

    `pairs` are the common trials of which something is known. `ordered` has them in the order of the side
    that began later, and None says that this side has no order. `planned` counts the pairs at the end, with
    trials that have no name yet and may be common. Only one side plans the `unpaired` trials.

    Tasks in `left_out` have no pairs: their trials were made in different ways (R36). `only_ours` and
    `only_theirs` stay empty while that is open. `unmatched` says why there is no answer before the end.
    """

    def __init__(
        self, ours: Contestant, theirs: Contestant, left_out: Collection[Task] = frozenset()
    ) -> None:
        self._ours, self._theirs, self._same_run = ours, theirs, ours.run is theirs.run
        self._left_out = left_out
        self._shared = self._same_run and ours.declared is not None and theirs.declared is not None
        self.over = ours.over and theirs.over
        either = ours.tasks | theirs.tasks if self._shared else [t for t in ours.tasks if t in theirs.tasks]
        common = [task for task in either if task not in left_out]
        both = [[set(side.tasks.get(task, [])) for side in (ours, theirs)] for task in common]
        trials = {one for mine, other in both for one in (mine | other if self._shared else mine & other)}
        unseen = 0 if self._shared else self._unseen(common)
        self.unmatched = self._reason(common, len(trials), unseen)
        self._attempts = max(side.run.plan.attempts or 1 for side in (ours, theirs))
        self.planned = len(trials) + unseen * self._attempts
        self.tasks = {task: self._task(task) for task in common}
        self.planned_tasks = len(common) + unseen
        self.unpaired = 0 if self._shared else sum(len(mine ^ other) for mine, other in both)
        if self._shared:
            self.planned = max(len(trials), (ours.declared or 0) - len(left_out) * self._attempts)
            self.planned_tasks = max(len(common), self.planned // self._attempts)
        self.pairs = [] if self.unmatched else [self._pair(one) for one in trials]
        later, other = sides = ours, theirs
        if self._same_run or NO_TIME not in (ours.began, theirs.began):  # else we are the later one
            later, other = sorted(
                sides, key=lambda s: (s.began, s.run.run_id, s.first_position, s.label), reverse=True
            )
        self.evidence_missing = evidence_missing(later.run, ours.run.run_id, theirs.run.run_id)
        places, declared = None, None if self.unmatched or unseen or self.evidence_missing else later.declared
        if trials and declared is not None:
            places = later.ordered(trials, self.planned, declared)
        self.ordered = None if places is None else [self._pair(one) for one in places]
        self.kind = later.run.queue.kind
        missing = later.order_missing() or (other.order_missing() if self._same_run else None)
        self.order_missing = missing or (None if places else FinalMissing.ORDER_UNKNOWN_IN_PART)
        self.only_ours = [] if theirs.unnamed else self._others(ours)
        self.only_theirs = [] if ours.unnamed else self._others(theirs)

    @property
    def ended(self) -> bool:
        is_final = all(not side.unknown for pair in self.tasks.values() for side in pair)
        return self.over and bool(self.tasks) and is_final and len(self.tasks) == self.planned_tasks

    @property
    def in_order(self) -> list[Pair]:
        """The pairs in an order that says something about tasks like these; []: there is none."""
        return self.ordered or [] if self.order_missing in (None, FinalMissing.ORDER_CHOSEN) else []

    def every_task(self) -> list[PairedTask]:
        """All `planned_tasks`; unknown ones come last."""
        unseen = Attempts(0, 0, self._attempts)
        missing = self.planned_tasks - len(self.tasks)
        return [*self.tasks.values(), *[PairedTask(unseen, unseen)] * missing]

    def _unseen(self, common: list[Task]) -> int:
        """Common tasks at most, beyond those that are named on both sides.

        A planned task without a name may be any of the other side's, so the greatest number is taken.
        """
        ours, theirs = self._ours.unnamed, self._theirs.unnamed
        named = len(common) + len(self._left_out)
        at_theirs = min(ours, len(self._theirs.tasks) - named)
        at_ours = min(theirs, len(self._ours.tasks) - named)
        return at_theirs + at_ours + min(ours - at_theirs, theirs - at_ours)

    def _reason(self, common: list[Task], trials: int, unseen: int) -> Unmatched | None:
        sides = self._ours, self._theirs
        if self._shared:
            return None if trials <= (self._ours.declared or 0) else Unmatched.PLAN_EXCEEDED
        all_named = all(side.all_named for side in sides)
        if not common and not unseen and all_named:
            return Unmatched.NOTHING_IN_COMMON
        if any(side.exceeded and not side.over for side in sides):
            return Unmatched.PLAN_EXCEEDED
        return None if all_named else Unmatched.TASKS_UNNAMED

    def _task(self, task: Task) -> PairedTask:
        sides = PairedTask(self._ours.attempts(task), self._theirs.attempts(task))
        if not self._shared:
            return sides
        planned = max(self._ours.run.plan.attempts or 1, *(side.planned for side in sides))
        return PairedTask(*(side._replace(unknown=planned - side.known) for side in sides))

    def _pair(self, pairing: Pairing | None) -> Pair:
        """The outcomes of a pair; of None, which may be any pair, nothing is known."""
        if pairing is None:
            return Pair(None, None)
        return Pair(self._ours.outcome(pairing), self._theirs.outcome(pairing))

    def _others(self, side: Contestant) -> list[Task]:
        if self._same_run and not side.over:
            return []
        return sorted((t for t in side.tasks if t not in self.tasks and t not in self._left_out), key=str)


def worse_and_behind(ordered: Sequence[Pair], every: Sequence[Pair], planned: int) -> tuple[float, bool]:
    """The evidence that the first side is worse, and whether it may be called so; see `is_behind`."""
    worse = max(e_value(*at_worst(every, planned)), evidence_worse(ordered, planned))
    return worse, is_behind(ordered, every, planned)
