"""The advantages of an agent at the four levels of FormulaCode: benchmarks by module, class and function.

The names of a task's benchmarks repeat from trial to trial, so how they group is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter, sub
from typing import NamedTuple

_KEPT_NAMES = 100_000
_MOST_REMEMBERED = 2_000
"""Groupings of more benchmarks than that are not kept."""


class BenchmarkName(NamedTuple):
    """Parts of a benchmark's name; None where the name has no such part."""

    module: str | None
    class_: str | None
    function: str | None


class Grouping(NamedTuple):
    """Groups of benchmarks, as places in the order of the names.

    Attributes:
        singles: the groups of one.
        larger: of every other group how to take its values from a list.
    """

    singles: tuple[int, ...]
    larger: tuple[Callable[[Sequence[float]], tuple[float, ...]], ...]


def advantages(
    names: tuple[str, ...], agent: list[float], oracle: list[float]
) -> tuple[float, float, float, float]:
    """The advantages of levels 1 to 4 (A5, A6): means of gmean(agent) - gmean(oracle); 0.0 of nothing.

    Args:
        names: of the valid benchmarks (A1).
        agent: logarithms of the agent's speedups, in the order of the names.
        oracle: likewise of the oracle.
    """
    groupings = _remembered(names) if len(names) <= _MOST_REMEMBERED else _groupings(names)
    found: dict[int, float] = {}
    for grouping in groupings:
        if id(grouping) not in found:
            differences = list(map(sub, _gmeans(grouping, agent), _gmeans(grouping, oracle)))
            found[id(grouping)] = _mean_of(differences)
    one, two, three, four = (found[id(grouping)] for grouping in groupings)
    return one, two, three, four


def gmean(logs: Sequence[float]) -> float:
    """Geometric mean from logarithms; 1.0 of nothing (A3)."""
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def _mean_of(differences: list[float]) -> float:
    """Their arithmetic mean; 0.0 of nothing (A5)."""
    if not differences:
        return 0.0
    try:
        return math.fsum(differences) / len(differences)
    except OverflowError:  # the sum is beyond the range of floats, the mean is not
        return math.fsum(difference / len(differences) for difference in differences)


def _gmeans(grouping: Grouping, logs: list[float]) -> list[float]:
    means = [math.exp(logs[place]) for place in grouping.singles]
    return means + [gmean(take(logs)) for take in grouping.larger]


@lru_cache(maxsize=_KEPT_NAMES)
def benchmark_name(name: str) -> BenchmarkName:
    """Split a benchmark's name. Names repeat across trials: each is parsed once.

    >>> benchmark_name("pkg.sub.Class.time_x(10, 'a')")
    BenchmarkName(module='pkg.sub', class_='Class', function='time_x')
    >>> benchmark_name("Class.time_m")
    BenchmarkName(module='Class', class_=None, function='time_m')
    >>> benchmark_name("...")
    BenchmarkName(module=None, class_=None, function=None)
    """
    text = name.strip()
    if "(" in text and text.endswith(")"):
        text = text[: text.index("(")].strip()
    parts = [part for part in text.split(".") if part]
    if not parts:
        return BenchmarkName(None, None, None)
    *before, function = parts
    if len(before) >= 2 and before[-1][0].isupper():
        return BenchmarkName(".".join(before[:-1]), before[-1], function)
    return BenchmarkName(".".join(before) if before else None, None, function)


def _groupings(names: Sequence[str]) -> tuple[Grouping, ...]:
    """Groupings by module, by class, by function, and of all (A6); what is the same is the same object."""
    found: dict[tuple[tuple[int, ...], ...], Grouping] = {}
    groupings = []
    for depth in (1, 2, 3, 0):
        groups: dict[tuple[str | None, ...], list[int]] = {}
        for place, name in enumerate(names):
            groups.setdefault(benchmark_name(name)[:depth], []).append(place)
        places = tuple(map(tuple, groups.values()))
        groupings.append(found.setdefault(places, _grouping(places)))
    return tuple(groupings)


_remembered = lru_cache(maxsize=256)(_groupings)


def _grouping(groups: tuple[tuple[int, ...], ...]) -> Grouping:
    return Grouping(
        tuple(group[0] for group in groups if len(group) == 1),
        tuple(itemgetter(*group) for group in groups if len(group) > 1),
    )
