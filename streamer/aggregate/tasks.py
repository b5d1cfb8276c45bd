"""The trials of a run's agents, task by task: what comparisons are worked out from (inference 7).

Two agents' trials are a pair if they are the same attempt at the same task, of the same tier and subtest.
Where a harness gives repeats a shard each instead of numbers, they are paired in the order of these names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import GroupId, SlotKey
from streamer.aggregate.plan import Denominators
from streamer.aggregate.run_state import RunState
from streamer.aggregate.uncertainty import Evidence
from streamer.inference.order import with_gaps
from streamer.inference.shuffle import digest
from streamer.schemas.canonical import canonical_json
from streamer.schemas.identity import task_key

Task = tuple[str | None, str | None, str]
"""Tier, subtest and task id."""

_NOTHING_COUNTED = GroupState()
"""Outcomes are read from rows alone."""


class Pairing(NamedTuple):
    """What the trials of a pair have in common; `repeat` counts trials that only their shards tell apart."""

    task_id: str
    attempt: int
    tier: str | None
    subtest: str | None
    repeat: int = 0

    @property
    def task(self) -> Task:
        return (self.tier, self.subtest, self.task_id)

    def slot(self, shard: str) -> SlotKey:
        """A slot of the pair, for the queue, which asks for the task, the attempt and any shard."""
        return SlotKey(shard, self.task_id, self.attempt, "", "", self.tier, self.subtest)


class Trials(NamedTuple):
    """Trials of all agents: a row for each agent, a column for each pair or for each task.

    Attributes:
        planned: trials that are planned, started or in; 0 where nothing is known and nothing is planned.
        low: those that passed.
        high: those that may pass in the end: the passed ones and the unknown ones.
    """

    planned: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]


class TaskTable:
    """The trials of some agents of a run, as they stand.

    Args:
        run: the run.
        agents: agent:models of it, at least one.

    Attributes:
        planned: pairs of every two agents; None: not planned, so only trials that were seen count.
        exceeded: more pairs were seen than planned, so the plan counts for nothing.
        pairings: columns of the pairs.
        tasks: columns of the tasks.
        positions: for each agent the pairing and the position of its trials; None: a trial has no position.
        others: for each agent the positions of all other trials in the run's one queue.
    """

    def __init__(self, run: RunState, agents: Sequence[GroupId]) -> None:
        self._run = run
        self._labels = [group.agent_model or "" for group in agents]
        self._columns: dict[Pairing, int] = {}
        self._sharded: set[Pairing] = set()
        self.positions: list[list[tuple[Pairing, int]] | None] = []
        self.others: list[set[int]] = []
        rows = [self._row(group) for group in agents]
        self.pairings = list(self._columns)
        declared = Denominators(run.plan, run.groups, run.scores.is_baseline).declared(agents[0])
        self.exceeded = declared is not None and len(self.pairings) > declared
        self._attempts = None if self.exceeded or not declared else run.plan.attempts
        self.planned = declared if self._attempts else None
        self.tasks = list(dict.fromkeys(pairing.task for pairing in self.pairings))
        numbers = {task: number for number, task in enumerate(self.tasks)}
        self._task_of = np.array([numbers[one.task] for one in self.pairings], np.intp)
        shape = (len(agents), len(self.pairings))
        self._present, self._known, self._passed = (np.zeros(shape, np.bool_) for _ in range(3))
        for number, (columns, known, passed) in enumerate(rows):
            self._present[number, columns] = True
            self._known[number, columns] = known
            self._passed[number, columns] = passed

    def by_pair(self) -> Trials:
        """One trial of each agent in each column."""
        planned = self._present if self._attempts is None else np.ones_like(self._present)
        return _trials(planned.astype(np.int32), self._passed, self._known)

    def by_task(self) -> Trials:
        """All attempts at a task in one column."""
        known, passed, present = map(self._summed, (self._known, self._passed, self._present))
        planned = present if self._attempts is None else np.maximum(present, self._attempts)
        return Trials(planned, passed, passed + planned - known)

    def in_queue(self, planned: int) -> list[int] | None:
        """The pairs' columns in the order of the plan's queue, -1 for a pair of which nothing is known.

        None: the plan has no such order.
        """
        queue = self._run.queue
        if queue.places is None or queue.places < planned or queue.has_grown:
            return None
        slots = ((one, one.slot("any" if one in self._sharded else "")) for one in self.pairings)
        known = [(one, place) for one, slot in slots if (place := queue.place(slot)) is not None]
        return self._ordered(known, planned, set()) if len(known) == len(self.pairings) else None

    def as_started(self, agent: int, planned: int) -> list[int] | None:
        """The same in the order in which an agent's trials started."""
        positions = self.positions[agent]
        if positions is None or self._run.queue.has_grown:
            return None
        return self._ordered(positions, planned, self.others[agent])

    def fields(self) -> dict[str, str]:
        """Task to the JSON of {agent:model: [known, passed, unknown]}, without agents that have no trial."""
        planned, low, high = self.by_task()
        cells = np.stack([planned - high + low, low, high - low], axis=2)
        found: list[dict[str, list[int]]] = [{} for _ in self.tasks]
        for label, row, present in zip(self._labels, cells, self._summed(self._present), strict=True):
            tasks = np.flatnonzero(present)
            for task, cell in zip(tasks.tolist(), row[tasks].tolist(), strict=True):
                found[task][label] = cell
        return {
            task_key(*task): canonical_json(held).decode()
            for task, held in zip(self.tasks, found, strict=True)
        }

    def _row(self, group: GroupId) -> tuple[list[int], NDArray[np.bool_], NDArray[np.bool_]]:
        """The columns of an agent's trials of which anything is known; which are final, and which passed."""
        lineup = self._run.scores.roster.lineup(group)
        finished = self._run.plan.finished is not None
        final, passed = Evidence(_NOTHING_COUNTED, lineup, finished=finished).final_and_passed()
        seen = np.flatnonzero(lineup.states)
        rows = seen.tolist()
        keys = lineup.keys()
        positions = lineup.positions() if self._run.queue.places is None else {}
        pairings = pairings_of([keys[row] for row in rows])
        columns = [self._columns.setdefault(pairing, len(self._columns)) for pairing in pairings]
        self._sharded.update(one for one, row in zip(pairings, rows, strict=True) if keys[row].shard)
        placed = [(one, positions[row]) for one, row in zip(pairings, rows, strict=True) if row in positions]
        self.positions.append(placed if len(placed) == len(rows) else None)
        self.others.append(lineup.others() if placed else set())
        return columns, final[seen], passed[seen]

    def _summed(self, cells: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The cells of each task's pairs together."""
        found = np.zeros((len(cells), len(self.tasks)), np.int32)
        for number, row in enumerate(cells):
            found[number] = np.bincount(self._task_of[row], minlength=len(self.tasks))
        return found

    def _ordered(self, known: list[tuple[Pairing, int]], planned: int, others: set[int]) -> list[int] | None:
        if len(known) > planned:
            return None
        ordered = by_place(self._run.run_id, known, planned, others)
        return [-1 if one is None else self._columns[one] for one in ordered]


def pairings_of(keys: Sequence[SlotKey]) -> list[Pairing]:
    """The pairing of each trial of one agent."""
    found = [Pairing(key.task_id, key.attempt, key.tier, key.subtest) for key in keys]
    times = Counter(found)
    if len(times) == len(found):
        return found
    repeats: Counter[Pairing] = Counter()
    for row in sorted(range(len(keys)), key=lambda row: keys[row].shard):
        pairing = found[row]
        found[row] = pairing._replace(repeat=repeats[pairing])
        repeats[pairing] += 1
    return found


def by_place(
    run_id: str, known: Iterable[tuple[Pairing, int]], planned: int, others: set[int]
) -> list[Pairing | None]:
    """Trials in order, None for one that may be any; ties go by a hash, never by the name of a task.

    Args:
        run_id: the run, for ties.
        known: trials and their places.
        planned: how many trials there will be.
        others: places of trials that are not asked for.
    """
    ordered = sorted(known, key=lambda at: (at[1], digest(run_id, str(at[0]))))
    gaps = with_gaps([place for _, place in ordered], planned, others)
    return [None if index is None else ordered[index][0] for index in gaps]


def _trials(planned: NDArray[np.int32], passed: NDArray[np.bool_], known: NDArray[np.bool_]) -> Trials:
    low = passed.astype(np.int32)
    return Trials(planned, low, low + planned - known.astype(np.int32))
