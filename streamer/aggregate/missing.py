"""Planned agents that have no sub-trial in a trial: they count as agents that changed nothing (R21)."""

from __future__ import annotations

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slot_key import SlotKey, TrialGroupKey
from streamer.score import NOP, FormulaCodeScore

AgentModel = tuple[str, str]
"""(agent, model)."""


def missing_sub_trials(run: RunState) -> dict[AgentModel, FormulaCodeSums]:
    """FormulaCode's sums over the multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out. The plan of a pooled
    run names the agents of all its shards, so a shard only lacks agents that it has elsewhere.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if run.plan.finished is None or not planned or not run.totals.with_formulacode:
        return {}
    groups = run.scores.trial_groups()
    of_shard: dict[str, set[AgentModel]] = {}
    for group, keys in groups.items():
        of_shard.setdefault(group.shard, set()).update((key.agent, key.model) for key in keys)
    missing: dict[AgentModel, list[FormulaCodeScore]] = {}
    for group, keys in groups.items():
        expected = planned & of_shard[group.shard] if group.shard else planned
        for owner in expected.difference((key.agent, key.model) for key in keys):
            if not _has_a_trial_of_its_own(run, group, owner):
                missing.setdefault(owner, []).append(run.scores.of_missing(group))
    return {owner: FormulaCodeSums.of(scores, failures=len(scores)) for owner, scores in missing.items()}


def _has_a_trial_of_its_own(run: RunState, group: TrialGroupKey, owner: AgentModel) -> bool:
    """Whether the agent has a result at the place of the trial, though not as one of its sub-trials (R10)."""
    place = SlotKey(group.shard, group.task_id, group.attempt, *owner, group.tier, group.subtest)
    slot = run.slots.get(place)
    return slot is not None and slot.revision is not None
