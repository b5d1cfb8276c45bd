"""The queue in which a run starts its trials, as its plan tells it (inference 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamer.aggregate.keys import SlotKey
from streamer.aggregate.plan import Plan
from streamer.inference.order import OrderKind

Entry = str | tuple[str, int]
"""A task, or a task and an attempt."""


class Queue:
    """Where a run's trials stand in its queue, and which of them its first plan had.

    Args:
        run_id: the run, for ties.

    Attributes:
        kind: where the order comes from.
        concurrency: trials that run at once; None: unknown.
        difficulty: 0 to 1 by task.
        places: entries of the first plan that are still planned; None: the plan has no order.
    """

    def __init__(self, run_id: str, plan: Plan) -> None:
        self.run_id = run_id
        self.kind = OrderKind(plan.get("order_kind") or OrderKind.UNKNOWN)
        self.concurrency: int | None = plan.get("concurrency")
        self.difficulty: dict[str, float] = plan.get("task_difficulty") or {}
        self._growth = _Growth.of(plan)
        order: list[Entry] | None = plan.get("order")
        self._has_rounds = False
        self._places = None if order is None else self._numbered(order)

    @property
    def places(self) -> int | None:
        return None if self._places is None else len(self._places)

    @property
    def has_grown(self) -> bool:
        """Whether the plan has other trials than its first version."""
        return self._growth is not None

    def place(self, key: SlotKey) -> int | None:
        """Number of a slot's place, from 0; None: it has none in the plan's order.

        All tiers and subtests of a task share a place. In an order of several rounds, a trial whose round is
        named by its shard has none.
        """
        if key.shard and self._has_rounds:
            return None
        places = self._places or {}
        return places.get((key.task_id, key.attempt), places.get(key.task_id))

    def is_later(self, key: SlotKey) -> bool:
        """Whether a trial joined the plan after its first version."""
        return self._growth is not None and not self._growth.had(key.task_id, key.attempt)

    def first_trials(self, planned: int) -> int | None:
        """How many of the planned trials the first plan had; None: their names are not known."""
        return planned if self._growth is None else self._growth.first_trials(planned)

    def _numbered(self, order: Iterable[Entry]) -> dict[Entry, int]:
        """Entry to its place; a task that comes again is its next attempt."""
        attempts: dict[str, int] = {}
        entries: list[Entry] = []
        for entry in order:
            if isinstance(entry, str):
                attempts[entry] = attempts.get(entry, 0) + 1
                entries.append((entry, attempts[entry]))
            else:
                entries.append((entry[0], entry[1]))
        if max(attempts.values(), default=0) == 1:  # each task once: its attempts share the place
            entries = [entry[0] if entry[0] in attempts else entry for entry in entries]
        self._has_rounds = max(attempts.values(), default=0) > 1
        kept = (entry for entry in entries if self._is_planned(entry))
        return {entry: place for place, entry in enumerate(dict.fromkeys(kept))}

    def _is_planned(self, entry: Entry) -> bool:
        task, attempt = (entry, 1) if isinstance(entry, str) else entry
        return self._growth is None or self._growth.keeps(task, attempt)


@dataclass(frozen=True, slots=True)
class _Growth:
    """A plan that is not the first one any more.

    Attributes:
        first, now: planned tasks then and now; None: their names are not known.
        first_attempts, now_attempts: planned attempts at each task.
    """

    first: frozenset[str] | None
    now: frozenset[str] | None
    first_attempts: int
    now_attempts: int

    @classmethod
    def of(cls, plan: Plan) -> _Growth | None:
        """None: the plan has as many trials as at first."""
        tasks, now_tasks = plan.first("tasks"), plan.get("tasks")
        attempts, now_attempts = plan.first("attempts") or 1, plan.attempts or 1
        if (_names(tasks) or tasks, attempts) == (_names(now_tasks) or now_tasks, now_attempts):
            return None
        return cls(_names(tasks), _names(now_tasks), attempts, now_attempts)

    def had(self, task: str, attempt: int) -> bool:
        """Whether the first plan had a trial."""
        return (self.first is None or task in self.first) and attempt <= self.first_attempts

    def keeps(self, task: str, attempt: int) -> bool:
        """Whether the first plan had a trial, and it was not withdrawn."""
        planned = (self.now is None or task in self.now) and attempt <= self.now_attempts
        return planned and self.had(task, attempt)

    def first_trials(self, planned: int) -> int | None:
        """How many of the planned trials the first plan had; None: their names are not known."""
        if self.first is None or self.now is None or not self.now:
            return None
        attempts = min(self.first_attempts, self.now_attempts)
        return planned * len(self.first & self.now) * attempts // (len(self.now) * self.now_attempts)


def _names(tasks: list[str] | int | None) -> frozenset[str] | None:
    return frozenset(tasks) if isinstance(tasks, list) else None
