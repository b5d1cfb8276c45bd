"""Running aggregate of one group of trials: an agent:model, a tier, an agent:model within a tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from streamer.aggregate.formulacode import FormulaCodeState
from streamer.aggregate.slots import SlotKey
from streamer.aggregate.tally import json_count, tally_all
from streamer.aggregate.trials import COMPOSITE, DISTRIBUTED, SUMMED, Trials
from streamer.score import GradingProfile, Scored
from streamer.stats import Attempts, Distribution, ExactSum, PassAtK, Shares, json_number


class GroupState:
    """State of one group. Counting trials in and out is inverse; `body` is what its summary says."""

    __slots__ = (
        "conflicts",
        "distributions",
        "failure_modes",
        "formulacode",
        "no_verdict",
        "pass_at_k",
        "passes_with_cost",
        "resolved",
        "subtests",
        "sums",
        "superseded",
        "trials",
    )

    def __init__(self) -> None:
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.superseded = 0
        self.conflicts = 0
        self.passes_with_cost = 0
        self.failure_modes: Counter[str] = Counter()
        self.subtests: Counter[str] = Counter()
        self.formulacode: FormulaCodeState | None = None
        self.pass_at_k = PassAtK()
        self.distributions: dict[str, Distribution | Shares] = {
            metric: Shares() if metric == "pass_rate" else Distribution() for metric in DISTRIBUTED
        }
        self.sums = {metric: ExactSum() for metric in SUMMED}

    def add(self, key: SlotKey, scored: Scored) -> None:
        """Count one trial."""
        self.count([Trials.of([(key, scored)])], 1)

    def remove(self, key: SlotKey, scored: Scored) -> None:
        """Take back exactly what :meth:`add` counted."""
        self.count([Trials.of([(key, scored)])], -1)

    def count(self, parts: Sequence[Trials], sign: int = 1) -> None:
        """Count trials (`sign` 1), or take back exactly what was counted (-1)."""
        for trials in parts:
            self.trials += sign * trials.number
            self.resolved += sign * trials.resolved
            self.no_verdict += sign * trials.no_verdict
            self.passes_with_cost += sign * trials.passes_with_cost
            tally_all(self.failure_modes, trials.failure_modes, sign)
            tally_all(self.subtests, trials.subtests, sign)
            if trials.formulacode.pairs:
                self.formulacode = self.formulacode or FormulaCodeState()
                self.formulacode.count_all(trials.formulacode, sign)
            for metric, held in self.distributions.items():
                if values := trials.values[metric]:
                    (held.extend if sign > 0 else held.withdraw)(values)
            for metric, total in self.sums.items():
                if values := trials.values[metric]:
                    (total.merge if sign > 0 else total.unmerge)(values.sums)
        attempts = Attempts.together([trials.attempts for trials in parts])
        (self.pass_at_k.extend if sign > 0 else self.pass_at_k.withdraw)(attempts)

    def median(self, metric: str) -> float | None:
        """Median of a metric with statistics, None where no trial has it."""
        return self.composite().median() if metric == COMPOSITE else self.distributions[metric].median()

    def composite(self) -> Distribution | Shares:
        """Composite scores: of the judged trials, or the pass rates where none is judged (R13)."""
        return self.distributions[COMPOSITE if self.judged else "pass_rate"]

    @property
    def judged(self) -> bool:
        return self.distributions["impl_rate"].count > 0

    def cost_of_pass(self) -> float | None:
        """Known cost per pass in USD, rounded once: infinite without a pass, None without a cost (R14)."""
        cost = self.distributions["cost_usd"]
        if not cost.count:
            return None
        return cost.total_over(self.passes_with_cost) if self.passes_with_cost else inf

    def body(
        self,
        profile: GradingProfile,
        planned: int | None,
        planned_attempts: int | None,
        planned_tasks: int | None,
    ) -> dict[str, Any]:
        """Everything that the summaries of all groups have in common."""
        statistics = {metric: held.summary(profile.ddof) for metric, held in self.distributions.items()}
        composite = statistics[COMPOSITE] = self.composite().summary(profile.ddof)
        cost = self.distributions["cost_usd"]
        total_cost = cost.total() if cost.count else None
        return {
            "trials": self.trials,
            "tasks": self.pass_at_k.tasks,
            "resolved": self.resolved,
            "unresolved": self.trials - self.resolved,
            "no_verdict": self.no_verdict,
            "runs_planned": planned,
            "provisional": planned is not None and self.trials < planned,
            "accuracy": self.resolved / self.trials if self.trials else None,
            "pass_at_k": self.pass_at_k.summary(planned_attempts, planned_tasks),
            "total_cost": json_number(total_cost),
            "mean_cost": statistics["cost_usd"]["mean"],
            "cost_of_pass": json_number(self.cost_of_pass()),
            "tokens": self.tokens(),
            "mean_trajectory_length": json_number(self.sums["trajectory_length"].mean()),
            "statistics": statistics,
            "coverage": self.coverage(),
            "failure_modes": dict(self.failure_modes),
            "grade": profile.grade(composite["median"]),
            "grading_profile": profile.name,
            "composite_basis": ("judged" if self.judged else "pass_only") if self.trials else None,
        }

    def formulacode_body(self, *, nop: bool) -> dict[str, Any] | None:
        """FormulaCode's numbers of the group; None where no trial carries its sections.

        A trial that ended without any payload counts as a failure in the success rate (R21).
        """
        if self.formulacode is None or not self.formulacode.trials:
            return None
        return self.formulacode.body(
            self.distributions["pass_rate"].mean(),
            self.distributions["cost_usd"].mean(),
            self.sums["trajectory_length"].mean(),
            nop=nop,
        )

    def coverage(self) -> dict[str, int]:
        """How many trials had each metric (R1)."""
        held = {metric: distribution.count for metric, distribution in self.distributions.items()}
        held[COMPOSITE] = self.composite().count
        return held | {metric: total.count for metric, total in self.sums.items()}

    def tokens(self) -> dict[str, int | float | None]:
        """Token totals; None where no trial reports that kind."""
        return {
            "input": _whole(self.distributions["input_tokens"]),
            "output": _whole(self.distributions["output_tokens"]),
            "cache_read": _whole(self.sums["cache_read_tokens"]),
            "cache_write": _whole(self.sums["cache_write_tokens"]),
        }


def _whole(held: Distribution | Shares | ExactSum) -> int | float | None:
    return json_count(held.total()) if held.count else None
