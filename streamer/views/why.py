"""What moved a number, as models for JSON and as a table with lines for people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pydantic import Field

from streamer.client.moves import Cause, Move, Total, Why
from streamer.schemas.base import Instant, Message, Number
from streamer.schemas.canonical import json_number
from streamer.schemas.identity import agent_model_label
from streamer.schemas.metrics import BOARD_METRICS, named_metric
from streamer.text import UNSEEN, counted, points, visible
from streamer.views import cells
from streamer.views.boards import leaders_of
from streamer.views.columns import Column
from streamer.views.models import Label, TrialRow, described
from streamer.views.tables import Table

CAUSES: dict[Cause, str] = {
    "result": "new result",
    "correction": "correction",
    "verdict": "late verdict",
    "retraction": "retraction",
    "rescoring": "rescored",
    "plan": "plan",
    "end": "end of the run",
    "deletion": "deletion",
}
"""Each cause in the words of the table."""


class MovingTrial(Message):
    """The trial of an event that moved a number."""

    shard: str = described(TrialRow, "shard")
    task_id: str = described(TrialRow, "task_id")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = described(TrialRow, "tier")
    subtest: str | None = described(TrialRow, "subtest")


class MetricMove(Message):
    """One event that moved the number of one agent:model."""

    offset: int = Field(ge=0, description="Of the event in the run's partition; of a file the line from 0.")
    at: Instant | None = Field(description="Timestamp of the event's record; null: it has none.")
    agent_model: Label = Field(description="Whose number moved, label `agent:model`.")
    cause: Cause = Field(
        description="result: the first of a trial. correction: another result of it won. verdict: the same, "
        "where a verdict or a judge's score was missing. retraction: its result was withdrawn. rescoring: "
        "another agent's part in the trial changed (R9). plan, end, deletion: an event of the run."
    )
    trial: MovingTrial | None = Field(description="Of the event; null: the event is about the run.")
    before: Number | None = Field(description="In the unit of the metric; null: unknown.")
    after: Number | None = Field(description="In the unit of the metric; null: unknown.")
    delta: float | None = Field(description="after - before; null: one is unknown or infinite.")


class MetricTotal(Message):
    """All moves of one agent:model together."""

    agent_model: Label
    before: Number | None = Field(description="Before the first move; null: unknown.")
    after: Number | None = Field(description="After the last move; null: unknown.")
    delta: float | None = Field(description="after - before; null: one is unknown or infinite.")
    moves: int = Field(ge=0, description="Events that moved it.")
    up: int = Field(ge=0, description="How many of them raised it.")
    down: int = Field(ge=0, description="How many of them lowered it.")


class MetricMoves(Message):
    """Which events moved a number of a run's agents."""

    run_id: str = Field(description="Run id.")
    metric: str = Field(description="METRIC, built-in or metrics/NAME.")
    unit: str = Field(description='Of the numbers; "1": a plain ratio.')
    state_version: int = Field(description="Offset of the last event folded into the run.")
    log_begins_at: int = Field(
        ge=0, description="Offset at which the run's log begins; above 0: earlier events were deleted."
    )
    totals: list[MetricTotal] = Field(description="One for each agent:model, by label.")
    moves: list[MetricMove] = Field(description="Newest first; at most `limit`.")

    @classmethod
    def of(cls, why: Why) -> MetricMoves:
        """The model of an answer."""
        return cls(
            run_id=why.run_id,
            metric=why.metric.name,
            unit=why.metric.unit,
            state_version=why.state_version,
            log_begins_at=why.log_begins_at,
            totals=[MetricTotal(**_numbers(total)) for total in why.totals],
            moves=[MetricMove(**_numbers(move) | {"trial": _trial(move)}) for move in why.moves],
        )


