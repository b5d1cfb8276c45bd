"""Counting: scored trials in the groups and the totals of a run, many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamer.aggregate.group import GroupState, Owner, accuracies, change, count, count_all
from streamer.aggregate.keys import GroupId, SlotKey, groups_of
from streamer.schemas.canonical import json_count, json_number
from streamer.score import NOP, Scored
from streamer.stats.exact_sum import ExactSum
from streamer.stats.pass_at_k import PassAtK


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one trial: a slot of its own, or all sub-trials of a trial group (R10).

    Attributes:
        task_id: the task.
        tier: the prompt tier; None where there is none.
        resolved: the verdict, None without one (R19).
        failure_mode: of the sub-trial that decides.
        speedup_percentage: FormulaCode's, of the sub-trial that decides; None where not measured (F8).
        compared: False if only baselines took part; such a trial is left out of pass@k (R4).
        infrastructure_failure: it is unresolved because the infrastructure failed.
        with_benchmarks: the sub-trial that decides counts with benchmarks.
        unmeasured_failure: the sub-trial that decides failed, and no section of the group is FormulaCode's.
    """

    task_id: str
    tier: str | None
    resolved: bool | None
    failure_mode: str | None
    speedup_percentage: float | None
    compared: bool
    infrastructure_failure: bool
    with_benchmarks: bool
    unmeasured_failure: bool


SEVERAL = ("", "")
"""Agent and model of a trial in which several took part; no agent has an empty name."""

_SUMMED = {
    "cost_usd": "cost_usd",
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_tokens": "cache_read",
    "cache_write_tokens": "cache_write",
}
_COVERED = ("impl_rate", "duration_seconds", "trajectory_length")


class RunTotals:
    """What the run summary counts. With the sign -1, every `count_*` takes back what it counts with 1.

    Attributes:
        owners: trials by agent, model and tier, those of several agents under :data:`SEVERAL`; without
            those of baselines. pass@k stands where all are the same (R11).
        attempts: of all trials.
        pass_at_k: the attempts of trials in which not only baselines took part (R4).
        with_formulacode: slots that carry FormulaCode's sections, or whose trial group does.
    """

    def __init__(self) -> None:
        self.trials = 0
        self.resolved = 0
        self.no_verdict = 0
        self.infrastructure_failures = 0
        self.with_benchmarks = 0
        self.unmeasured_failures = 0
        self.slots = 0
        self.with_formulacode = 0
        self.failure_modes: Counter[str] = Counter()
        self.owners: Counter[Owner] = Counter()
        self.covered: Counter[str] = Counter()
        self.attempts = PassAtK()
        self.pass_at_k = PassAtK()
        self.speedup_percentage = ExactSum()
        self.sums = {metric: ExactSum() for metric in _SUMMED}

    def count_outcome(self, outcome: Outcome, sign: int) -> None:
        """Count a trial (`sign` 1) or take it back (-1)."""
        self.trials += sign
        self.resolved += sign * (outcome.resolved is True)
        self.no_verdict += sign * (outcome.resolved is None)
        self.infrastructure_failures += sign * outcome.infrastructure_failure
        self.with_benchmarks += sign * outcome.with_benchmarks
        self.unmeasured_failures += sign * outcome.unmeasured_failure
        if outcome.failure_mode is not None:
            count(self.failure_modes, outcome.failure_mode, sign)
        if outcome.speedup_percentage is not None:
            change(self.speedup_percentage, ExactSum.of([outcome.speedup_percentage]), sign)
        attempts = PassAtK.of([(outcome.task_id, outcome.resolved is True)])
        self._count_attempts(attempts, sign, compared=outcome.compared)
        if outcome.compared:
            count(self.owners, (*SEVERAL, outcome.tier), sign)

    def count_trials(self, group: GroupState, sign: int, owner: Owner, *, compared: bool) -> None:
        """Count trials of their own of one agent:model in one tier, or take them back.

        Args:
            compared: the agent is no baseline.
        """
        self.trials += sign * group.trials
        self.resolved += sign * group.resolved
        self.no_verdict += sign * group.no_verdict
        self.infrastructure_failures += sign * group.infrastructure_failures
        self.with_benchmarks += sign * group.formulacode.with_benchmarks
        if owner[0] != NOP:
            self.unmeasured_failures += sign * (group.failures - group.formulacode.failures)
        count_all(self.failure_modes, group.failure_modes, sign)
        change(self.speedup_percentage, group.formulacode.speedup_percentage, sign)
        self._count_attempts(group.pass_at_k, sign, compared=compared)
        if compared:
            count(self.owners, owner, sign * group.trials)

    def count_spent(self, group: GroupState, sign: int) -> None:
        """Count what slots spend (`sign` 1) or take it back (-1)."""
        self.slots += sign * group.trials
        self.with_formulacode += sign * group.formulacode.trials
        for metric, held in self.sums.items():
            change(held, group.sums.get(metric) or group.distributions[metric].finite, sign)
        for metric in _COVERED:
            counted = group.sums.get(metric) or group.distributions[metric]
            self.covered[metric] += sign * counted.count

    def _count_attempts(self, attempts: PassAtK, sign: int, *, compared: bool) -> None:
        change(self.attempts, attempts, sign)
        if compared:
            change(self.pass_at_k, attempts, sign)

    def body(self, planned_attempts: int | None, planned_tasks: int | None) -> dict[str, Any]:
        """The run summary's fields that come from these totals."""
        cost = self.sums["cost_usd"]
        return {
            "trials": self.trials,
            "tasks": self.attempts.tasks,
            "resolved": self.resolved,
            "unresolved": self.trials - self.resolved,
            "no_verdict": self.no_verdict,
            **accuracies(self.resolved, self.trials, self.infrastructure_failures),
            "pass_at_k": self.pass_at_k.summary(planned_attempts, planned_tasks)
            if len(self.owners) <= 1
            else None,
            "total_cost": json_number(cost.total()) if cost.count else None,
            "tokens": {
                name: json_count(self.sums[metric].total()) if self.sums[metric].count else None
                for metric, name in _SUMMED.items()
                if name != metric
            },
            "mean_speedup_percentage": json_number(self._mean_speedup_percentage()),
            "failure_modes": dict(self.failure_modes),
            "coverage": {metric: held.count for metric, held in self.sums.items()}
            | {metric: self.covered[metric] for metric in _COVERED},
        }

    def _mean_speedup_percentage(self) -> float | None:
        """Mean over the trials that have one (F8).

        Where benchmarks are measured, a failure that measured nothing counts with 0 %: its speedup is 1.0
        (R21). Without any benchmarks the percentages are those of the old result format, as it has them.
        """
        total = ExactSum()
        total.merge(self.speedup_percentage)
        if self.with_benchmarks:
            total.extend([0.0] * self.unmeasured_failures)
        return total.mean()


