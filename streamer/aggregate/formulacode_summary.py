"""FormulaCode's block in the summary of an agent:model: its means, what they rest on, the error of one.

Planned agents that have no sub-trial in a trial count in it as agents that changed nothing (R21).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.group import GroupState
from streamer.aggregate.group_summary import error_body
from streamer.aggregate.keys import TrialGroupKey
from streamer.aggregate.run_state import RunState
from streamer.aggregate.uncertainty import Evidence
from streamer.inference.ability import Clusters
from streamer.score import NOP

AgentModel = tuple[str, str]
"""(agent, model)."""


@dataclass(frozen=True)
class MissingTrials:
    """Multi-agent trials that lack an agent; to be read only.

    Attributes:
        sums: FormulaCode's sums over them; each has a speedup of 1.0.
        tasks: how many there are of each task.
    """

    sums: FormulaCodeSums = field(default_factory=FormulaCodeSums)
    tasks: Counter[str] = field(default_factory=Counter)

    @cached_property
    def speedups(self) -> Clusters:
        """Their speedups, by task."""
        return Clusters.of_counts([(trials, trials, 1) for trials in self.tasks.values()])

    def plus(self, other: MissingTrials) -> MissingTrials:
        """These trials and others."""
        return MissingTrials(self.sums.plus(other.sums, 0), self.tasks + other.tasks)

    def minus(self, other: MissingTrials) -> MissingTrials:
        """The trials without some of them."""
        return MissingTrials(self.sums.minus(other.sums), self.tasks - other.tasks)


def missing_sub_trials(run: RunState) -> dict[AgentModel, MissingTrials]:
    """The multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out. The plan of a pooled
    run names the agents of all its shards, so a shard only lacks agents that it has elsewhere.

    The work grows with the results there are, not with planned agents times trials: agents without any
    sub-trial share what they lack.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if (
        run.plan.finished is None
        or not planned
        or not run.totals.with_formulacode
        or not run.scores.trial_groups()
    ):
        return {}
    missing: dict[AgentModel, MissingTrials] = {}
    for shard in _shards(run, planned):
        for owner in shard.expected:
            if trials := shard.lacking(owner):
                others = missing.get(owner)
                missing[owner] = trials if others is None else others.plus(trials)
    return missing


class _Shard:
    """The multi-agent trials of one shard.

    Attributes:
        groups: the trials.
        expected: the agents of which each should have a sub-trial.
        held: the trials that have a result of an agent, as a sub-trial or beside it (R10).
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self.groups: set[TrialGroupKey] = set()
        self.expected: set[AgentModel] = set()
        self.held: dict[AgentModel, set[TrialGroupKey]] = {}

    def lacking(self, owner: AgentModel) -> MissingTrials | None:
        """The trials that lack an agent; None if there are none."""
        held = self.held.get(owner, set())
        if not held:
            return self._all
        if len(held) == len(self.groups):
            return None
        if 2 * len(held) >= len(self.groups):
            return self._missing(self.groups - held)
        return self._all.minus(self._missing(held))

    @cached_property
    def _all(self) -> MissingTrials:
        """All trials, for an agent that each of them lacks."""
        return self._missing(self.groups)

    def _missing(self, groups: Collection[TrialGroupKey]) -> MissingTrials:
        scores = [self._run.scores.of_missing(group) for group in groups]
        sums = FormulaCodeSums.of(scores, failures=len(scores))
        return MissingTrials(sums, Counter(group.task_id for group in groups))


def _shards(run: RunState, planned: set[AgentModel]) -> list[_Shard]:
    shards: dict[str, _Shard] = {}
    groups = run.scores.trial_groups()
    for group, keys in groups.items():
        shard = shards.setdefault(group.shard, _Shard(run))
        shard.groups.add(group)
        shard.expected.update((key.agent, key.model) for key in keys)
    for name, shard in shards.items():
        shard.expected = planned & shard.expected if name else planned
    for key, slot in run.slots.items():
        group, owner = key.trial_group, (key.agent, key.model)
        if slot.revision is not None and group in groups and owner in planned:
            shards[group.shard].held.setdefault(owner, set()).add(group)
    return list(shards.values())


def formulacode_body(
    group: GroupState,
    missing: MissingTrials | None = None,
    evidence: Evidence | None = None,
    *,
    nop: bool,
) -> dict[str, Any]:
    """FormulaCode's numbers of an agent:model in a run in which any trial has a FormulaCode section.

    A trial that ended without any payload counts as a failure of an agent that changed nothing (R21).

    Args:
        missing: trials in which the agent was planned and has no sub-trial, once the run has finished.
        evidence: for the error of the mean speedup; None for baselines, whose error is null.
        nop: the agent is nop, which never counts as failed.
    """
    missing = missing or MissingTrials()
    unmeasured = 0 if nop else group.failures - group.formulacode.failures
    trials = group.trials + missing.sums.trials
    sums = group.formulacode.plus(missing.sums, unmeasured)
    body = sums.body(
        group.passes / trials if trials else None,
        group.distributions["cost_usd"].mean(),
        group.sums["trajectory_length"].mean(),
        nop=nop,
    )
    speedups = None
    if evidence is not None:
        speedups = evidence.speedups(sums.speedup, missing.tasks) if group.trials else missing.speedups
    error = error_body(speedups)
    errors = {f"mean_speedup_{name}": value for name, value in error.items()}
    return body | errors | {"missing": missing.sums.trials}
