"""Task metrics of the usual case, by columns: every benchmark has two valid ratios.

The names of a task's benchmarks repeat from trial to trial, so how they group is worked out once.
The numbers are those of :mod:`streamer.score.formulacode.task_metrics`, bit for bit: sums of
logarithms are exactly rounded there, and the sum of two floats is by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter, sub
from typing import Any, NamedTuple

from pydantic import JsonValue

from streamer.score.formulacode.benchmark_names import benchmark_name
from streamer.score.formulacode.speedups import AGENT, ORACLE

_MOST_REMEMBERED = 2_000
"""Groupings of more benchmarks than that are not kept."""

_agent, _oracle = itemgetter(AGENT), itemgetter(ORACLE)


class Grouping(NamedTuple):
    """Groups of benchmarks, as places in the order of the names.

    Attributes:
        singles: the groups of one.
        pairs: the groups of two.
        larger: of every other group how to take its values from a column, and how many those are.
    """

    singles: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    larger: tuple[tuple[Callable[[Sequence[float]], tuple[float, ...]], int], ...]


class Columns(NamedTuple):
    """Ratios of the agent and of the oracle, benchmark by benchmark; all valid (A1), at least one."""

    agent: list[float]
    oracle: list[float]


def columns_of(benchmarks: Mapping[str, JsonValue]) -> Columns | None:
    """The columns of the usual case; None where any entry is something else.

    >>> columns_of({"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}})
    Columns(agent=[2.0], oracle=[1.0])
    >>> columns_of({"m.f": {"agent/nop": 2.0, "oracle/nop": 0.0}}) is None
    True
    """
    entries: Any = benchmarks.values()
    try:
        agents, oracles = list(map(_agent, entries)), list(map(_oracle, entries))
    except (KeyError, TypeError, IndexError):
        return None
    if {*map(type, agents), *map(type, oracles)} != {float}:  # or there are none
        return None
    if not (min(agents) > 0.0 and min(oracles) > 0.0 and math.isfinite(sum(agents) + sum(oracles))):
        return None
    return Columns(agents, oracles)


def advantages(benchmarks: Mapping[str, JsonValue], columns: Columns) -> tuple[float, ...]:
    """The geometric mean speedup of the agent, then the advantages of levels 1 to 4 (A3, A5, A6)."""
    names = tuple(benchmarks)
    groupings = _remembered(names) if len(names) <= _MOST_REMEMBERED else _groupings(names)
    agent, oracle = (list(map(math.log, column)) for column in columns)
    speedup, attainable = (math.exp(math.fsum(logs) / len(logs)) for logs in (agent, oracle))
    found = {id(groupings[-1]): speedup - attainable}  # all of them are one group
    for grouping in groupings:
        if id(grouping) not in found:
            differences = list(map(sub, _gmeans(grouping, agent), _gmeans(grouping, oracle)))
            found[id(grouping)] = mean_of(differences)
    return (speedup, *(found[id(grouping)] for grouping in groupings))


def mean_of(differences: list[float]) -> float:
    """Their arithmetic mean; 0.0 of nothing (A5)."""
    if not differences:
        return 0.0
    try:
        return math.fsum(differences) / len(differences)
    except OverflowError:  # the sum is beyond the range of floats, the mean is not
        return math.fsum(difference / len(differences) for difference in differences)


def _gmeans(grouping: Grouping, logs: list[float]) -> list[float]:
    exp, fsum = math.exp, math.fsum
    means = [exp(logs[place]) for place in grouping.singles]
    means += [exp((logs[one] + logs[other]) / 2) for one, other in grouping.pairs]
    means += [exp(fsum(take(logs)) / number) for take, number in grouping.larger]
    return means


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
        tuple((group[0], group[1]) for group in groups if len(group) == 2),
        tuple((itemgetter(*group), len(group)) for group in groups if len(group) > 2),
    )
