"""Slots: the rule that decides which result stands at a place of a run (R17).

What a slot has seen is a map from fingerprint to the greatest (revision, finished_at) that this
content came with, and a floor. Joining two such maps is associative, commutative and idempotent:
copies of a slot can be merged in any order, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from streamer.aggregate.keys import fingerprint, microseconds
from streamer.schemas.decode import decode
from streamer.schemas.plain import AnyTrial, plain_trial

if TYPE_CHECKING:
    from streamer.score import Scored

SlotRank = tuple[int, int, str]
"""(revision, finished_at in microseconds, fingerprint); the greatest wins (R17)."""

Place = tuple[int, int]
"""(revision, finished_at in microseconds) that a losing content came with."""


class Start(NamedTuple):
    """What a `trial_started` says (inference 3).

    Attributes:
        started_at: microseconds since 1970; None: not known.
        position: how many trials had started before; None: not counted.
    """

    revision: int
    started_at: int | None = None
    position: int | None = None

    def says_no_more_than(self, other: Start) -> bool:
        """Whether the other one, which no earlier retraction withdraws, says all of this."""
        return self.revision <= other.revision and all(
            ours is None or (theirs is not None and theirs <= ours)
            for ours, theirs in zip(self[1:], other[1:], strict=True)
        )


def event_of(raw: bytes) -> AnyTrial:
    """The event that a slot keeps as received."""
    event = plain_trial(raw) or decode(raw)
    if not isinstance(event, AnyTrial):  # pragma: no cover - raw was decoded before it was stored
        raise TypeError(f"a slot holds something that is not a trial_result: {event}")
    return event


class Page(Protocol):
    """A state page as a slot sees it."""

    def event(self, index: int) -> bytes:
        """The event of the slot at that place on the page."""


@dataclass(slots=True)
class _Rare:
    """What few slots have; see :class:`Slot`."""

    agent_index: int | None = None
    losers: dict[str, Place] = field(default_factory=dict)
    floor: int | None = None
    scored: Scored | None = None
    rest: tuple[int, str] | None = None
    starts: tuple[Start, ...] = ()


_NOTHING_RARE = _Rare()
"""Shared by all slots that have nothing of it, so never changed."""


class Slot(Struct, gc=False, eq=False):
    """What one slot holds; no part of a cycle, so the garbage collector need not know it.

    Attributes:
        revision: the winner's, None while the slot is empty.
        page: the state page that holds the slot; None: no page holds it yet.
        index: its place on that page, from 0.
        row: its row in the roster, -1 for none.
    """

    revision: int | None = None
    page: Page | None = None
    index: int = 0
    row: int = -1
    _raw: bytes | None = b""
    _rare: _Rare = _NOTHING_RARE

    @property
    def agent_index(self) -> int | None:
        """The winner's position in a multi-agent trial, None for a trial of its own."""
        return self._rare.agent_index

    @agent_index.setter
    def agent_index(self, agent_index: int | None) -> None:
        if agent_index != self._rare.agent_index:
            self._own().agent_index = agent_index

    @property
    def losers(self) -> Mapping[str, Place]:
        """Fingerprint -> (revision, finished_at) of the other contents seen above the floor."""
        return self._rare.losers

    @property
    def floor(self) -> int | None:
        """Results up to this revision are withdrawn, None if nothing was retracted."""
        return self._rare.floor

    @floor.setter
    def floor(self, floor: int | None) -> None:
        self._own().floor = floor

    @property
    def starts(self) -> tuple[Start, ...]:
        """Starts above the floor, without those that say no more than another one."""
        return self._rare.starts

    @property
    def position(self) -> int | None:
        """The smallest position that a start has; None: no start has one."""
        return min((start.position for start in self.starts if start.position is not None), default=None)

    @property
    def started_at(self) -> int | None:
        """The smallest time of a start, microseconds since 1970; None: no start has one."""
        return min((start.started_at for start in self.starts if start.started_at is not None), default=None)

    @property
    def has_history(self) -> bool:
        """True if it knows more than its winner: losers, a floor, or starts."""
        rare = self._rare
        return rare is not _NOTHING_RARE and (
            bool(rare.losers) or rare.floor is not None or bool(rare.starts)
        )

    @property
    def vacant(self) -> bool:
        """Whether the slot has never seen a result or a retraction."""
        return self.revision is None and not self.losers and self.floor is None

    @property
    def empty(self) -> bool:
        """True if it knows nothing."""
        return self.vacant and not self.starts

    @property
    def scored(self) -> Scored | None:
        """Score of a sub-trial (R10), which depends on the others; None for a trial of its own."""
        return self._rare.scored

    @scored.setter
    def scored(self, scored: Scored | None) -> None:
        if scored is not self._rare.scored:
            self._own().scored = scored

    def _own(self) -> _Rare:
        if self._rare is _NOTHING_RARE:
            self._rare = _Rare()
        return self._rare

    @property
    def raw(self) -> bytes:
        """The winner's event as received, empty while the slot is empty; on its page if it has one."""
        if self._raw is None and self.page is not None:
            return self.page.event(self.index)
        return self._raw or b""

    @raw.setter
    def raw(self, raw: bytes) -> None:
        self._raw = raw

    @property
    def on_page(self) -> bool:
        """True if the event lies on the page and nowhere else."""
        return self._raw is None

    def lies_on(self, page: Page, index: int) -> None:
        """The page holds the slot as it is now; the event need not be kept here."""
        self.page, self.index, self._raw = page, index, None

    def leave_page(self) -> None:
        """Belong to no page from now on."""
        self.page, self._raw = None, self.raw

    @property
    def winner(self) -> SlotRank | None:
        """Standing of the result that counts, None while the slot is empty."""
        return None if self.revision is None else (self.revision, *self._finished_at_and_fingerprint())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the winner's content."""
        return self._finished_at_and_fingerprint()[1]

    def _finished_at_and_fingerprint(self) -> tuple[int, str]:
        """The winner's, from its event when they are first asked for: most slots never see a second one."""
        if self._rare.rest is None:
            event = event_of(self.raw)
            self._own().rest = rest = microseconds(event.finished_at), fingerprint(event)
            return rest
        return self._rare.rest

    @property
    def superseded(self) -> int:
        """Results that lost this slot."""
        return len(self.losers)

    @property
    def in_conflict(self) -> bool:
        """True if the fingerprint alone decided (R17)."""
        winner = self.winner if self.losers else None
        return winner is not None and winner[:2] in self.losers.values()

    def fill(self, revision: int, raw: bytes, agent_index: int | None) -> None:
        """Let this result stand here."""
        self.revision, self.raw, self.agent_index = revision, raw, agent_index

    def offer(self, standing: SlotRank, raw: bytes, agent_index: int | None) -> bool:
        """Offer a result; True if it changed anything that the slot knows, even the revision alone."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        winner = self.winner
        if winner is not None:
            if standing[2] == winner[2] and standing <= winner:
                return False
            if standing < winner:
                return self.lose(standing)
            if standing[2] != winner[2]:
                self._note(winner)
        self.fill(standing[0], raw, agent_index)
        rare = self._own()
        rare.losers.pop(standing[2], None)
        rare.rest = standing[1:]
        return True

    def lose(self, standing: SlotRank) -> bool:
        """Note a content that does not win; True if that was news."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        if self.revision is not None and standing[2] == self.fingerprint:
            return False
        held = self.losers.get(standing[2])
        if held is not None and held >= standing[:2]:
            return False
        self._note(standing)
        return True

    def start(self, start: Start) -> bool:
        """Join a start; True if that was news."""
        if self.floor is not None and start.revision <= self.floor:
            return False
        if any(map(start.says_no_more_than, self.starts)):
            return False
        kept = [held for held in self.starts if not held.says_no_more_than(start)]
        self._own().starts = tuple(sorted([*kept, start], key=repr)) if kept else (start,)
        return True

    def retract(self, revision: int) -> bool:
        """Withdraw everything up to `revision`; True if the floor rose."""
        if self.floor is not None and revision <= self.floor:
            return False
        self.floor = revision
        rare = self._own()
        rare.losers = {print_: at for print_, at in rare.losers.items() if at[0] > revision}
        rare.starts = tuple(start for start in rare.starts if start.revision > revision)
        if self.revision is not None and self.revision <= revision:
            self.revision, self.raw, rare.agent_index, rare.rest = None, b"", None, None
        return True

    def _note(self, loser: SlotRank) -> None:
        self._own().losers[loser[2]] = loser[:2]
