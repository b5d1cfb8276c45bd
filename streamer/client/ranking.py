"""The rows of a board, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamer.client.lifecycle import State
from streamer.client.results import LeaderboardRow
from streamer.schemas.metrics import board_metric
from streamer.schemas.summaries import AgentModelSummary


def ranked(
    metric: str, summaries: Sequence[AgentModelSummary], states: Mapping[str, State]
) -> list[LeaderboardRow]:
    """Rows of a board, best first in the direction of the metric, provisional ones last.

    Args:
        metric: of the board. A named one ranks every agent that has it; planned or not.
        summaries: who may stand on it.
        states: run id to the state of the run.
    """
    stored = [summary.model_dump(mode="json") for summary in summaries]
    of = board_metric(metric, stored)
    if of is None:
        return []
    sign = -1.0 if of.higher_is_better else 1.0
    values = [
        (None if summary.baseline else of.value(fields), summary)
        for fields, summary in zip(stored, summaries, strict=True)
    ]
    known = [(value, summary) for value, summary in values if value is not None]
    known.sort(key=lambda pair: (pair[1].provisional, sign * pair[0], pair[1].run_id, pair[1].agent_model))
    rows: list[LeaderboardRow] = []
    for position, (value, summary) in enumerate(known, start=1):
        last = rows[-1] if rows else None
        tied = last is not None and (last.value, last.provisional) == (value, summary.provisional)
        rows.append(
            LeaderboardRow(
                rank=last.rank if last and tied else position,
                run=summary.run_id,
                agent_model=summary.agent_model,
                value=value,
                provisional=summary.provisional,
                state=states[summary.run_id],
                grade=summary.grade,
                grade_basis=summary.grade_basis,
                grade_provisional=summary.grade_provisional,
                trials=summary.trials,
            )
        )
    return rows
