"""Counters that keep nothing at zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from schemas.limits import MAX_COUNT

T = TypeVar("T")


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
