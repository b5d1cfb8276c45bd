"""Counters that keep nothing at zero."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

T = TypeVar("T")


def tally(counter: Counter[T], item: T | None, sign: int) -> None:
    """Count an item up or down; None is not counted, and nothing is kept at zero."""
    if item is None:
        return
    counter[item] += sign
    if not counter[item]:
        del counter[item]
