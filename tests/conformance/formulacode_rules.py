"""The rulings on a FormulaCode sub-trial, worked out independently of the product: slow and plain.

Reads the sub-trials of the shared `merge` cases. Nothing here imports `streamer`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from statistics import geometric_mean
from typing import Any

from tests.conformance.formulacode_keys import normalised, own_key
from tests.support.formulacode_cases import ADVANTAGES, Case

Json = dict[str, Any]
MEANS = {
    "mean_speedup": "task_speedup",
    **{name: name for name in ADVANTAGES},
    "mean_success_rate": "success",
    "mean_cost_per_task": "task_cost_usd",
    "mean_trajectory_length": "trajectory_length",
}
"""Field of an agent's summary -> the field of a sub-trial that it is the mean of."""


@dataclass(frozen=True)
class SubTrial:
    """One agent of a multi-agent trial, as its harness wrote it: its results.json and `parser_extra_metrics`.

    `configured` is its key, where an import path's ":" is "." (D4); `others` are all agents' keys.
    """

    index: int
    configured: str
    others: Sequence[str]
    written: Json
    metrics: Json

    @property
    def key(self) -> str:
        return normalised(self.configured)

    @property
    def agent(self) -> str:
        return self.key.partition(":")[0]

    @property
    def model(self) -> str:
        return self.key.partition(":")[2]

    @property
    def has_tests(self) -> bool:
        return "tests" in self.metrics

    @property
    def has_counts(self) -> bool:
        return "test_failed" in self.metrics

    @property
    def has_snapshot(self) -> bool:
        return "snapshot_failed" in self.metrics

    @property
    def failures(self) -> int:
        """Failed and errored tests; text of digits counts (B5)."""
        return int(self.metrics.get("test_failed", 0)) + int(self.metrics.get("test_error", 0))

    @property
    def benchmarks(self) -> Json | None:
        """The raw numbers under this agent's own key in its own log; None if there are none (R7)."""
        by_agent = self.metrics.get("per_benchmark_speedups_by_agent")
        if not isinstance(by_agent, dict):
            return None
        last_agent = self.metrics.get("last_agent")
        key = own_key(by_agent, last_agent, self.configured, self.index, self.others)
        return None if key is None else by_agent[key]

    @property
    def trajectory_length(self) -> int | None:
        """Text of digits counts, fractions are cut (D15); what is no number is missing (R1)."""
        stored = str(self.metrics.get("trajectory_length"))
        return int(float(stored)) if re.fullmatch(r"[0-9.]+", stored) else None

    @property
    def is_formulacode(self) -> bool:
        return self.has_tests or self.has_snapshot or self.benchmarks is not None


def sub_trials(case: Case) -> list[SubTrial]:
    """The sub-trials of a `merge` case; beyond the configurations they are unknown:unknown (D4)."""
    configs = case.input["agent_configs"]
    configs = configs if isinstance(configs, list) else []
    keys = [_configured(config, case.input["harness_model_name"]) for config in configs]
    result = []
    for number, written in enumerate(case.input["agent_results"]):
        key = keys[number] if number < len(keys) else "unknown:unknown"
        result.append(SubTrial(number + 1, key, keys, written, written["parser_extra_metrics"] or {}))
    return result


def _configured(config: Json, default: str | None) -> str:
    agent = config.get("agent_name") or config["agent_import_path"].replace(":", ".")
    return f"{agent}:{config.get('model_name') or default or 'unknown'}"


def ruled(sub: SubTrial, trial: list[SubTrial]) -> Json:
    """What the rulings say of a sub-trial: flags, speedups, metrics."""
    pytest_failed = sub.has_tests and _pytest_failed(sub, trial)
    snapshot_failed = sub.has_snapshot and _snapshot_failed(sub.metrics)
    applies = sub.has_tests or sub.has_snapshot  # (R20)
    success = not (pytest_failed or snapshot_failed) if applies else sub.written["is_resolved"] is True
    failed = not success and sub.agent != "nop"  # (R21, R4)
    known = known_oracles(sub, trial)
    return {
        "pytest_failed": pytest_failed,
        "snapshot_failed": snapshot_failed,
        "success": success,
        "fallback_to_baseline": failed and bool(known),  # (C3)
        "task_cost_usd": sub.written["total_cost"],
        "trajectory_length": sub.trajectory_length,
    } | (fallen_back(known) if failed else measured(sub.benchmarks))


def ruled_summary(rows: list[Json], missing: Sequence[Json] = ()) -> Json:
    """An agent:model's numbers over what is ruled of its sub-trials; missing ones failed (R21)."""
    every = [*rows, *missing]
    known = {n: [row[field] for row in every if row[field] is not None] for n, field in MEANS.items()}
    return {
        **{name: exact_mean(values) for name, values in known.items()},
        **{name: sum(row[name] for row in every) for name in ("num_benchmarks", "num_valid_benchmarks")},
        "cost_weighted_advantage": cost_weighted(known["agent_advantage"], known["mean_cost_per_task"]),
        "fallbacks": sum(row["fallback_to_baseline"] for row in every),
        "missing": len(missing),
        "coverage": {
            "task_speedup": len(known["mean_speedup"]),
            "agent_advantage": len(known["agent_advantage"]),
        },
    }


