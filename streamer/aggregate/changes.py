"""What changed in a run: collected until somebody takes it, and as it travels to Kafka and Redis."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import orjson

from streamer.aggregate.keys import GroupId, SlotKey, SummaryKind
from streamer.schemas.canonical import canonical_json

if TYPE_CHECKING:
    from streamer.schemas.plain import PlainTrial
    from streamer.score import Scored


_MOST_JUDGED = 4_096
"""Plain trials that wait for their scored trial, mostly 2 KB each; others are read and scored again."""


@dataclass(frozen=True, slots=True)
class SummaryChange:
    """One summary that changed; `value` None is a tombstone (the run was deleted, the group emptied).

    Attributes:
        run_id: the run, not encoded.
        group: which group of the run it describes.
        value: canonical published bytes, shared by topic and Redis; None: tombstone.
        summary: the same as a dict (what `value` parses to); None: tombstone.
        epoch: grows with every new beginning of the log; a higher one wins.
        state_version: offset of the last event folded into the run; -1: none.
        digest: digest of the summary; "" for a tombstone.
    """

    run_id: str
    group: GroupId
    value: bytes | None
    summary: dict[str, Any] | None
    epoch: int
    state_version: int
    digest: str

    @classmethod
    def tombstone(cls, run_id: str, group: GroupId, epoch: int, state_version: int) -> Self:
        """The summary is gone from this version on."""
        return cls(run_id, group, None, None, epoch, state_version, "")

    @property
    def kind(self) -> SummaryKind:
        """Which topic and which family of Redis keys hold it."""
        return self.group.kind

    @property
    def key(self) -> str:
        """Key in the topic, ids percent-encoded."""
        return self.group.topic_key(self.run_id)


class InFlightChange(NamedTuple):
    """The trials in flight of one run, after they changed.

    Attributes:
        run_id: the run, not encoded.
        trials: :func:`~streamer.aggregate.keys.slot_in_run` of each trial to its JSON; {}: no trial is in
            flight.
        epoch: as of the summaries.
        state_version: likewise.
    """

    run_id: str
    trials: dict[str, bytes]
    epoch: int
    state_version: int


class TasksChange(NamedTuple):
    """The outcomes of a run's agents task by task, after they changed.

    Attributes:
        run_id: the run, not encoded.
        packed: as :func:`packed` makes it, because the worker keeps it for as long as it has the run.
        epoch: as of the summaries.
        state_version: likewise.
    """

    run_id: str
    packed: bytes
    epoch: int
    state_version: int


def packed(fields: Mapping[str, str]) -> bytes:
    """A hash of Redis in a tenth of its size; b"" of none. Equal fields give equal bytes in a process.

    >>> unpacked(packed({"t": '{"a:m":[1,1,0]}'}))
    {'t': '{"a:m":[1,1,0]}'}
    """
    return zlib.compress(canonical_json(dict(fields)), 1) if fields else b""


def unpacked(held: bytes) -> dict[str, str]:
    """Inverse of :func:`packed`."""
    fields: dict[str, str] = orjson.loads(zlib.decompress(held)) if held else {}
    return fields


class ScoredChange(NamedTuple):
    """One slot's scored trial, for the compacted topic `scored-trials`; None: the slot emptied."""

    run_id: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A grade change or a rescoring, for the topic `grade-changes`."""

    run_id: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class PageWrite:
    """A state page to write to the table `trials`; None: tombstone."""

    key: str
    value: bytes | None


@dataclass(slots=True)
class RunUpdate:
    """All that changed in one run, from one consistent state.

    `in_flight` and `tasks` are None where they are the same as before.
    """

    run_id: str
    summaries: list[SummaryChange] = field(default_factory=list)
    in_flight: InFlightChange | None = None
    tasks: TasksChange | None = None
    scored: list[ScoredChange] = field(default_factory=list)
    news: list[NewsItem] = field(default_factory=list)


class Effect(StrEnum):
    """What an event did to the run."""

    COUNTED = "counted"
    STARTED = "started"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    IGNORED = "ignored"


class Rescoring(NamedTuple):
    """A trial already counted whose score another trial's event moved (R9)."""

    key: SlotKey
    because: SlotKey
    before: Scored
    after: Scored


class Judged(NamedTuple):
    """A trial without FormulaCode's sections, with its score; at hand since it was counted."""

    event: PlainTrial
    scored: Scored


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
        scored_trials: collect slots whose scored trial changed; False where they are not taken.
        pages: likewise what has to be saved.
    """

    def __init__(self, *, scored_trials: bool = True, pages: bool = True) -> None:
        self.collects_scored_trials = scored_trials
        self._collects_pages = pages
        self._groups: set[GroupId] = set()
        self._rescorings: list[Rescoring] = []
        self._scored: dict[SlotKey, Judged | None] = {}
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

    def scored_trial(self, key: SlotKey, judged: Judged | None = None) -> None:
        """The scored trial of a slot changed.

        Args:
            judged: what stands in the slot, if it is at hand; kept for a limited number of slots.
        """
        if self.collects_scored_trials:
            self._scored[key] = judged if len(self._scored) < _MOST_JUDGED else None

    def only_scored_trials(self, keys: Iterable[SlotKey]) -> None:
        """The scored trials of these slots changed, and no others."""
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

    def take_scored(self, most: int | None = None) -> dict[SlotKey, Judged | None]:
        """Hand over slots whose scored trial changed, and what stands in them where it is at hand.

        Args:
            most: so many of them at most, the latest first; None: all.
        """
        if most is not None and len(self._scored) > most:
            return dict(self._scored.popitem() for _ in range(most))
        taken, self._scored = self._scored, {}
        return taken

    def take_pages(self) -> PageChanges:
        """Hand over what has to be saved."""
        taken = PageChanges(self._slots, self._plan, self._everything)
        self._slots, self._plan, self._everything = {}, False, False
        return taken
