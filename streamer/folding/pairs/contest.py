"""Two agents, of one run or of two, matched trial by trial in order: what a gate judges (inference 7).

A pair is the same attempt at the same task, and both sides must plan it. The pairs stand in the order of the
side that began later. Where that cannot be had, they are compared at the end only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import isfinite

import numpy as np

from streamer.folding.groups import GroupState
from streamer.folding.pairs import Pairing, Task, by_place, orders_pairs, pairings_of
from streamer.folding.plan import Denominators
from streamer.folding.state import RunState
from streamer.folding.uncertainty import NUMERIC, Evidence, conclusion
from streamer.schemas.base import NO_TIME, microseconds
from streamer.schemas.events import NAMED
from streamer.schemas.wire import GroupId
from streamer.statistics.final import FinalMissing, OrderKind, Outcome
from streamer.statistics.pairs import Attempts, Ends, Pair, PairedTask

# -----------------------------------------------------------------------------
# One side of a gate: the trials of one agent of a run, planned ones too, as they stand (inference 7).


class Contestant:
    """The trials of one agent:model, named as pairs are.

    Args:
        run: its run; counted up to date here.
        group: the agent:model, over all tiers.
        fixed: nothing more comes, as from a file.
        numbers: a metric is judged, so trials that have numbers alone count as known (R31).

    Attributes:
        declared: planned trials; None: the plan does not say, or there are more.
        exceeded: there are more trials than planned.
        outcomes: of every trial that is in, has started, or is planned by name. Where the plan only counts
            its tasks, the attempts at those that were seen are named.
    """

    def __init__(self, run: RunState, group: GroupId, *, fixed: bool = False, numbers: bool = False) -> None:
        run.count()
        self.run, self.group, self._fixed = run, group, fixed
        self._lineup = run.scores.roster.lineup(group)
        self._rows = np.flatnonzero(self._lineup.states).tolist()
        keys = self._lineup.keys()
        self._keys = [keys[row] for row in self._rows]
        plan = Denominators(run.plan, run.groups, run.scores.is_baseline)
        self._undeclared = plan.undeclared(group)
        self._planned = plan.declared(group)
        pairings, self._unnumbered = pairings_of(self._keys, run.plan.attempts)
        seen = dict(zip(pairings, self._rows, strict=True))
        outcomes = self.evidence.outcomes()
        numeric = self._lineup.states & NUMERIC != 0
        if self._planned is not None and not numbers:
            self._planned -= self.evidence.numeric
        self._row_of = seen
        self.outcomes: dict[Pairing, Outcome] = {
            one: False if numeric[row] else outcomes[row]
            for one, row in seen.items()
            if numbers or not numeric[row]
        }
        self.outcomes.update(dict.fromkeys(self._waiting()))
        self.exceeded = self._planned is not None and len(self.outcomes) > self._planned
        self.declared = None if self.exceeded else self._planned

    @cached_property
    def evidence(self) -> Evidence:
        """What its rows say."""
        return self.run.evidence(self.group)

    def on_numbers(self) -> Contestant:
        """The same side where a metric other than the pass rate is judged."""
        if not self.evidence.numeric:
            return self
        return Contestant(self.run, self.group, fixed=self._fixed, numbers=True)

    @property
    def has_verdicts(self) -> bool:
        """Whether there is a pass rate, or may be (R31)."""
        group = self.run.groups.get(self.group, GroupState())
        return group.as_ruled(self.run.rules.verdicts).has_verdicts

    @property
    def named_metrics(self) -> set[str]:
        """The named metrics that some trial has, as `metrics/NAME`."""
        return {NAMED + name for name in self.run.groups.get(self.group, GroupState()).named}

    @property
    def known(self) -> int:
        """Trials with a final value."""
        return sum(outcome is not None for outcome in self.outcomes.values())

    @property
    def passed(self) -> int:
        """Known trials that passed."""
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
        """Outcome of a trial in its pair; None: it has no final value or no number yet, or is not there."""
        return None if pairing in self._unnumbered else self.outcomes.get(pairing)

    @cached_property
    def tasks(self) -> dict[Task, list[Pairing]]:
        tasks: dict[Task, list[Pairing]] = {}
        for pairing in self.outcomes:
            tasks.setdefault(pairing.task, []).append(pairing)
        return tasks

    def attempts(self, task: Task) -> Attempts:
        """Its trials at a task, counted."""
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
        column, by_task = self._lineup.values(metric), dict[Task, list[float]]()
        for pairing, row in self._row_of.items():
            value = float(column[row])
            if value == value and self._lineup.stored[row]:
                by_task.setdefault(pairing.task, []).append(value)
        return by_task if all(map(isfinite, (v for values in by_task.values() for v in values))) else None

    def mean_cost(self) -> float | None:
        """Mean known cost of its trials in USD; None: no trial has one."""
        return self.evidence.means("cost_usd").mean()

    @property
    def began(self) -> int:
        """Start of its run, microseconds since 1970; NO_TIME: the plan names none."""
        return microseconds(self.run.plan.get("started_at"))

    @property
    def first_position(self) -> int:
        """The smallest position of its starts; -1: there is no position."""
        return min(self._lineup.positions().values(), default=-1)

    def order_missing(self) -> FinalMissing | None:
        """Why its order allows no interval; None: it does."""
        if self._undeclared:
            return FinalMissing.PLAN_UNDECLARED_TIERS
        return conclusion(self.evidence, self._planned, self.run.queue).missing

    def ordered(self, trials: frozenset[Pairing], planned: int) -> list[Pairing | None] | None:
        """Some of its trials in order: None stands for a trial that may be any; None at all: no order.

        Args:
            trials: the trials.
            planned: how many there will be, at least as many as wanted.
        """
        queue = self.run.queue
        if queue.has_grown or self.declared is None or len(trials) > planned:
            return None
        if queue.places is None:
            return self._as_started(trials, planned)
        shard = self._keys[0].shard if self._keys else ""
        placed = [(one, place) for one in trials if (place := queue.place(one.slot(shard))) is not None]
        complete = len(placed) == len(trials) and queue.places >= self.declared
        return by_place(self.run.run_id, placed, planned, set()) if complete else None

    def _as_started(self, trials: frozenset[Pairing], planned: int) -> list[Pairing | None] | None:
        """In the order in which its trials started, as far as they have."""
        positions = self._lineup.positions()
        if not self._rows or trials & self._unnumbered or any(row not in positions for row in self._rows):
            return None
        placed = [(one, positions[row]) for one, row in self._row_of.items() if one in trials]
        others = {positions[row] for one, row in self._row_of.items() if one not in trials}
        return by_place(self.run.run_id, placed, planned, others | self._lineup.others())

    def _waiting(self) -> Iterator[Pairing]:
        """The planned trials without news, at the tasks that the plan names or that were seen."""
        if self._planned is None:
            return
        attempts = self.run.plan.attempts or 1
        seen = Counter(one.task for one in self._row_of)
        for tier, subtest, name in dict.fromkeys((*self._named_tasks(), *seen)):
            names = (Pairing(name, number, tier, subtest) for number in range(1, attempts + 1))
            free = (one for one in names if one not in self._row_of)
            yield from (
                one for _, one in zip(range(attempts - seen[tier, subtest, name]), free, strict=False)
            )

    def _named_tasks(self) -> list[Task]:
        """The tasks that the plan names; [] where it counts them, or has subtests."""
        plan, names = self.run.plan, self.run.plan.get("tasks")
        tiers: list[str | None] = plan.get("tiers") or [None]
        has_subtests = bool(plan.get("subtests")) or any(one.subtest is not None for one in self._row_of)
        if has_subtests or not isinstance(names, list):
            return []
        return [(tier, None, name) for tier in tiers for name in names]


# -----------------------------------------------------------------------------
# Two agents, of one run or of two, matched trial by trial in order: what a gate judges (inference 7).


class Unmatched(StrEnum):
    """Why two sides are compared at the end only: the first reason here that applies."""

    NOTHING_IN_COMMON = "nothing_in_common"
    """No task is planned on both sides."""
    PLAN_EXCEEDED = "plan_exceeded"
    """A side has more trials than planned."""
    TASKS_UNNAMED = "tasks_unnamed"
    """A side that goes on has no plan that names its tasks."""


@dataclass(frozen=True, slots=True)
class Matched:
    """Both sides, trial by trial and task by task.

    Attributes:
        pairs: the common ones, in any order; planned ones of which nothing is known may be missing.
        planned: how many there will be. Planned trials without a name count, as far as they may be common.
        ordered: pairs in the order of the side that began later; it may end early. None: no order.
        kind: where that order comes from.
        order_missing: why that order allows no interval; None: it does.
        tasks: the common ones.
        planned_tasks: how many there will be at most.
        attempts: planned trials of each side at a task of which nothing is known.
        unpaired: trials of the common tasks that the other side does not plan; they are in no pair.
        only_ours, only_theirs: tasks that the other side does not have, sorted; [] while that is open.
        unmatched: why there is nothing to say before the end; None: there is, and `pairs` are all.
        over: nothing more is awaited on either side.
    """

    pairs: list[Pair]
    planned: int
    ordered: list[Pair] | None
    kind: OrderKind
    order_missing: FinalMissing | None
    tasks: dict[Task, PairedTask]
    planned_tasks: int
    attempts: int
    unpaired: int
    only_ours: list[Task]
    only_theirs: list[Task]
    unmatched: Unmatched | None
    over: bool

    @property
    def ended(self) -> bool:
        """Whether every trial of the common tasks has its final value, and nothing more is awaited."""
        is_final = all(not side.unknown for pair in self.tasks.values() for side in pair)
        return self.over and bool(self.tasks) and is_final and len(self.tasks) == self.planned_tasks

    def every_task(self) -> list[PairedTask]:
        """All `planned_tasks`; unknown ones come last."""
        unseen = Attempts(0, 0, self.attempts)
        missing = self.planned_tasks - len(self.tasks)
        return [*self.tasks.values(), *[PairedTask(unseen, unseen)] * missing]


def match(ours: Contestant, theirs: Contestant) -> Matched:
    """Two sides as they stand; the order of events cannot matter."""
    same_run = ours.run is theirs.run
    shared = same_run and ours.declared is not None and theirs.declared is not None
    common = _common(ours, theirs, shared=shared)
    both = [[set(side.tasks.get(task, [])) for side in (ours, theirs)] for task in common]
    trials = frozenset(one for mine, other in both for one in (mine | other if shared else mine & other))
    attempts = max(side.run.plan.attempts or 1 for side in (ours, theirs))
    unseen = 0 if shared else _unseen(ours, theirs, common)
    unmatched = _unmatched(ours, theirs, common, trials, unseen, shared=shared)
    planned = max(len(trials), ours.declared or 0) if shared else len(trials) + unseen * attempts
    unpaired = 0 if shared else sum(len(mine ^ other) for mine, other in both)
    tasks = {task: PairedTask(*_attempts(task, ours, theirs, shared=shared)) for task in common}
    later, other = _by_start(ours, theirs)
    is_ordered = trials and orders_pairs(later.run, ours.run.run_id, theirs.run.run_id)
    places = later.ordered(trials, planned) if is_ordered and not (unmatched or unseen) else None
    sides = (later, other) if same_run else (later,)
    missing = next((why for side in sides if (why := side.order_missing())), None)
    return Matched(
        pairs=[] if unmatched else [_pair(one, ours, theirs) for one in trials],
        planned=planned,
        ordered=None if places is None else [_pair(one, ours, theirs) for one in places],
        kind=later.run.queue.kind,
        order_missing=missing or (None if places else FinalMissing.ORDER_UNKNOWN_IN_PART),
        tasks=tasks,
        planned_tasks=max(len(tasks), planned // attempts) if shared else len(tasks) + unseen,
        attempts=attempts,
        unpaired=unpaired,
        only_ours=[] if theirs.unnamed else _others(ours, common, same_run=same_run),
        only_theirs=[] if ours.unnamed else _others(theirs, common, same_run=same_run),
        unmatched=unmatched,
        over=ours.over and theirs.over,
    )


def _common(ours: Contestant, theirs: Contestant, *, shared: bool) -> list[Task]:
    """Tasks of both sides. Two agents of a run share its plan: what one of them has, the other will have."""
    if shared:
        return [*ours.tasks, *(task for task in theirs.tasks if task not in ours.tasks)]
    return [task for task in ours.tasks if task in theirs.tasks]


def _unseen(ours: Contestant, theirs: Contestant, common: list[Task]) -> int:
    """Common tasks at most, beyond those that are named on both sides.

    A planned task without a name may be one that only the other side names, or one that no side names. Of
    fewer such tasks the final difference is less open, so the most is assumed.
    """
    at_theirs = min(ours.unnamed, len(theirs.tasks) - len(common))
    at_ours = min(theirs.unnamed, len(ours.tasks) - len(common))
    return at_theirs + at_ours + min(ours.unnamed - at_theirs, theirs.unnamed - at_ours)


def _unmatched(
    ours: Contestant,
    theirs: Contestant,
    common: list[Task],
    trials: frozenset[Pairing],
    unseen: int,
    *,
    shared: bool,
) -> Unmatched | None:
    if shared:
        return None if len(trials) <= (ours.declared or 0) else Unmatched.PLAN_EXCEEDED
    if not common and not unseen and ours.all_named and theirs.all_named:
        return Unmatched.NOTHING_IN_COMMON
    if any(side.exceeded and not side.over for side in (ours, theirs)):
        return Unmatched.PLAN_EXCEEDED
    return None if ours.all_named and theirs.all_named else Unmatched.TASKS_UNNAMED


def _by_start(ours: Contestant, theirs: Contestant) -> tuple[Contestant, Contestant]:
    """The side that began later, then the other one; where a start is unknown, we are the later one."""
    if ours.run is not theirs.run and NO_TIME in (ours.began, theirs.began):
        return ours, theirs
    return (ours, theirs) if _start(ours) > _start(theirs) else (theirs, ours)


def _start(side: Contestant) -> tuple[int, str, int, str]:
    """When it began; a tie goes to the greater key."""
    return side.began, side.run.run_id, side.first_position, side.group.agent_model or ""


def _attempts(task: Task, ours: Contestant, theirs: Contestant, *, shared: bool) -> tuple[Attempts, Attempts]:
    """Both sides of a task. Of a shared plan each side plans as many attempts, known or not."""
    sides = ours.attempts(task), theirs.attempts(task)
    if not shared:
        return sides
    planned = max(ours.run.plan.attempts or 1, *(side.planned for side in sides))
    one, other = (side._replace(unknown=planned - side.known) for side in sides)
    return one, other


def _pair(pairing: Pairing | None, ours: Contestant, theirs: Contestant) -> Pair:
    """The outcomes of a pair; of None, which may be any pair, nothing is known."""
    if pairing is None:
        return Pair(None, None)
    return Pair(ours.outcome(pairing), theirs.outcome(pairing))


def _others(side: Contestant, common: list[Task], *, same_run: bool) -> list[Task]:
    """Tasks that only this side has. Agents of one run may be at different tasks for now."""
    if same_run and not side.over:
        return []
    shared = set(common)
    return sorted((task for task in side.tasks if task not in shared), key=str)
