"""FormulaCode's running aggregate of one group: the specification's run-level table, exact and removable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from streamer.aggregate.tally import json_count
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
        self.count_all([(scored, score)], sign)

    def count_all(self, trials: Sequence[tuple[Scored, FormulaCodeScore]], sign: int) -> None:
        """Count trials (`sign` 1) or take them back (-1)."""
        scores = [score for _, score in trials]
        self.trials += sign * len(scores)
        self.fallbacks += sign * sum(score.fallback for score in scores)
        self.claimed += sign * sum(score.claimed for score in scores)
        self.num_benchmarks += sign * sum(score.num_benchmarks for score in scores)
        self.num_valid_benchmarks += sign * sum(score.num_valid_benchmarks for score in scores)
        _shift(self.speedup, [s.task_speedup for s in scores if s.task_speedup is not None], sign)
        levels = zip(*(score.advantages for score in scores if score.advantages is not None), strict=True)
        for name, level in zip(ADVANTAGES, levels, strict=False):
            advantages = [advantage for advantage in level if advantage is not None]
            logs = [math.log(1.0 + advantage) for advantage in advantages if advantage > -1.0]
            _shift(self.advantages[name], advantages, sign)
            _shift(self.logs[name], logs, sign)
            self.without_log[name] += sign * (len(advantages) - len(logs))
        pairs = [
            (score.advantages[0], scored.cost_usd)
            for scored, score in trials
            if score.advantages is not None
            and score.advantages[0] is not None
            and scored.cost_usd is not None
        ]
        _shift(self.paired_advantage, [advantage for advantage, _ in pairs], sign)
        _shift(self.paired_cost, [cost for _, cost in pairs], sign)

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
            "num_benchmarks": json_count(self.num_benchmarks),
            "num_valid_benchmarks": json_count(self.num_valid_benchmarks),
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


def _shift(held: ExactSum, values: Sequence[float], sign: int) -> None:
    (held.extend if sign > 0 else held.withdraw)(values)
