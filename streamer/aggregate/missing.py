"""Planned agents that have no sub-trial in a trial: they count as agents that changed nothing (R21)."""

from __future__ import annotations

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import GroupKey
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
    groups = run.trial_groups()
    of_shard: dict[str, set[AgentModel]] = {}
    for group, keys in groups.items():
        of_shard.setdefault(group[0], set()).update((key[3], key[4]) for key in keys)
    missing: dict[AgentModel, list[FormulaCodeScore]] = {}
    for group, keys in groups.items():
        expected = planned & of_shard[group[0]] if group[0] else planned
        for owner in expected.difference((key[3], key[4]) for key in keys):
            if not _has_a_trial_of_its_own(run, group, owner):
                missing.setdefault(owner, []).append(run.score_of_missing(group))
    return {owner: FormulaCodeSums.of(scores, failures=len(scores)) for owner, scores in missing.items()}


def _has_a_trial_of_its_own(run: RunState, group: GroupKey, owner: AgentModel) -> bool:
    """Whether the agent has a result at the place of the trial, though not as one of its sub-trials (R10)."""
    shard, task_id, attempt, tier, subtest = group
    slot = run.slots.get((shard, task_id, attempt, *owner, tier, subtest))
    return slot is not None and slot.revision is not None
