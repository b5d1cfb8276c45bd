"""FormulaCode's running sums of one group: the specification's run-level table, exact and removable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from streamer.schemas.canonical import json_count, json_number
from streamer.schemas.formulacode import ADVANTAGES
from streamer.score import FormulaCodeScore
from streamer.stats.exact_sum import ExactSum

_FORMULACODE_COUNTS = (
    "trials",
    "failures",
    "fallbacks",
    "claimed",
    "num_benchmarks",
    "num_valid_benchmarks",
    "with_benchmarks",
)


class FormulaCodeSums:
    """Sums over trials that carry FormulaCode's sections. `merge` and `unmerge` are inverse.

    Attributes:
        trials: how many.
        failures: how many of them failed.
        fallbacks, claimed: how many have advantages by the fallback, or claimed ones.
        num_benchmarks, num_valid_benchmarks: of all trials together.
        with_benchmarks: how many count with benchmarks.
        speedup: of the trials that have one.
        speedup_percentage: likewise (F8).
        advantages: level to the advantages of the trials that have them.
        logs: level to log(1 + advantage) of those above -1 (F7).
    """

    def __init__(self) -> None:
        self.trials = 0
        self.failures = 0
        self.fallbacks = 0
        self.claimed = 0
        self.num_benchmarks = 0
        self.num_valid_benchmarks = 0
        self.with_benchmarks = 0
        self.speedup = ExactSum()
        self.speedup_percentage = ExactSum()
        self.advantages = {name: ExactSum() for name in ADVANTAGES}
        self.logs = {name: ExactSum() for name in ADVANTAGES}

    @classmethod
    def of(cls, scores: Sequence[FormulaCodeScore], *, failures: int) -> FormulaCodeSums:
        """The sums of some trials, of which so many failed."""
        sums = cls()
        if not scores:
            return sums
        sums.trials, sums.failures = len(scores), failures
        sums.fallbacks = sum(score.fallback for score in scores)
        sums.claimed = sum(score.claimed for score in scores)
        sums.num_benchmarks = sum(score.num_benchmarks for score in scores)
        sums.num_valid_benchmarks = sum(score.num_valid_benchmarks for score in scores)
        sums.with_benchmarks = sum(score.num_benchmarks > 0 for score in scores)
        sums.speedup.extend([score.task_speedup for score in scores if score.task_speedup is not None])
        percentages = [score.speedup_percentage for score in scores]
        sums.speedup_percentage.extend([known for known in percentages if known is not None])
        levels = zip(*(score.advantages for score in scores if score.advantages is not None), strict=True)
        for name, level in zip(ADVANTAGES, levels, strict=False):  # there are no levels of nothing
            known = [advantage for advantage in level if advantage is not None]
            sums.advantages[name].extend(known)
            sums.logs[name].extend([math.log(1.0 + advantage) for advantage in known if advantage > -1.0])
        return sums

    def merge(self, other: FormulaCodeSums) -> None:
        """Count in all trials of the other, which stays as it is."""
        for name in _FORMULACODE_COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in self._sums(other):
            mine.merge(theirs)

    def unmerge(self, other: FormulaCodeSums) -> None:
        """Undo one `merge` of the other."""
        for name in _FORMULACODE_COUNTS:
            setattr(self, name, getattr(self, name) - getattr(other, name))
        for mine, theirs in self._sums(other):
            mine.unmerge(theirs)

    def _sums(self, other: FormulaCodeSums) -> Iterator[tuple[ExactSum, ExactSum]]:
        """Each sum beside the other's."""
        yield self.speedup, other.speedup
        yield self.speedup_percentage, other.speedup_percentage
        for name in ADVANTAGES:
            yield self.advantages[name], other.advantages[name]
            yield self.logs[name], other.logs[name]

    def plus(self, other: FormulaCodeSums, unmeasured_failures: int) -> FormulaCodeSums:
        """The sums of both, and speedup 1.0 for each failed trial without any section (R21)."""
        total = FormulaCodeSums()
        for sums in (self, other):
            total.merge(sums)
        total.speedup.extend([1.0] * unmeasured_failures)
        return total

    def minus(self, other: FormulaCodeSums) -> FormulaCodeSums:
        """The sums without those of some of the trials."""
        rest = FormulaCodeSums()
        rest.merge(self)
        rest.unmerge(other)
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
