"""FormulaCode's running sums of one group: the specification's run-level table, exact and removable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from streamer.schemas.canonical import json_count, json_number
from streamer.schemas.formulacode import ADVANTAGES
from streamer.score import FormulaCodeScore, Scored
from streamer.stats.exact_sum import ExactSum


class FormulaCodeTrials:
    """Some trials that carry FormulaCode's sections; their sums are worked out once for all groups."""

    def __init__(self, pairs: list[tuple[Scored, FormulaCodeScore]]) -> None:
        self.pairs = pairs
        """Each trial's scores, and FormulaCode's part of them."""

    @property
    def failures(self) -> int:
        """How many of the trials failed."""
        return sum(not scored.success for scored, _ in self.pairs)

    @cached_property
    def sums(self) -> FormulaCodeSums:
        """To be read only."""
        return FormulaCodeSums.of([score for _, score in self.pairs], failures=self.failures)


class FormulaCodeSums:
    """Sums over trials that carry FormulaCode's sections; counting in and out is inverse.

    Attributes:
        trials: how many.
        failures: how many of them failed.
    """

    def __init__(self) -> None:
        self.trials = 0
        self.failures = 0
        self.fallbacks = 0
        self.claimed = 0
        self.num_benchmarks = 0
        self.num_valid_benchmarks = 0
        self.speedup = ExactSum()
        self.advantages = {name: ExactSum() for name in ADVANTAGES}
        self.logs = {name: ExactSum() for name in ADVANTAGES}

    @classmethod
    def of(cls, scores: Sequence[FormulaCodeScore], *, failures: int) -> FormulaCodeSums:
        """The sums of some trials, of which so many failed."""
        sums = cls()
        sums.trials, sums.failures = len(scores), failures
        sums.fallbacks = sum(score.fallback for score in scores)
        sums.claimed = sum(score.claimed for score in scores)
        sums.num_benchmarks = sum(score.num_benchmarks for score in scores)
        sums.num_valid_benchmarks = sum(score.num_valid_benchmarks for score in scores)
        sums.speedup.extend([score.task_speedup for score in scores if score.task_speedup is not None])
        levels = zip(*(score.advantages for score in scores if score.advantages is not None), strict=True)
        for name, level in zip(ADVANTAGES, levels, strict=False):  # there are no levels of nothing
            known = [advantage for advantage in level if advantage is not None]
            sums.advantages[name].extend(known)
            sums.logs[name].extend([math.log(1.0 + advantage) for advantage in known if advantage > -1.0])
        return sums

    def count(self, sums: FormulaCodeSums, sign: int) -> None:
        """Count other trials in (`sign` 1), or take back exactly what was counted (-1)."""
        self.trials += sign * sums.trials
        self.failures += sign * sums.failures
        self.fallbacks += sign * sums.fallbacks
        self.claimed += sign * sums.claimed
        self.num_benchmarks += sign * sums.num_benchmarks
        self.num_valid_benchmarks += sign * sums.num_valid_benchmarks
        change = ExactSum.merge if sign > 0 else ExactSum.unmerge
        change(self.speedup, sums.speedup)
        for name in ADVANTAGES:
            change(self.advantages[name], sums.advantages[name])
            change(self.logs[name], sums.logs[name])

    def plus(self, other: FormulaCodeSums, unmeasured_failures: int) -> FormulaCodeSums:
        """The sums of both, and speedup 1.0 for each failed trial without any section (R21)."""
        total = FormulaCodeSums()
        for sums in (self, other):
            total.count(sums, 1)
        total.speedup.extend([1.0] * unmeasured_failures)
        return total

    def minus(self, other: FormulaCodeSums) -> FormulaCodeSums:
        """The sums without those of some of the trials."""
        rest = FormulaCodeSums()
        rest.count(self, 1)
        rest.count(other, -1)
        return rest

    def body(
        self,
        success_rate: float | None,
        mean_cost: float | None,
        trajectory_length: float | None,
        *,
        nop: bool,
    ) -> dict[str, Any]:
        """The agent's numbers under the specification's own names, and what each rests on."""
        means = {name: held.mean() for name, held in self.advantages.items()}
        gmeans = {name: json_number(self._gmean(name)) for name in ADVANTAGES}
        return {name: json_number(mean) for name, mean in means.items()} | {
            "mean_speedup": json_number(self.speedup.mean()),
            "mean_success_rate": json_number(success_rate),
            "num_benchmarks": json_count(self.num_benchmarks),
            "num_valid_benchmarks": json_count(self.num_valid_benchmarks),
            "mean_cost_per_task": json_number(mean_cost),
            "cost_weighted_advantage": json_number(_cost_weighted(means[ADVANTAGES[0]], mean_cost)),
            "mean_trajectory_length": json_number(trajectory_length),
            "agent_advantages_gmean": None if nop else gmeans,
            "fallbacks": self.fallbacks,
            "claimed": self.claimed,
            "coverage": {
                "task_speedup": self.speedup.count,
                "agent_advantage": self.advantages[ADVANTAGES[0]].count,
            },
        }

    def _gmean(self, name: str) -> float | None:
        """gmean(1 + a) - 1 where every 1 + a > 0, else the arithmetic mean (F7)."""
        mean_log = self.logs[name].mean()
        if mean_log is None or self.logs[name].count < self.advantages[name].count:
            return self.advantages[name].mean()
        return math.exp(mean_log) - 1.0


def _cost_weighted(advantage: float | None, mean_cost: float | None) -> float | None:
    """Mean advantage / mean cost, the numbers beside it; 0 if the cost is 0, None if one is unknown (R25)."""
    if advantage is None or mean_cost is None:
        return None
    return advantage / mean_cost if mean_cost > 0 else 0.0