Cell = tuple[str, str, str | None, bool]
"""(agent, model, tier, whether a trial of its own): trials that count in the same groups and totals."""

Waiting = dict[Cell, list[tuple[SlotKey, Scored]]]

_MOST_WAITING = 16_384
"""Trials that may wait to be counted, 500 bytes each: a few megabytes for a large run."""


class Counts:
    """Groups and totals, and the scored trials that wait to be counted in them.

    Counting many trials at once costs a tenth of counting each as it comes, so trials wait until `count`.

    Attributes:
        groups: those that had trials at the last `count`.
        totals: as of the last `count`.
        waiting: how many trials wait.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: it will be counted again."""
        self.groups: dict[GroupId, GroupState] = {}
        self.totals = RunTotals()
        self._entered: Waiting = {}
        self._left: Waiting = {}
        self.waiting = 0
        self._marks: dict[GroupId, tuple[int, int]] = {}

    def enter(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        """Count a trial in, of its own (`single`) or a sub-trial; True if it is time to count."""
        return self._wait(self._entered, key, scored, single=single)

    def leave(self, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        """Take back exactly what one of the above counted; True if it is time to count."""
        return self._wait(self._left, key, scored, single=single)

    def _wait(self, waiting: Waiting, key: SlotKey, scored: Scored, *, single: bool) -> bool:
        waiting.setdefault((key.agent, key.model, key.tier, single), []).append((key, scored))
        self.waiting += 1
        return self.waiting >= _MOST_WAITING

    def mark(self, group_id: GroupId, superseded: int, conflicts: int) -> None:
        """Count more, or fewer, losers and conflicts in a group."""
        before = self._marks.get(group_id, (0, 0))
        marks = self._marks[group_id] = (before[0] + superseded, before[1] + conflicts)
        group = self.groups.get(group_id)
        if group is not None:
            group.superseded, group.conflicts = marks

    def count(self, is_baseline: Callable[[str], bool]) -> set[GroupId]:
        """Count what waits; the groups that it changed."""
        entered, left = self._entered, self._left
        self._entered, self._left, self.waiting = {}, {}, 0
        return self._count(entered, 1, is_baseline) | self._count(left, -1, is_baseline)

    def _count(self, waiting: Waiting, sign: int, is_baseline: Callable[[str], bool]) -> set[GroupId]:
        changed: set[GroupId] = set()
        for (agent, model, tier, single), trials in waiting.items():
            part, baseline = GroupState.of(trials), is_baseline(agent)
            if single:
                self.totals.count_trials(part, sign, (agent, model, tier), compared=not baseline)
            self.totals.count_spent(part, sign)
            for group_id in groups_of(agent, model, tier, baseline=baseline):
                self._count_in(group_id, part, sign)
                changed.add(group_id)
        return changed

    def _count_in(self, group_id: GroupId, part: GroupState, sign: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = GroupState()
            group.superseded, group.conflicts = self._marks.get(group_id, (0, 0))
        change(group, part, sign)
        if not group.trials:
            del self.groups[group_id]
