"""Task metrics: the geometric mean speedup and the advantage at four levels.

One logarithm and one exponential (those of `math`) serve every size and every path: numpy's differ
in the last bit. Sums of logarithms are exactly rounded, so the order of benchmarks never matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from streamer.score.formulacode.benchmark_names import benchmark_name
from streamer.score.formulacode.speedups import Speedup, has_oracle, speedups

LEVELS = (1, 2, 3, 4)
"""Module, class, function, overall (A6); level 4 is the primary `agent_advantage` (A5)."""


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one agent on one task.

    Attributes:
        task_speedup: geometric mean over the valid benchmarks; 1.0 if there is none (A3).
        advantages: levels 1 to 4; None if no benchmark has an oracle value at all (R22).
        num_benchmarks: entries, invalid ones included (A4).
        num_valid_benchmarks: valid entries (A1).
    """

    task_speedup: float
    advantages: tuple[float, float, float, float] | None
    num_benchmarks: int
    num_valid_benchmarks: int


def task_metrics(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> TaskMetrics:
    """Metrics over the effective speedups.

    >>> task_metrics({"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}}, fallback=False)
    TaskMetrics(task_speedup=2.0, advantages=(1.0, 1.0, 1.0, 1.0), num_benchmarks=1, num_valid_benchmarks=1)
    >>> task_metrics({}, fallback=False)
    TaskMetrics(task_speedup=1.0, advantages=(0.0, 0.0, 0.0, 0.0), num_benchmarks=0, num_valid_benchmarks=0)
    """
    effective = speedups(benchmarks, fallback=fallback)
    compared = [speedup for speedup in effective if speedup.valid]
    if benchmarks and not has_oracle(benchmarks):
        alone = [math.log(speedup.agent) for speedup in effective if speedup.agent is not None]
        return TaskMetrics(_gmean(alone, len(alone)), None, len(effective), len(compared))
    logs = [(math.log(s.agent or 1.0), math.log(s.oracle or 1.0)) for s in compared]
    task_speedup = _gmean((agent for agent, _ in logs), len(logs))
    return TaskMetrics(task_speedup, _advantages(compared, logs), len(effective), len(compared))


def _advantages(
    compared: list[Speedup], logs: list[tuple[float, float]]
) -> tuple[float, float, float, float]:
    """Arithmetic mean over the groups of each level of gmean(agent) - gmean(oracle) (A5)."""
    if not compared:
        return (0.0, 0.0, 0.0, 0.0)
    names = [benchmark_name(speedup.name) for speedup in compared]
    one, two, three = (_level([name[:depth] for name in names], logs) for depth in LEVELS[:3])
    return (one, two, three, _difference(logs))


def _level(keys: list[tuple[str | None, ...]], logs: list[tuple[float, float]]) -> float:
    groups: dict[tuple[str | None, ...], list[tuple[float, float]]] = {}
    for key, pair in zip(keys, logs, strict=True):
        groups.setdefault(key, []).append(pair)
    return math.fsum(_difference(pairs) for pairs in groups.values()) / len(groups)


def _difference(logs: list[tuple[float, float]]) -> float:
    count = len(logs)
    return _gmean((agent for agent, _ in logs), count) - _gmean((oracle for _, oracle in logs), count)


def _gmean(logs: Iterable[float], count: int) -> float:
    """Geometric mean from logarithms; 1.0 of nothing (A3)."""
    return math.exp(math.fsum(logs) / count) if count else 1.0
