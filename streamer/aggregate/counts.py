"""Counting: the scored trials of a run in its groups and totals, many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamer.aggregate.group import GroupState, Owner
from streamer.aggregate.group_id import GroupId, groups_of
from streamer.aggregate.slot_key import SlotKey
from streamer.aggregate.tally import tally
from streamer.aggregate.totals import RunTotals
from streamer.aggregate.trials import Trials
from streamer.score import Scored

Cell = tuple[str, str, str | None, bool]
"""(agent, model, tier, whether a trial of its own): trials that count in the same groups and totals."""

Waiting = dict[Cell, list[tuple[SlotKey, Scored]]]

_MOST_WAITING = 16_384
"""Trials that may wait to be counted, 500 bytes each: a few megabytes for a large run.

While they are counted, they and their columns take twice that."""

_LARGE = 8
"""From so many trials on, counting a part by itself is faster than as one of many."""


class Counts:
    """Groups and totals, and the scored trials that wait to be counted in them.

    Counting many trials at once costs a tenth of counting each as it comes, so trials wait until `count`.

    Attributes:
        groups: those that had trials at the last `count`.
        totals: as of the last `count`.
        waiting: how many trials wait.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: it will be counted again."""
        self.groups: dict[GroupId, GroupState] = {}
        self.totals = RunTotals()
        self._entered: Waiting = {}
        self._left: Waiting = {}
        self.waiting = 0
        self._marks: dict[GroupId, tuple[int, int]] = {}

    def enter(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        """Count a trial in, of its own (`single`) or a sub-trial; True if it is time to count."""
        cell = (key.agent, key.model, key.tier, single)
        held = self._entered.get(cell)
        if held is None:
            self._entered[cell] = [(key, scored)]
        else:
            held.append((key, scored))
        self.waiting += 1
        return self.waiting >= _MOST_WAITING

    def leave(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        """Take back exactly what one of the above counted; True if it is time to count."""
        self._left.setdefault((key.agent, key.model, key.tier, single), []).append((key, scored))
        self.waiting += 1
        return self.waiting >= _MOST_WAITING

    def mark(self, group_id: GroupId, superseded: int, conflicts: int) -> None:
        """Count more, or fewer, losers and conflicts in a group."""
        before = self._marks.get(group_id, (0, 0))
        marks = self._marks[group_id] = (before[0] + superseded, before[1] + conflicts)
        group = self.groups.get(group_id)
        if group is not None:
            group.superseded, group.conflicts = marks

    def count(self, is_baseline: Callable[[str], bool]) -> set[GroupId]:
        """Count what waits; the groups that it changed."""
        entered, left = self._entered, self._left
        self._entered, self._left, self.waiting = {}, {}, 0
        came = ((cell, Trials.of(trials)) for cell, trials in entered.items())
        gone = ((cell, Trials.of(trials)) for cell, trials in left.items())
        return self._count(came, 1, is_baseline) | self._count(gone, -1, is_baseline)

    def _count(
        self, cells: Iterable[tuple[Cell, Trials]], sign: int, is_baseline: Callable[[str], bool]
    ) -> set[GroupId]:
        parts: dict[GroupId, list[tuple[Owner, Trials]]] = {}
        everything = []
        for (agent, model, tier, single), trials in cells:
            everything.append(trials)
            owner = (agent, model, tier)
            if single:
                self.totals.count_trials(trials, sign, owner, compared=not is_baseline(agent))
            for group_id in groups_of(agent, model, tier, baseline=is_baseline(agent)):
                parts.setdefault(group_id, []).append((owner, trials))
        for trials in _portions(everything):
            self.totals.count_spent(trials, sign)
        for group_id, owned in parts.items():
            self._count_in(group_id, owned, sign)
        return set(parts)

    def _count_in(self, group_id: GroupId, owned: list[tuple[Owner, Trials]], sign: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = GroupState()
            group.superseded, group.conflicts = self._marks.get(group_id, (0, 0))
        group.count(_portions([trials for _, trials in owned]), sign)
        for owner, trials in owned:
            tally(group.owners, owner, sign * trials.number)
        if not group.trials:
            del self.groups[group_id]


def _portions(parts: list[Trials]) -> list[Trials]:
    """Large parts as they are, since their sums are shared between groups; the small ones in one."""
    small = [part for part in parts if part.number < _LARGE]
    return [part for part in parts if part.number >= _LARGE] + ([Trials.together(small)] if small else [])
