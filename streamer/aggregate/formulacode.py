"""FormulaCode's running aggregate of one group: the specification's run-level table, exact and removable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from streamer.aggregate.tally import json_count
from streamer.score import ADVANTAGES, FormulaCodeScore, Scored
from streamer.stats import ExactSum, json_number


class _Columns(NamedTuple):
    """What the sums of a group need of some trials: counts, and sums by column; lists are by level."""

    fallbacks: int
    claimed: int
    num_benchmarks: int
    num_valid_benchmarks: int
    speedup: ExactSum
    advantages: list[ExactSum]
    logs: list[ExactSum]
    paired_advantage: ExactSum
    paired_cost: ExactSum


class FormulaCodeTrials:
    """Some trials that carry FormulaCode's sections; what every group needs of them is worked out once."""

    __slots__ = ("_columns", "pairs")

    def __init__(self, pairs: list[tuple[Scored, FormulaCodeScore]]) -> None:
        self.pairs = pairs
        """Each trial's scores, and FormulaCode's part of them."""
        self._columns: _Columns | None = None

    @property
    def columns(self) -> _Columns:
        """To be read only."""
        if self._columns is None:
            self._columns = _columns(self.pairs)
        return self._columns


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

    def count_all(self, trials: FormulaCodeTrials, sign: int) -> None:
        """Count trials (`sign` 1) or take them back (-1)."""
        columns = trials.columns
        self.trials += sign * len(trials.pairs)
        self.fallbacks += sign * columns.fallbacks
        self.claimed += sign * columns.claimed
        self.num_benchmarks += sign * columns.num_benchmarks
        self.num_valid_benchmarks += sign * columns.num_valid_benchmarks
        _shift(self.speedup, columns.speedup, sign)
        for name, advantages, logs in zip(ADVANTAGES, columns.advantages, columns.logs, strict=True):
            _shift(self.advantages[name], advantages, sign)
            _shift(self.logs[name], logs, sign)
            self.without_log[name] += sign * (advantages.count - logs.count)
        _shift(self.paired_advantage, columns.paired_advantage, sign)
        _shift(self.paired_cost, columns.paired_cost, sign)

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


def _columns(pairs: Sequence[tuple[Scored, FormulaCodeScore]]) -> _Columns:
    scores = [score for _, score in pairs]
    levels = list(zip(*(score.advantages for score in scores if score.advantages is not None), strict=True))
    known = [[advantage for advantage in level if advantage is not None] for level in levels]
    known = known or [[] for _ in ADVANTAGES]
    paired = [
        (score.advantages[0], scored.cost_usd)
        for scored, score in pairs
        if score.advantages is not None and score.advantages[0] is not None and scored.cost_usd is not None
    ]
    return _Columns(
        fallbacks=sum(score.fallback for score in scores),
        claimed=sum(score.claimed for score in scores),
        num_benchmarks=sum(score.num_benchmarks for score in scores),
        num_valid_benchmarks=sum(score.num_valid_benchmarks for score in scores),
        speedup=ExactSum.of([score.task_speedup for score in scores if score.task_speedup is not None]),
        advantages=[ExactSum.of(level) for level in known],
        logs=[
            ExactSum.of([math.log(1.0 + advantage) for advantage in level if advantage > -1.0])
            for level in known
        ],
        paired_advantage=ExactSum.of([advantage for advantage, _ in paired]),
        paired_cost=ExactSum.of([cost for _, cost in paired]),
    )


def _shift(held: ExactSum, sums: ExactSum, sign: int) -> None:
    (held.merge if sign > 0 else held.unmerge)(sums)