def moves_table(found: MetricMoves) -> Table:
    """The moves, newest first; no rows where nothing moved."""
    number, change = _writers(found.metric)
    columns = (
        Column("offset", "offset", "count", ("offset",)),
        Column("at", "time, UTC", "name", ("at",), rank=6),
        Column("agent_model", "agent:model", "agent", ("agent_model",), rank=2, least=18),
        Column("cause", "what", "name", ("cause",), rank=4),
        Column("trial", "trial", "name", ("trial",), rank=3, least=16),
        Column("before", "before", "number", ("before",), rank=5),
        Column("after", "after", "number", ("after",), rank=1),
        Column("delta", "change", "number", ("delta",), rank=1),
    )
    rows = [
        [
            str(move.offset),
            UNSEEN if move.at is None else f"{move.at:%Y-%m-%d %H:%M:%S}",
            visible(move.agent_model),
            _what(move),
            _named(move.trial),
            number(move.before),
            number(move.after),
            change(move.delta),
        ]
        for move in found.moves
    ]
    shown = [at for at, _ in enumerate(columns) if at != 1 or any(row[at] != UNSEEN for row in rows)]
    title = f"What moved {visible(found.metric)}, newest first"
    return Table(title, [columns[at] for at in shown], [[row[at] for at in shown] for row in rows])


def totals_lines(found: MetricMoves) -> list[str]:
    """One sentence for each agent:model; safe to print."""
    number, change = _writers(found.metric)
    lines = []
    for total in found.totals:
        about = f"{visible(found.metric)} of {visible(total.agent_model)}"
        if not total.moves:
            lines.append(f"{about} stayed at {number(total.after)}")
            continue
        ends = (total.before, total.after)
        before, after = ("unknown" if value is None else number(value) for value in ends)
        difference = "" if total.delta is None else f" ({change(total.delta)})"
        events = f"{counted(total.moves, 'event')}: {total.up:,} up, {total.down:,} down"
        lines.append(f"{about} moved from {before} to {after}{difference} by {events}")
    return lines


def _numbers(of: Move | Total) -> dict[str, Any]:
    """The fields, with the difference of the two numbers."""
    difference = None if of.before is None or of.after is None else of.after - of.before
    known = difference if isinstance(json_number(difference), float) else None
    return asdict(of) | {"before": json_number(of.before), "after": json_number(of.after), "delta": known}


def _trial(move: Move) -> MovingTrial | None:
    if move.trial is None:
        return None
    key = move.trial
    return MovingTrial(
        shard=key.shard,
        task_id=key.task_id,
        attempt=key.attempt,
        agent_model=agent_model_label(key.agent, key.model),
        tier=key.tier,
        subtest=key.subtest,
    )


def _named(trial: MovingTrial | None) -> str:
    """`task, attempt 2, T1/03`: what is not there is left out."""
    if trial is None:
        return UNSEEN
    task = f"{trial.shard}: {trial.task_id}" if trial.shard else trial.task_id
    attempt = f"attempt {trial.attempt}" * (trial.attempt > 1)
    tier = "/".join(filter(None, (trial.tier, trial.subtest)))
    return visible(", ".join(filter(None, (task, attempt, tier))))


def _what(move: MetricMove) -> str:
    """The cause in words, with the agent whose part in the trial rescored another's."""
    if move.cause == "rescoring" and move.trial is not None:
        return f"rescored by {visible(move.trial.agent_model)}"
    return CAUSES[move.cause]


def _writers(metric: str) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """How the metric and a change of it are written: finer than on boards, since one trial moves little."""
    of = BOARD_METRICS.get(metric) or named_metric(metric, {})
    [column] = [column for column in leaders_of(metric).columns if column.path == ("value",)]
    if column.format == "percent":
        return (
            lambda value: UNSEEN if value is None else f"{value:.2%}".replace("%", " %"),
            lambda delta: points(delta, 2),
        )

    unit = {"1": "", "seconds": " s"}.get(of.unit, f" {of.unit}")
    return (
        lambda value: cells.text(column, {"value": value}),
        lambda delta: UNSEEN if delta is None else f"{delta:+.3g}{unit}",
    )
