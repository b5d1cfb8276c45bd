"""Task metrics: the geometric mean speedup and the advantage at four levels.

One logarithm and one exponential (those of `math`) serve every size and every path: numpy's differ
in the last bit. Sums of logarithms are exactly rounded, so the order of benchmarks never matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from streamer.score.formulacode.benchmark_names import benchmark_name
from streamer.score.formulacode.columns import advantages, columns_of, mean_of
from streamer.score.formulacode.speedups import Pair, effective_pairs, has_oracle

LEVELS = (1, 2, 3, 4)
"""Module, class, function, overall (A6); level 4 is the primary `agent_advantage` (A5)."""

Logs = tuple[list[float], list[float]]
"""Logarithms of the agent's and of the oracle's speedups of a group of benchmarks."""

Groups = dict[tuple[str | None, ...], Logs]


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one agent on one task.

    Attributes:
        task_speedup: geometric mean over the valid benchmarks; 1.0 if there is none (A3).
        advantages: levels 1 to 4; None if no benchmark has an oracle value at all (R22), or after a
            fallback no valid one, since it invents none (R21).
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
    columns = None if fallback else columns_of(benchmarks)
    if columns is None:
        return metrics_of_pairs(benchmarks, fallback=fallback)
    speedup, one, two, three, four = advantages(benchmarks, columns)
    return TaskMetrics(speedup, (one, two, three, four), len(benchmarks), len(benchmarks))


def metrics_of_pairs(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> TaskMetrics:
    """The same, pair by pair: whatever the entries are."""
    effective = effective_pairs(benchmarks, fallback=fallback)
    functions, valid = _by_function(effective)
    if (fallback and not valid) or (benchmarks and not has_oracle(benchmarks)):
        alone = [math.log(agent) for _, agent, _ in effective if agent is not None]
        return TaskMetrics(_gmean(alone), None, len(effective), valid)
    classes = _coarser(functions, 2)
    modules = _coarser(classes, 1)
    overall = _coarser(modules, 0)
    agent_logs = [held for agents, _ in overall.values() for held in agents]
    three = _level(functions)
    two = three if classes is functions else _level(classes)
    one = two if modules is classes else _level(modules)
    four = one if overall is modules else _level(overall)
    return TaskMetrics(_gmean(agent_logs), (one, two, three, four), len(effective), valid)


def _by_function(effective: list[Pair]) -> tuple[Groups, int]:
    """Logarithms of the valid pairs by module, class and function; how many pairs are valid."""
    groups: Groups = {}
    valid = 0
    log = math.log
    for name, agent, oracle in effective:
        if agent is None or oracle is None:
            continue
        valid += 1
        key = benchmark_name(name)
        held = groups.get(key)
        if held is None:
            groups[key] = ([log(agent)], [log(oracle)])
        else:
            held[0].append(log(agent))
            held[1].append(log(oracle))
    return groups, valid


def _coarser(groups: Groups, depth: int) -> Groups:
    """The groups joined by the first parts of their keys; the same ones if that joins none (A6)."""
    keys = [key[:depth] for key in groups]
    if len(set(keys)) == len(keys):
        return groups
    joined: Groups = {}
    for key, (agents, oracles) in zip(keys, groups.values(), strict=True):
        held = joined.get(key)
        if held is None:
            joined[key] = (agents.copy(), oracles.copy())
        else:
            held[0].extend(agents)
            held[1].extend(oracles)
    return joined


def _level(groups: Groups) -> float:
    """Arithmetic mean over the groups of gmean(agent) - gmean(oracle); 0.0 of nothing (A5)."""
    return mean_of([_gmean(agents) - _gmean(oracles) for agents, oracles in groups.values()])


def _gmean(logs: list[float]) -> float:
    """Geometric mean from logarithms; 1.0 of nothing (A3)."""
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0
