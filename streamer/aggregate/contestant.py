"""One side of a gate: the trials of one agent of a run, planned ones too, as they stand (inference 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from math import isfinite

import numpy as np

from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import GroupId, microseconds
from streamer.aggregate.plan import Denominators
from streamer.aggregate.run_state import RunState
from streamer.aggregate.tasks import Pairing, Task, by_place, pairings_of
from streamer.aggregate.uncertainty import Evidence, conclusion
from streamer.inference.comparisons import Ends
from streamer.inference.conclusion import FinalMissing
from streamer.inference.finite_population import Outcome
from streamer.inference.paired import Attempts


class Contestant:
    """The trials of one agent:model, named as pairs are.

    Args:
        run: its run; counted up to date here.
        group: the agent:model, over all tiers.
        fixed: nothing more comes, as from a file.

    Attributes:
        declared: planned trials; None: the plan does not say, or there are more.
        exceeded: there are more trials than planned.
        outcomes: of every trial that is in, has started, or is planned by name. Where the plan only counts
            its tasks, the attempts at those that were seen are named.
    """

    def __init__(self, run: RunState, group: GroupId, *, fixed: bool = False) -> None:
        run.count()
        self.run, self.group, self._fixed = run, group, fixed
        self._lineup = run.scores.roster.lineup(group)
        self._rows = np.flatnonzero(self._lineup.states).tolist()
        keys = self._lineup.keys()
        self._keys = [keys[row] for row in self._rows]
        plan = Denominators(run.plan, run.groups, run.scores.is_baseline)
        self._undeclared = plan.undeclared(group)
        self._planned = plan.declared(group)
        seen = dict(zip(pairings_of(self._keys), self._rows, strict=True))
        outcomes = self.evidence.outcomes()
        self._row_of = seen
        self.outcomes: dict[Pairing, Outcome] = {one: outcomes[row] for one, row in seen.items()}
        self.outcomes.update(dict.fromkeys(self._waiting()))
        self.exceeded = self._planned is not None and len(self.outcomes) > self._planned
        self.declared = None if self.exceeded else self._planned

    @cached_property
    def evidence(self) -> Evidence:
        """What its rows say."""
        group = self.run.groups.get(self.group, GroupState())
        return Evidence(group, self._lineup, finished=self.run.plan.finished is not None)

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

    @cached_property
    def tasks(self) -> dict[Task, list[Pairing]]:
        """Its trials by task."""
        found: dict[Task, list[Pairing]] = {}
        for pairing in self.outcomes:
            found.setdefault(pairing.task, []).append(pairing)
        return found

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
        held, found = self._lineup.values(metric), dict[Task, list[float]]()
        for pairing, row in self._row_of.items():
            value = float(held[row])
            if value == value and self._lineup.held[row]:
                found.setdefault(pairing.task, []).append(value)
        return found if all(map(isfinite, (v for values in found.values() for v in values))) else None

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

    def ordered(self, wanted: frozenset[Pairing], planned: int) -> list[Pairing | None] | None:
        """Some of its trials in order: None stands for a trial that may be any; None at all: no order.

        Args:
            wanted: the trials.
            planned: how many there will be, at least as many as wanted.
        """
        queue = self.run.queue
        if queue.has_grown or self.declared is None or len(wanted) > planned:
            return None
        if queue.places is None:
            return self._as_started(wanted, planned)
        shard = self._keys[0].shard if self._keys else ""
        known = [(one, place) for one in wanted if (place := queue.place(one.slot(shard))) is not None]
        complete = len(known) == len(wanted) and queue.places >= self.declared
        return by_place(self.run.run_id, known, planned, set()) if complete else None

    def _as_started(self, wanted: frozenset[Pairing], planned: int) -> list[Pairing | None] | None:
        """In the order in which its trials started, as far as they have."""
        positions = self._lineup.positions()
        if not self._rows or any(row not in positions for row in self._rows):
            return None
        known = [(one, positions[row]) for one, row in self._row_of.items() if one in wanted]
        others = {positions[row] for one, row in self._row_of.items() if one not in wanted}
        return by_place(self.run.run_id, known, planned, others | self._lineup.others())

    def _waiting(self) -> Iterator[Pairing]:
        """The planned trials without news, at the tasks that the plan names or that were seen."""
        if self._planned is None:
            return
        attempts = self.run.plan.attempts or 1
        seen = Counter(one.task for one in self._row_of)
        by_shard = any(one.repeat for one in self._row_of) and all(one.attempt == 1 for one in self._row_of)
        for task in dict.fromkeys((*self._named_tasks(), *seen)):
            free = (one for one in _names(task, attempts, by_shard) if one not in self._row_of)
            yield from (one for _, one in zip(range(attempts - seen[task]), free, strict=False))

    def _named_tasks(self) -> list[Task]:
        """The tasks that the plan names; [] where it counts them, or has subtests."""
        plan, names = self.run.plan, self.run.plan.get("tasks")
        tiers: list[str | None] = plan.get("tiers") or [None]
        has_subtests = bool(plan.get("subtests")) or any(one.subtest is not None for one in self._row_of)
        if has_subtests or not isinstance(names, list):
            return []
        return [(tier, None, name) for tier in tiers for name in names]


def _names(task: Task, attempts: int, by_shard: bool) -> list[Pairing]:
    """How the attempts at a task are named: by number, or by the shards that tell them apart."""
    tier, subtest, name = task
    if by_shard:
        return [Pairing(name, 1, tier, subtest, repeat) for repeat in range(attempts)]
    return [Pairing(name, number, tier, subtest) for number in range(1, attempts + 1)]
