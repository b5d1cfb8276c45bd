"""FormulaCode's running aggregate of one group: the specification's run-level table, exact and removable."""

from __future__ import annotations

import math
from typing import Any

from streamer.score import ADVANTAGES, FormulaCodeScore, Scored
from streamer.stats import ExactSum, json_number


class FormulaCodeState:
    """Sums over the trials of a group that carry FormulaCode's sections."""

    def __init__(self) -> None:
        self.trials = 0
        self.fallbacks = 0
        self.claimed = 0
        self.num_benchmarks = 0
        self.num_valid_benchmarks = 0
        self.speedup = ExactSum()
        self.advantages = {name: ExactSum() for name in ADVANTAGES}
        self.logs = {name: ExactSum() for name in ADVANTAGES}
        self.without_log = dict.fromkeys(ADVANTAGES, 0)
        self.paired_advantage = ExactSum()
        self.paired_cost = ExactSum()

    def count(self, scored: Scored, score: FormulaCodeScore, sign: int) -> None:
        """Count a trial (`sign` 1) or take it back (-1)."""
        self.trials += sign
        self.fallbacks += sign * score.fallback
        self.claimed += sign * score.claimed
        self.num_benchmarks += sign * score.num_benchmarks
        self.num_valid_benchmarks += sign * score.num_valid_benchmarks
        if score.task_speedup is not None:
            _shift(self.speedup, score.task_speedup, sign)
        if score.advantages is None:
            return
        for name, advantage in zip(ADVANTAGES, score.advantages, strict=True):
            if advantage is None:
                continue
            _shift(self.advantages[name], advantage, sign)
            if advantage > -1.0:
                _shift(self.logs[name], math.log(1.0 + advantage), sign)
            else:
                self.without_log[name] += sign
        overall = score.advantages[0]
        if scored.cost_usd is not None and overall is not None:
            _shift(self.paired_advantage, overall, sign)
            _shift(self.paired_cost, scored.cost_usd, sign)

    def body(
        self,
        success_rate: float | None,
        mean_cost: float | None,
        trajectory_length: float | None,
        *,
        nop: bool,
    ) -> dict[str, Any]:
        """The agent's numbers under the specification's own names, and what each rests on."""
        means = {name: json_number(held.mean()) for name, held in self.advantages.items()}
        gmeans = {name: json_number(self._gmean(name)) for name in ADVANTAGES}
        return means | {
            "mean_speedup": json_number(self.speedup.mean()),
            "mean_success_rate": json_number(success_rate),
            "num_benchmarks": self.num_benchmarks,
            "num_valid_benchmarks": self.num_valid_benchmarks,
            "mean_cost_per_task": json_number(mean_cost),
            "cost_weighted_advantage": json_number(self._cost_weighted()),
            "mean_trajectory_length": json_number(trajectory_length),
            "agent_advantages_gmean": None if nop else gmeans,
            "fallbacks": self.fallbacks,
            "claimed": self.claimed,
            "coverage": {
                "task_speedup": self.speedup.count,
                "agent_advantage": self.advantages[ADVANTAGES[0]].count,
                "cost_weighted_advantage": self.paired_cost.count,
            },
        }

    def _cost_weighted(self) -> float | None:
        """Mean advantage / mean cost over the trials that have both; 0 where that mean cost is 0 (R25)."""
        advantage, cost = self.paired_advantage.mean(), self.paired_cost.mean()
        if advantage is None or cost is None:
            return None
        return advantage / cost if cost > 0 else 0.0

    def _gmean(self, name: str) -> float | None:
        """gmean(1 + a) - 1 where every 1 + a > 0, else the arithmetic mean (F7)."""
        mean_log = self.logs[name].mean()
        if self.without_log[name] or mean_log is None:
            return self.advantages[name].mean()
        return math.exp(mean_log) - 1.0


def _shift(held: ExactSum, value: float, sign: int) -> None:
    (held.add if sign > 0 else held.remove)(value)
