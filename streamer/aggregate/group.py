"""Running aggregate of one group of trials: an agent:model, a tier, an agent:model within a tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.keys import SlotKey
from streamer.aggregate.tally import count_all_of, count_values, json_count, tally_all
from streamer.aggregate.trials import COMPOSITE, DISTRIBUTED, SUMMED, Trials
from streamer.score import GradingProfile, Scored, cost_of_pass
from streamer.stats import Attempts, Distribution, ExactSum, PassAtK, Shares, json_number

Owner = tuple[str, str, str | None]
"""(agent, model, tier)."""

GradeBasis = Literal["composite_median", "mean_pass_rate"]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What the plan of a run says of one group.

    Attributes:
        trials: planned trials of the group; None: nobody said (R26).
        attempts: planned attempts at each task; None: nobody said.
        tasks: planned tasks; None: nobody said.
        judged: whether trials get a judge's score; None: as seen (R13).
        finished: the run has ended, so nothing is awaited any more.
    """

    trials: int | None
    attempts: int | None
    tasks: int | None
    judged: bool | None
    finished: bool


class GroupState:
    """State of one group. Counting trials in and out is inverse; `body` is what its summary says.

    Attributes:
        owners: the trials by agent, model and tier; pass@k stands where those are all the same (R11).
    """

    __slots__ = (
        "conflicts",
        "distributions",
        "failure_modes",
        "formulacode",
        "infrastructure_failures",
        "no_verdict",
        "owners",
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
        self.infrastructure_failures = 0
        self.superseded = 0
        self.conflicts = 0
        self.passes_with_cost = 0
        self.failure_modes: Counter[str] = Counter()
        self.subtests: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.formulacode = FormulaCodeSums()
        self.pass_at_k = PassAtK()
        self.distributions: dict[str, Distribution] = {
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
            self.infrastructure_failures += sign * trials.infrastructure_failures
            self.passes_with_cost += sign * trials.passes_with_cost
            tally_all(self.failure_modes, trials.failure_modes, sign)
            tally_all(self.subtests, trials.subtests, sign)
            if trials.formulacode.pairs:
                self.formulacode.count(trials.formulacode.sums, sign)
            for metric, held in self.distributions.items():
                if values := trials.values[metric]:
                    count_values(held, values, sign)
            for metric, total in self.sums.items():
                if values := trials.values[metric]:
                    count_all_of(total, values.sums, sign)
        attempts = Attempts.together([trials.attempts for trials in parts])
        count_values(self.pass_at_k, attempts, sign)

    @property
    def passes(self) -> int:
        """Trials that succeeded (R20)."""
        return int(self.distributions["pass_rate"].total())

    def grade_basis(self, judged: bool | None) -> GradeBasis | None:
        """What the grade rests on (R13); None: there is no trial.

        Args:
            judged: what the plan says; None: as seen.
        """
        if not self.trials:
            return None
        seen = self.distributions["impl_rate"].count > 0
        return "composite_median" if (seen if judged is None else judged) else "mean_pass_rate"

    def grade_score(self, judged: bool | None) -> float | None:
        """The number that the grade rests on (R13); None while a judged group has no score."""
        basis = self.grade_basis(judged)
        if basis == "composite_median":
            return self.distributions[COMPOSITE].median()
        return self.distributions["pass_rate"].mean() if basis else None

    def cost_of_pass(self) -> float | None:
        """Known cost per pass in USD, rounded once (R14); None of no trial."""
        if not self.trials:
            return None
        paid = self.passes_with_cost
        return cost_of_pass(self.distributions["cost_usd"].total_over(paid) if paid else None, self.passes)

    def body(self, profile: GradingProfile, plan: GroupPlan) -> dict[str, Any]:
        """Everything that the summaries of all groups have in common."""
        statistics = {metric: held.summary(profile.ddof) for metric, held in self.distributions.items()}
        cost, score, basis = (
            self.distributions["cost_usd"],
            self.grade_score(plan.judged),
            self.grade_basis(plan.judged),
        )
        awaited = basis == "composite_median" and self.distributions[COMPOSITE].count < self.trials
        return {
            "trials": self.trials,
            "tasks": self.pass_at_k.tasks,
            "resolved": self.resolved,
            "unresolved": self.trials - self.resolved,
            "no_verdict": self.no_verdict,
            "runs_planned": plan.trials,
            "provisional": plan.trials is not None and self.trials < plan.trials,
            **accuracies(self.resolved, self.trials, self.infrastructure_failures),
            "pass_at_k": self.pass_at_k.summary(plan.attempts, plan.tasks) if len(self.owners) <= 1 else None,
            "total_cost": json_number(cost.total()) if cost.count else None,
            "mean_cost": statistics["cost_usd"]["mean"],
            "cost_of_pass": json_number(self.cost_of_pass()),
            "tokens": self.tokens(),
            "mean_trajectory_length": json_number(self.sums["trajectory_length"].mean()),
            "statistics": statistics,
            "coverage": self.coverage(),
            "failure_modes": dict(self.failure_modes),
            "grade": profile.grade(score),
            "grade_basis": basis,
            "grade_score": score,
            "grade_provisional": awaited and not plan.finished,
            "grading_profile": profile.name,
        }

    def formulacode_body(self, *, nop: bool, missing: FormulaCodeSums | None = None) -> dict[str, Any]:
        """FormulaCode's numbers of an agent:model in a run in which any trial has a FormulaCode section.

        A trial that ended without any payload counts as a failure of an agent that changed nothing (R21).

        Args:
            nop: the agent is nop, which never counts as failed.
            missing: trials in which the agent was planned and has no sub-trial, once the run has finished.
        """
        missing = missing or FormulaCodeSums()
        unmeasured = 0 if nop else self.trials - self.passes - self.formulacode.failures
        trials = self.trials + missing.trials
        body = self.formulacode.plus(missing, unmeasured).body(
            self.passes / trials if trials else None,
            self.distributions["cost_usd"].mean(),
            self.sums["trajectory_length"].mean(),
            nop=nop,
        )
        return body | {"missing": missing.trials}

    def coverage(self) -> dict[str, int]:
        """How many trials had each metric (R1)."""
        held = {metric: distribution.count for metric, distribution in self.distributions.items()}
        return held | {metric: total.count for metric, total in self.sums.items()}

    def tokens(self) -> dict[str, int | float | None]:
        """Token totals; None where no trial reports that kind."""
        return {
            "input": _whole(self.distributions["input_tokens"]),
            "output": _whole(self.distributions["output_tokens"]),
            "cache_read": _whole(self.sums["cache_read_tokens"]),
            "cache_write": _whole(self.sums["cache_write_tokens"]),
        }


def accuracies(resolved: int, trials: int, infrastructure_failures: int) -> dict[str, int | float | None]:
    """Share of resolved trials: of all, and of those that the infrastructure did not fail."""
    left = trials - infrastructure_failures
    return {
        "accuracy": resolved / trials if trials else None,
        "accuracy_excluding_infrastructure": resolved / left if left else None,
        "infrastructure_failures": infrastructure_failures,
    }


def _whole(held: Distribution | ExactSum) -> int | float | None:
    return json_count(held.total()) if held.count else None
