"""What changed in a run since somebody took its changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streamer.aggregate.group_id import GroupId
from streamer.aggregate.slot_key import SlotKey
from streamer.score import Scored


class Rescoring(NamedTuple):
    """A trial already counted whose score another trial's event moved (R9)."""

    key: SlotKey
    because: SlotKey
    before: Scored
    after: Scored


class GroupChanges(NamedTuple):
    """Groups to summarise again, and trials that were scored again because of another trial's event."""

    groups: set[GroupId]
    rescorings: list[Rescoring]


class PageChanges(NamedTuple):
    """What of a run's state pages is out of date: the pages of these slots, the run's own page, or all."""

    slots: dict[SlotKey, None]
    plan: bool
    everything: bool


class RunChanges:
    """Collects changes. Each `take_*` hands over what came since the last one.

    Args:
        scored_trials: collect slots whose scored trial changed; False where nobody takes them.
        pages: likewise what has to be saved.
    """

    def __init__(self, *, scored_trials: bool = True, pages: bool = True) -> None:
        self.collects_scored_trials = scored_trials
        self._collects_pages = pages
        self._groups: set[GroupId] = set()
        self._rescorings: list[Rescoring] = []
        self._scored: dict[SlotKey, bytes | None] = {}
        self._slots: dict[SlotKey, None] = {}
        self._plan = self._everything = False

    @property
    def scored_waiting(self) -> int:
        """How many scored trials wait to be taken."""
        return len(self._scored)

    def groups(self, groups: Iterable[GroupId]) -> None:
        """These groups have to be summarised again."""
        self._groups.update(groups)

    def rescored(self, rescoring: Rescoring) -> None:
        """An event of another trial moved the score of a trial."""
        self._rescorings.append(rescoring)

    def scored_trial(self, key: SlotKey, written: bytes | None = None) -> None:
        """The scored trial of a slot changed; `written`: as it will be published, if that is at hand."""
        if self.collects_scored_trials:
            self._scored[key] = written

    def only_scored_trials(self, keys: Iterable[SlotKey]) -> None:
        """Of all scored trials, these alone changed."""
        self._scored = dict.fromkeys(keys)

    def slot(self, key: SlotKey) -> None:
        """The state page of a slot is out of date."""
        if self._collects_pages:
            self._slots[key] = None

    def plan(self) -> None:
        """The run's own page is out of date."""
        self._plan = True

    def every_page(self) -> None:
        """Every page is out of date."""
        self._plan = self._everything = True

    def take_groups(self) -> GroupChanges:
        """Hand over the groups and the rescorings."""
        taken = GroupChanges(self._groups, self._rescorings)
        self._groups, self._rescorings = set(), []
        return taken

    def take_scored(self, most: int | None = None) -> dict[SlotKey, bytes | None]:
        """Hand over slots whose scored trial changed, the latest `most` if that is given."""
        if most is not None and len(self._scored) > most:
            return dict(self._scored.popitem() for _ in range(most))
        taken, self._scored = self._scored, {}
        return taken

    def take_pages(self) -> PageChanges:
        """Hand over what has to be saved."""
        taken = PageChanges(self._slots, self._plan, self._everything)
        self._slots, self._plan, self._everything = {}, False, False
        return taken
