"""The number of one METRIC of an agent:model, without the rest of its summary."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.formulacode_summary import formulacode_body
from streamer.aggregate.group import GroupState
from streamer.aggregate.missing import MissingTrials
from streamer.aggregate.summarise import headline
from streamer.schemas.metrics import BoardMetric
from streamer.score import NOP
from streamer.stats.distribution import Distribution


def board_value(
    metric: BoardMetric, group: GroupState, agent: str, missing: MissingTrials | None, *, formulacode: bool
) -> float | None:
    """What the summary of an agent:model says of a METRIC; None where it is unknown.

    Args:
        metric: a built-in one, or a named one.
        group: the trials of the agent:model.
        agent: its name, since nop never counts as failed.
        missing: the trials that lack a sub-trial of it (R21).
        formulacode: whether any trial of the run carries FormulaCode's sections.
    """
    part, *path = metric.path
    says: dict[str, Any]
    if part in ("statistics", "metrics"):
        of, statistic = path
        held = group.distributions[of] if part == "statistics" else group.named.get(of, Distribution())
        says = {part: {of: {statistic: getattr(held, statistic)()}}}
    elif part == "formulacode":
        says = {part: formulacode_body(group, missing, nop=agent == NOP) if formulacode else None}
    else:
        says = headline(group)
    return metric.value(says)
