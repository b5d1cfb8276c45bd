"""The trials of a run in rows, one for each slot: what its groups' uncertainty is worked out from.

Groups count totals; what may be concluded also needs to know which task a trial attempts, whether its
outcome is final, and where it stood in the queue. Rows are kept by agent, model and tier, so a group is
some of these lists.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.group import Owner
from streamer.aggregate.keys import RUN, GroupId, SlotKey, groups_of
from streamer.aggregate.slots import Slot
from streamer.schemas.details import NAMED
from streamer.score import Scored

MEANS = ("impl_rate", "cost_usd", "duration_seconds")
"""Metrics whose mean is on a board, and gets an error; the pass rate does besides."""

HELD, PASSED, RESOLVED, AWAITED, RETRYABLE, STARTED = (1 << bit for bit in range(6))
"""Bits of a row. A result stands, it succeeded (R20), it is resolved, a verdict is still awaited. The
infrastructure failed the trial, so it may run again. A start is known."""


class Rows:
    """Trials of one agent:model in one tier, column by column; a row is never moved or given to another slot.

    Attributes:
        keys: the slots.
        tasks: numbers of their tasks.
        states: bits of :data:`HELD` and its like.
        positions: row to the smallest position that a start named.
        values: metric of :data:`MEANS`, or named one as `metrics/NAME` (R30), to its values; NaN where a
            trial has none.
        speedups: row to the task speedup of a trial that carries FormulaCode's sections, or whose trial
            group does; None: not measured.
    """

    def __init__(self) -> None:
        self.keys: list[SlotKey] = []
        self.tasks = array("i")
        self.states = array("B")
        self.positions: dict[int, int] = {}
        self.values = {metric: array("d") for metric in MEANS}
        self.speedups: dict[int, float | None] = {}

    def append(self, key: SlotKey, task: int) -> int:
        """A new row, of a slot that holds nothing yet; its number."""
        self.keys.append(key)
        self.tasks.append(task)
        self.states.append(0)
        for column in self.values.values():
            column.append(nan)
        return len(self.keys) - 1

    def measure(self, row: int, scored: Scored) -> None:
        """The numbers of a row whose trial has this score."""
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

    def task_speedups(self) -> Iterator[tuple[str, float]]:
        """Task and speedup of each trial that has one; of a failure without sections it is 1.0 (R21)."""
        for row, (key, state) in enumerate(zip(self.keys, self.states, strict=True)):
            if state & HELD:
                speedup = self.speedups.get(row, None if state & PASSED else 1.0)
                if speedup is not None:
                    yield key.task_id, speedup


class Lineup:
    """The rows of one group; good until the roster changes.

    Args:
        parts: the rows of the group.
        every: all rows of the run.
    """

    def __init__(self, parts: list[Rows], every: Iterable[Rows]) -> None:
        self._parts, self._every = parts, every
        self.states: NDArray[np.uint8] = _joined([part.states for part in parts], np.uint8)

    @cached_property
    def of_states(self) -> list[tuple[int, int]]:
        """Each state that a row has, and how many rows have it."""
        counts: list[int] = np.bincount(self.states).tolist()
        return [(state, rows) for state, rows in enumerate(counts) if rows]

    @property
    def held(self) -> NDArray[np.bool_]:
        """Rows in which a result stands."""
        held: NDArray[np.bool_] = self.states & HELD != 0
        return held

    @property
    def tasks(self) -> NDArray[np.int32]:
        """Number of each row's task."""
        return _joined([part.tasks for part in self._parts], np.int32)

    def values(self, metric: str) -> NDArray[np.float64]:
        """The metric of each row, NaN where it has none."""
        columns = (part.values.get(metric, array("d", [nan]) * len(part.keys)) for part in self._parts)
        return _joined(list(columns), np.float64)

    def speedups(self) -> list[tuple[str, float]]:
        """See :meth:`Rows.task_speedups`."""
        return [found for part in self._parts for found in part.task_speedups()]

    def keys(self) -> list[SlotKey]:
        """Slot of each row."""
        return [key for part in self._parts for key in part.keys]

    def positions(self) -> dict[int, int]:
        """Row to its position, where a start named one."""
        found, first = {}, 0
        for part in self._parts:
            found.update({first + row: position for row, position in part.positions.items()})
            first += len(part.keys)
        return found

    def others(self) -> set[int]:
        """Positions of the run's other trials in its one queue."""
        others = (part for part in self._every if part not in self._parts)
        return {position for part in others for position in part.positions.values()}

    def in_flight(self) -> list[SlotKey]:
        """Slots that have a start and no result, by agent, in the order in which they were first seen."""
        rows = np.flatnonzero(self.states & (STARTED | HELD) == STARTED).tolist()
        keys = self.keys() if rows else []
        return [keys[row] for row in rows]

    def count(self, bits: int, among: int) -> int:
        """How many rows have exactly these bits among those."""
        return sum(rows for state, rows in self.of_states if state & among == bits)


class Roster:
    """Rows of all slots of a run.

    Args:
        is_baseline: whether an agent stays out of pooled tiers (R4).

    Attributes:
        positions_changed: how often a position came or changed.
    """

    def __init__(self, is_baseline: Callable[[str], bool]) -> None:
        self._is_baseline = is_baseline
        self._rows: dict[Owner, Rows] = {}
        self._groups: dict[GroupId, list[Rows]] = {}
        self._tasks: dict[str, int] = {}
        self.positions_changed = 0

    def enter(self, key: SlotKey, slot: Slot, scored: Scored) -> None:
        """A result stands in the slot, with this score."""
        rows = self._rows_of(key, slot)
        row = slot.row
        rows.states[row] = rows.states[row] & STARTED | _state(scored)
        rows.measure(row, scored)
        if scored.formulacode is not None:
            rows.speedups[row] = scored.formulacode.task_speedup
        elif rows.speedups:
            rows.speedups.pop(row, None)

    def leave(self, key: SlotKey, slot: Slot) -> None:
        """No result stands in the slot."""
        states = self._rows_of(key, slot).states
        states[slot.row] &= STARTED

    def start(self, key: SlotKey, slot: Slot) -> None:
        """The starts of the slot changed."""
        rows = self._rows_of(key, slot)
        rows.states[slot.row] = rows.states[slot.row] & ~STARTED | (STARTED if slot.starts else 0)
        before, after = rows.positions.pop(slot.row, None), slot.position
        if after is not None:
            rows.positions[slot.row] = after
        self.positions_changed += before != after

    def lineup(self, group: GroupId) -> Lineup:
        """The rows of a group; of the run itself: all."""
        every = self._rows.values()
        return Lineup(list(every) if group == RUN else self._groups.get(group, []), every)

    def groups(self) -> Iterator[GroupId]:
        """Every group that has a row."""
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
        HELD
        | (PASSED if scored.success else 0)
        | (RESOLVED if scored.resolved else 0)
        | (AWAITED if scored.awaited else 0)
        | (RETRYABLE if scored.infrastructure_failure and not scored.success else 0)
    )


def _joined(columns: list[array[int]] | list[array[float]], kind: type) -> NDArray[Any]:
    """A copy: a view would keep the columns from growing."""
    return np.concatenate([np.frombuffer(column, kind) for column in columns] or [np.empty(0, kind)])
