"""Planned agents that have no sub-trial in a trial: they count as agents that changed nothing (R21)."""

from __future__ import annotations

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.run_state import RunState
from streamer.aggregate.slots import event_of
from streamer.score import NOP, FormulaCodeScore, missing_score

AgentModel = tuple[str, str]
"""(agent, model)."""


def missing_sub_trials(run: RunState) -> dict[AgentModel, FormulaCodeSums]:
    """FormulaCode's sums over the multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if run.plan.finished is None or not planned or not run.totals.with_formulacode:
        return {}
    missing: dict[AgentModel, list[FormulaCodeScore]] = {}
    for keys in run.trial_groups():
        absent = planned.difference((key[3], key[4]) for key in keys)
        if absent:
            score = missing_score([event_of(run.slots[key].raw) for key in keys])
            for owner in absent:
                missing.setdefault(owner, []).append(score)
    return {owner: FormulaCodeSums.of(scores, failures=len(scores)) for owner, scores in missing.items()}
