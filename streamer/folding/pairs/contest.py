"""Two agents matched trial by trial, in order (inference 7).

A pair is the same attempt at the same task, tier and subtest, planned by both sides. The pairs stand in the
order of the side that began later. Without an order they are compared at the end only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

from streamer.folding.pairs import Contestant, evidence_missing
from streamer.schemas.base import NO_TIME
from streamer.statistics.final import FinalMissing
from streamer.statistics.pairs import (
    Attempts,
    Pair,
    PairedTask,
    Pairing,
    Task,
    at_worst,
    e_value,
    evidence_worse,
    is_behind,
)


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
