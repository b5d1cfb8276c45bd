"""Counters that keep nothing at zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def tally(counter: Counter[T], item: T | None, sign: int) -> None:
    """Count an item up or down; None is not counted, and nothing is kept at zero."""
    if item is None:
        return
    counter[item] += sign
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
