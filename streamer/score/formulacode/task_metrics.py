"""Task metrics: the geometric mean speedup and the advantage at four levels.

One logarithm and one exponential, from `math`, serve every size and every path: numpy's differ in the
last bit. Sums of logarithms are exactly rounded, so the order of benchmarks never matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from streamer.score.formulacode.advantages import advantages, gmean
from streamer.score.formulacode.speedups import effective_pairs, has_oracle


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one agent on one task.

    Attributes:
        task_speedup: geometric mean over the valid benchmarks; 1.0 if there is none (A3).
        advantages: by module, class and function, and over all, levels 1 to 4 (A6). None if no benchmark
            has an oracle value at all (R22), or after a fallback no valid one, since it invents none (R21).
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
    effective = effective_pairs(benchmarks, fallback=fallback)
    valid = [
        (name, agent, oracle) for name, agent, oracle in effective if agent is not None and oracle is not None
    ]
    if (fallback and not valid) or (benchmarks and not has_oracle(benchmarks)):
        alone = [math.log(agent) for _, agent, _ in effective if agent is not None]
        return TaskMetrics(gmean(alone), None, len(effective), len(valid))
    names = tuple(name for name, _, _ in valid)
    agents = [math.log(agent) for _, agent, _ in valid]
    oracles = [math.log(oracle) for _, _, oracle in valid]
    return TaskMetrics(gmean(agents), advantages(names, agents, oracles), len(effective), len(valid))
