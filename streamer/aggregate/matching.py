"""Two agents, of one run or of two, matched trial by trial in order: what a gate judges (inference 7).

A pair is the same attempt at the same task. Both sides must plan it, with equal attempts. The pairs stand in
the order of the side that began later. Where that cannot be had, they are compared at the end only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from streamer.aggregate.contestant import Contestant
from streamer.aggregate.keys import NO_TIME
from streamer.aggregate.tasks import Pairing, Task
from streamer.inference.comparisons import Pair
from streamer.inference.conclusion import FinalMissing
from streamer.inference.order import OrderKind
from streamer.inference.paired import Attempts, PairedTask


class Unmatched(StrEnum):
    """Why two sides are compared at the end only: the first reason here that applies."""

    NOTHING_IN_COMMON = "nothing_in_common"
    """No task is planned on both sides."""
    PLAN_EXCEEDED = "plan_exceeded"
    """A side has more trials than planned."""
    TASKS_UNNAMED = "tasks_unnamed"
    """A side that goes on has no plan that names its tasks."""
    ATTEMPTS_DIFFER = "attempts_differ"
    """The attempts at some task are not the same on both sides."""


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
        ordered_tasks: as `ordered`, by each task's first pair.
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
    ordered_tasks: list[PairedTask] | None
    only_ours: list[Task]
    only_theirs: list[Task]
    unmatched: Unmatched | None
    over: bool

    @property
    def ended(self) -> bool:
        """Whether every trial of the common tasks has its final value, and nothing more is awaited."""
        known = all(not side.unknown for pair in self.tasks.values() for side in pair)
        return self.over and bool(self.tasks) and known and len(self.tasks) == self.planned_tasks

    @property
    def attempts_differ(self) -> bool:
        """Whether one side has more attempts at some task. Equal agents then do not win it equally often."""
        return any(ours.planned != theirs.planned for ours, theirs in self.tasks.values())

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
    wanted = frozenset(one for task in common for side in (ours, theirs) for one in side.tasks.get(task, []))
    attempts = max(side.run.plan.attempts or 1 for side in (ours, theirs))
    unseen = 0 if shared else _unseen(ours, theirs, common)
    unmatched = _unmatched(ours, theirs, common, wanted, unseen, shared=shared)
    planned = max(len(wanted), ours.declared or 0) if shared else len(wanted) + unseen * attempts
    tasks = {task: PairedTask(*_attempts(task, ours, theirs, shared=shared)) for task in common}
    later, other = _by_start(ours, theirs)
    places = None if unmatched or unseen or not wanted else later.ordered(wanted, planned)
    sides = (later, other) if same_run else (later,)
    missing = next((why for side in sides if (why := side.order_missing())), None)
    return Matched(
        pairs=[] if unmatched else [_pair(one, ours, theirs) for one in wanted],
        planned=planned,
        ordered=None if places is None else [_pair(one, ours, theirs) for one in places],
        kind=later.run.queue.kind,
        order_missing=missing or (None if places else FinalMissing.ORDER_UNKNOWN_IN_PART),
        tasks=tasks,
        planned_tasks=max(len(tasks), planned // attempts) if shared else len(tasks) + unseen,
        attempts=attempts,
        ordered_tasks=None if places is None else _first_of_each(places, tasks),
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
    wanted: frozenset[Pairing],
    unseen: int,
    *,
    shared: bool,
) -> Unmatched | None:
    sides, both = (ours, theirs), [task for task in common if task in ours.tasks and task in theirs.tasks]
    differ = any(set(ours.tasks[task]) != set(theirs.tasks[task]) for task in both)
    if shared and len(wanted) <= (ours.declared or 0):
        return None
    if shared:
        return Unmatched.ATTEMPTS_DIFFER if differ else Unmatched.PLAN_EXCEEDED
    if not common and not unseen and ours.all_named and theirs.all_named:
        return Unmatched.NOTHING_IN_COMMON
    if any(side.exceeded and not side.over for side in sides):
        return Unmatched.PLAN_EXCEEDED
    if not all(side.all_named for side in sides):
        return Unmatched.TASKS_UNNAMED
    return Unmatched.ATTEMPTS_DIFFER if differ else None


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
    found = ours.attempts(task), theirs.attempts(task)
    if not shared:
        return found
    planned = max(ours.run.plan.attempts or 1, *(side.planned for side in found))
    one, other = (side._replace(unknown=planned - side.known) for side in found)
    return one, other


def _pair(pairing: Pairing | None, ours: Contestant, theirs: Contestant) -> Pair:
    """The outcomes of a pair; of None, which may be any pair, nothing is known."""
    if pairing is None:
        return Pair(None, None)
    return Pair(ours.outcomes.get(pairing), theirs.outcomes.get(pairing))


def _first_of_each(places: Iterable[Pairing | None], tasks: dict[Task, PairedTask]) -> list[PairedTask]:
    """The tasks in the order of their first pairs; an unknown pair may be of a task of its own."""
    found: dict[Task | int, PairedTask] = {}
    for place, one in enumerate(places):
        if one is None:
            found[place] = PairedTask(Attempts(0, 0, 1), Attempts(0, 0, 1))
        else:
            found.setdefault(one.task, tasks[one.task])
    return list(found.values())


def _others(side: Contestant, common: list[Task], *, same_run: bool) -> list[Task]:
    """Tasks that only this side has. Agents of one run may be at different tasks for now."""
    if same_run and not side.over:
        return []
    shared = set(common)
    return sorted((task for task in side.tasks if task not in shared), key=str)
