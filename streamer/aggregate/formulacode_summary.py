"""FormulaCode's block in the summary of an agent:model: its means, what they rest on, the error of one."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.evidence import Evidence
from streamer.aggregate.group import GroupState
from streamer.aggregate.missing import MissingTrials
from streamer.aggregate.uncertainty import error_body


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
    unmeasured = 0 if nop else group.trials - group.passes - group.formulacode.failures
    trials = group.trials + missing.sums.trials
    sums = group.formulacode.plus(missing.sums, unmeasured)
    body = sums.body(
        group.passes / trials if trials else None,
        group.distributions["cost_usd"].mean(),
        group.sums["trajectory_length"].mean(),
        nop=nop,
    )
    error = error_body(evidence.speedups(sums.speedup, missing) if evidence else None)
    errors = {f"mean_speedup_{name}": value for name, value in error.items()}
    return body | errors | {"missing": missing.sums.trials}
