"""Planned agents that have no sub-trial in a trial: they count as agents that changed nothing (R21)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.keys import TrialGroupKey
from streamer.aggregate.run_state import RunState
from streamer.score import NOP

AgentModel = tuple[str, str]
"""(agent, model)."""


def missing_sub_trials(run: RunState) -> dict[AgentModel, FormulaCodeSums]:
    """FormulaCode's sums over the multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out. The plan of a pooled
    run names the agents of all its shards, so a shard only lacks agents that it has elsewhere.

    The work grows with the results there are, not with planned agents times trials: agents without any
    sub-trial share their sums, which are to be read only.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if (
        run.plan.finished is None
        or not planned
        or not run.totals.with_formulacode
        or not run.scores.trial_groups()
    ):
        return {}
    missing: dict[AgentModel, FormulaCodeSums] = {}
    for shard in _shards(run, planned):
        for owner in shard.expected:
            if sums := shard.lacking(owner):
                others = missing.get(owner)
                missing[owner] = sums if others is None else others.plus(sums, 0)
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

    def lacking(self, owner: AgentModel) -> FormulaCodeSums | None:
        """Sums over the trials that lack an agent; None if there are no such trials."""
        held = self.held.get(owner, set())
        if not held:
            return self._all
        if len(held) == len(self.groups):
            return None
        if 2 * len(held) >= len(self.groups):
            return self._sums(self.groups - held)
        return self._all.minus(self._sums(held))

    @cached_property
    def _all(self) -> FormulaCodeSums:
        """Sums for an agent that all trials lack."""
        return self._sums(self.groups)

    def _sums(self, groups: Collection[TrialGroupKey]) -> FormulaCodeSums:
        scores = [self._run.scores.of_missing(group) for group in groups]
        return FormulaCodeSums.of(scores, failures=len(scores))


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