def known_oracles(sub: SubTrial, trial: list[SubTrial]) -> dict[str, float | None]:
    """Every benchmark that a sub-trial of the trial knows, and the oracle's value there (R21).

    Where two logs differ the sub-trial's own counts, then the oracle's, then the first in the trial's order.
    What is no object is no benchmark (C1).
    """
    oracles = [other for other in trial if other.agent == "oracle"]
    known: dict[str, float | None] = {}
    for source in (sub, *oracles, *trial):
        for name, entry in (source.benchmarks or {}).items():
            if isinstance(entry, dict):
                value = known.get(name)
                known[name] = valid_ratio(entry.get("oracle/nop")) if value is None else value
    return known


def fallen_back(oracles: dict[str, float | None]) -> Json:
    """Metrics of an agent that failed: no benchmark changed, and no oracle value is invented (R21)."""
    valid = {name: (1.0, oracle) for name, oracle in oracles.items() if oracle is not None}
    advantages = _advantages(valid) if valid else dict.fromkeys(ADVANTAGES)  # (R22)
    return advantages | {
        "task_speedup": 1.0,
        "per_benchmark_speedups": {
            name: _entry(1.0, oracle) | {"fallback_to_baseline": True} for name, oracle in oracles.items()
        },
        "num_benchmarks": len(oracles),
        "num_valid_benchmarks": len(valid),
    }


def measured(benchmarks: Json | None) -> Json:
    """Metrics of an agent that did not fail: of one benchmark dict (A1-A6, R21, R22)."""
    if benchmarks is None:
        unknown = dict.fromkeys(("per_benchmark_speedups", "task_speedup", *ADVANTAGES))
        return unknown | {"num_benchmarks": 0, "num_valid_benchmarks": 0}
    entries = {name: _shown(entry) for name, entry in benchmarks.items()}
    valid = {name: (a, o) for name, (a, o) in entries.items() if a is not None and o is not None}
    given = [e.get("oracle/nop") for e in benchmarks.values() if isinstance(e, dict)]
    if not valid:  # nothing was measured (R21), or nothing of the oracle (R22)
        without_oracle = all(oracle is None for oracle in given)
        alone = [a for a, _ in entries.values() if a is not None and without_oracle]
        metrics = dict.fromkeys(ADVANTAGES) | {"task_speedup": geometric_mean(alone) if alone else None}
    else:
        metrics = _advantages(valid) | {"task_speedup": geometric_mean([a for a, _ in valid.values()])}
    return metrics | {
        "per_benchmark_speedups": {name: _entry(a, o) for name, (a, o) in entries.items()},
        "num_benchmarks": len(entries),
        "num_valid_benchmarks": len(valid),
    }


def _entry(agent: float | None, oracle: float | None) -> Json:
    advantage = None if agent is None or oracle is None else agent - oracle
    return {"agent/nop": agent, "oracle/nop": oracle, "advantage": advantage}


def cost_weighted(advantages: list[float], costs: list[float]) -> float | None:
    advantage, cost = exact_mean(advantages), exact_mean(costs)
    if advantage is None or cost is None:
        return None
    return advantage / cost if cost > 0 else 0.0


@cache
def split(name: str) -> tuple[str | None, str | None, str | None]:
    """Module, class, function of a benchmark's name (A10-A15)."""
    name = name.strip()
    name = re.sub(r"\(.*\)\Z", "", name, flags=re.DOTALL).strip()
    before = [part for part in name.split(".") if part]
    function = before.pop() if before else None
    class_ = before.pop() if len(before) > 1 and before[-1][0].isupper() else None
    return ".".join(before) or None, class_, function


def exact_mean(values: list[float]) -> float | None:
    """The mean, rounded once (R18); None of nothing (R16)."""
    return float(sum(map(Fraction, values), Fraction()) / len(values)) if values else None


def ruled_gmean(values: list[float]) -> float | None:
    """gmean(1 + a) - 1, the plain mean where some 1 + a <= 0 (F7)."""
    if not values or min(values) <= -1.0:
        return exact_mean(values)
    return geometric_mean([1.0 + value for value in values]) - 1.0


def _pytest_failed(sub: SubTrial, trial: list[SubTrial]) -> bool:
    if not sub.has_counts:
        return True  # (R5)
    oracles = [other for other in trial if other.agent == "oracle"]
    return sub.failures > (oracles[0].failures if oracles else 0)  # (D8)


def _snapshot_failed(metrics: Json) -> bool:
    passed = str(metrics.get("snapshot_status")).lower() == "passed"
    return not passed or int(metrics.get("snapshot_pass_to_fail") or 0) > 0  # (D10)


def valid_ratio(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None


def _shown(entry: Any) -> tuple[float | None, float | None]:
    if not isinstance(entry, dict):
        return None, None
    return valid_ratio(entry.get("agent/nop")), valid_ratio(entry.get("oracle/nop"))


def _advantages(valid: dict[str, tuple[float, float]]) -> dict[str, float | None]:
    result: dict[str, float | None] = {}
    for level, depth in ((1, 1), (2, 2), (3, 3), (4, 0)):
        groups: dict[tuple[str | None, ...], list[tuple[float, float]]] = defaultdict(list)
        for name, pair in valid.items():
            groups[split(name)[:depth]].append(pair)
        differences = [
            geometric_mean([a for a, _ in pairs]) - geometric_mean([o for _, o in pairs])
            for pairs in groups.values()
        ]
        result[f"agent_advantage_level{level}"] = sum(differences) / len(differences) if differences else 0.0
    return result | {"agent_advantage": result["agent_advantage_level4"]}
