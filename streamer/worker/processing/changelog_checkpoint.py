"""The checkpoint among the state pages of a partition: from which changelog offset on they are complete.

A changelog can lose records: an operator deletes and creates it again, empties it, or sets a retention. The
rest would look like a smaller state. So each partition of the changelog holds a checkpoint: from the offset
that it names on, the pages are complete. Without a checkpoint, or if the changelog begins later than it says,
pages may be missing: the partition is folded again from the event log. The checkpoint also names formulas,
profiles, prices and epoch, so the next worker knows whether what is published still holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from streamer.score import PriceTable, made_with

PREFIX = "/covered/"
"""No id of a run is empty, so no page's key begins so."""


class StateLost(RuntimeError):
    """Neither the pages nor the log hold everything."""

    def __init__(self, changelog: str, topic: str, partition: int, start: int, group: str) -> None:
        super().__init__(
            f"partition {partition}: {changelog} has lost state pages, and {topic}, from which they could be "
            f"folded again, begins at offset {start:,}. Going on would publish less than was said before. "
            f"Restore one of the two topics; or, to go on with what is left, delete the offsets of group "
            f"{group} for {topic} and start the worker again"
        )


def checkpoint_key(partition: int) -> str:
    """Key of a partition's checkpoint in the table `trials`."""
    return f"{PREFIX}{partition}"


def is_page(key: str) -> bool:
    """True for the key of a page, False for a checkpoint's key and a run in quarantine's.

    >>> is_page(checkpoint_key(3)), is_page("/quarantined/run"), is_page("run/writer/1")
    (False, False, True)
    """
    return not key.startswith("/")


def basis_of(prices: PriceTable, epoch: int) -> str:
    """Names formulas, profiles, prices and epoch: where they are others, all has to be published again."""
    return f"{made_with(prices)}/{epoch}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        complete_from: the pages from this offset of the changelog on are complete; None without a checkpoint.
        basis: on which everything that is published of the partition stands; None: not said.
        lost: events (first offset, and the one after the last) that were deleted before they were folded.
        scored_to: the topic of scored trials reached this offset; a lower end tells that it was deleted.

    >>> read = Checkpoint.decoded(Checkpoint(5, "1/ab/1", ((3, 4),), 9).encoded())
    >>> read.covers(5), read.covers(4), read.covers(6), read.basis, read.lost, read.scored_to
    (True, True, False, '1/ab/1', ((3, 4),), 9)
    >>> Checkpoint.decoded(None).covers(0), Checkpoint.decoded(b'{"complete_from": 7}').basis
    (False, None)
    """

    complete_from: int | None = None
    basis: str | None = None
    lost: tuple[tuple[int, int], ...] = ()
    scored_to: int = 0

    @classmethod
    def decoded(cls, value: bytes | None) -> Checkpoint:
        """Read a checkpoint; `value` None: there is none."""
        told = {} if value is None else orjson.loads(value)
        lost = tuple((int(first), int(end)) for first, end in told.get("lost", ()))
        return cls(told.get("complete_from"), told.get("basis"), lost, told.get("scored_to", 0))

    def encoded(self) -> bytes:
        """The value of its record."""
        return orjson.dumps(self)

    def covers(self, beginning: int) -> bool:
        """Whether a changelog that begins there holds every page."""
        return self.complete_from is not None and beginning <= self.complete_from

    def losing(self, first: int, end: int) -> Checkpoint:
        """The same, with events lost from `first` to before `end`; nothing if there are none."""
        return replace(self, lost=(*self.lost, (first, end))) if first < end else self

    def what_is_lost(self, partition: int) -> str | None:
        """A sentence about the lost events, None without any.

        >>> print(Checkpoint(lost=((3, 5),)).what_is_lost(1))  # doctest: +ELLIPSIS
        partition 1: events were deleted from the log before they were folded, at offsets 3 to 4; ...
        """
        if not self.lost:
            return None
        offsets = ", ".join(f"{first:,} to {end - 1:,}" for first, end in self.lost)
        return (
            f"partition {partition}: events were deleted from the log before they were folded, at offsets "
            f"{offsets}; the numbers of their runs lack them. Publish them again, and let no retention "
            "delete events"
        )

    @property
    def events_lost(self) -> int:
        """How many offsets are lost; some may have held no event."""
        return sum(end - first for first, end in self.lost)
