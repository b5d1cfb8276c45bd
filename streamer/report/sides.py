"""The two sides of a comparison, from runs or from files of events."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from streamer.report.data import RunData
from streamer.schemas.summaries import AgentModelSummary
from streamer.views.compare import side_of
from streamer.views.models import TrialRow

ID_DIGITS = 24


class UnknownAgent(Exception):
    """The run has no such agent:model."""

    def __init__(self, run_id: str, agent_model: str, known: Iterable[str]) -> None:
        labels = sorted(known)
        close = get_close_matches(agent_model, labels, n=3, cutoff=0.4) or labels[:5]
        hint = f"Did you mean {', '.join(close)}?" if close else "It has no results yet."
        super().__init__(f"run {run_id!r} has no agent:model {agent_model!r}. {hint}")


def rows_of(data: RunData, agent_model: str | None) -> list[TrialRow]:
    """The trials of one side.

    Args:
        data: a run with its trials.
        agent_model: whose; None: of all but baselines.

    Raises:
        UnknownAgent: the run has no such agent:model.
    """
    agents = [AgentModelSummary.model_validate(agent) for agent in data.agents]
    labels = {agent.agent_model for agent in agents}
    if agent_model is not None and agent_model not in labels:
        raise UnknownAgent(data.run_id, agent_model, labels)
    rows = [TrialRow.of(trial["digest"][:ID_DIGITS], trial) for trial in data.trials or ()]
    return side_of(rows, agents, agent_model)
