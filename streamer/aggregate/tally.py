"""Counting in and out: with sign 1 something is counted, with sign -1 exactly that is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

from streamer.schemas.limits import MAX_COUNT

T = TypeVar("T")
S_contra = TypeVar("S_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class Merging(Protocol[S_contra]):
    """A statistic that can count another one in."""

    def merge(self, other: S_contra, /) -> None:
        """Count in all that the other holds."""

    def unmerge(self, other: S_contra, /) -> None:
        """Undo one `merge` of the other."""


class Extending(Protocol[V_contra]):
    """A statistic that can count values in."""

    def extend(self, values: V_contra, /) -> None:
        """Count the values in."""

    def withdraw(self, values: V_contra, /) -> None:
        """Undo one `extend` of the values."""


def count_all_of(held: Merging[T], other: T, sign: int) -> None:
    """Count another statistic in, or take it back."""
    if sign > 0:
        held.merge(other)
    else:
        held.unmerge(other)


def count_values(held: Extending[T], values: T, sign: int) -> None:
    """Count values in, or take them back."""
    if sign > 0:
        held.extend(values)
    else:
        held.withdraw(values)


def json_count(total: float) -> int | float:
    """A total of counts as it travels in JSON: whole, or a float where integers are not exact any more.

    >>> json_count(3.0), json_count(2**53 + 2), json_count(2.0**70)
    (3, 9007199254740994.0, 1.1805916207174113e+21)
    """
    return int(total) if total <= MAX_COUNT else float(total)


def tally(counter: Counter[T], item: T, change: int) -> None:
    """Count an item up, or down where the change is negative; nothing is kept at zero."""
    counter[item] += change
    if not counter[item]:
        del counter[item]


def tally_all(counter: Counter[T], items: Sequence[T], sign: int) -> None:
    """Count several items up or down; nothing is kept at zero."""
    if not items:
        return
    if sign > 0:
        counter.update(items)
        return
    for item in items:
        tally(counter, item, sign)
