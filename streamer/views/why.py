"""The trials that moved a number of a run's agents, and by how much: the run folded event by event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import Field

from streamer.client.folded import fold_run
from streamer.client.queries import UnknownMetric
from streamer.folding.fold import Folded, Pipeline, event_in, fold_records
from streamer.folding.groups import GroupState
from streamer.folding.prices import PriceTable
from streamer.folding.slots import SlotKey, slot_key
from streamer.folding.state import RunState
from streamer.folding.summaries import Moment, Subject, board_value, planned_metrics
from streamer.schemas.base import GroupId, Instant, Message, Number, agent_model_label, json_number
from streamer.schemas.events import (
    BOARD_METRICS,
    NAMED,
    BoardMetric,
    MetricPlan,
    RunDeleted,
    RunFinished,
    RunStarted,
    TrialRetracted,
    TrialScored,
    can_have_board,
    named_metric,
)
from streamer.schemas.wire import LogRecord, Position, Reason, Rejected, time_of
from streamer.settings import Settings
from streamer.text import UNSEEN, counted, points, visible
from streamer.views import cells
from streamer.views.columns import Column, leaders_of
from streamer.views.models import Label, TrialPlace
from streamer.views.tables import Table

# -----------------------------------------------------------------------------
# The moves of a number of a run's agents, which is read again after each event that may have moved it.


Cause = Literal["result", "correction", "verdict", "retraction", "rescoring", "plan", "end", "deletion"]
"""Kinds of events that move a number.

`correction` is another result that won. `verdict` is a correction that adds a verdict or a judge's score, or
a late score. `rescoring` is a new score because another agent's part in the trial changed (R9). `plan` is a
`run_started`, `end` a `run_finished`.
"""


class UnknownAgent(Exception):
    def __init__(self, agent: str, agents: Iterable[str]) -> None:
        super().__init__(f"the run has no agent {agent!r}; it has {', '.join(agents) or 'none'}")


@dataclass(frozen=True, slots=True)
class Move:
    """One event that moved the number of one agent:model.

    Attributes:
        offset: the event's offset; in a file the line's number from 0.
        at: the record's timestamp, if any.
        before, after: the number, in the unit of the metric; may be inf. None: unknown.
    """

    offset: int
    at: datetime | None
    agent_model: str
    cause: Cause
    trial: SlotKey | None
    before: float | None
    after: float | None


@dataclass(slots=True)
class Total:
    """The sum of all moves of one agent:model.

    `moves` counts all events that moved it. Those not in `up` or `down` made the number known or unknown.
    """

    agent_model: str
    before: float | None
    after: float | None
    moves: int = 0
    up: int = 0
    down: int = 0


@dataclass(frozen=True, slots=True)
class Why:
    """The answer to a question, with the latest moves first.

    `log_begins_at` is the first offset of the run's log; above 0, earlier events were deleted.
    """

    run_id: str
    metric: BoardMetric
    state_version: int
    log_begins_at: int
    totals: list[Total]
    moves: list[Move]


class Question(NamedTuple):
    """A question about moves of a METRIC.

    Without `agent`, it covers all except baselines. `since` limits it to events after this position, `most`
    to the latest moves.
    """

    metric: BoardMetric
    agent: str | None = None
    since: Position | None = None
    most: int = 50


@dataclass(slots=True)
class _Followed:
    """One agent:model between events; `unjudged` counts trials without a verdict, and with a score."""

    total: Total
    moves: deque[Move]
    value: float | None = None
    unjudged: tuple[int, int] = (0, 0)


@dataclass
class _RunSeen:
    agents: dict[GroupId, _Followed] = field(default_factory=dict)
    with_formulacode: bool = False
    in_window: bool = False


class Moves:
    """A reader of every agent:model's number after each event that may have moved it."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._of_formulacode = question.metric.path[0] == "formulacode"
        self._runs: dict[str, _RunSeen] = {}

    def after(self, pipeline: Pipeline, records: Sequence[LogRecord], folded: Folded) -> None:
        [record] = records
        for run_id in folded.touched:
            run, seen = pipeline.run(run_id).state, self._runs.setdefault(run_id, _RunSeen())
            since = self._question.since
            seen.in_window = seen.in_window or since is None or not since.includes(record)
            run.count()
            self._look(run, seen, record)

    def answer(self, run: RunState, log_begins_at: int) -> Why:
        agents = self._runs[run.run_id].agents
        agent = self._question.agent
        shown = {
            group: followed
            for group, followed in sorted(agents.items())
            if (agent in (group.agent, group.agent_model) if agent else not _is_baseline(run, group))
        }
        if agent and not shown:
            raise UnknownAgent(agent, sorted(group.agent_model or "" for group in agents))
        for followed in shown.values():
            followed.total.after = followed.value
            if not followed.total.moves:
                followed.total.before = followed.value
        moves = [move for followed in shown.values() for move in followed.moves]
        moves.sort(key=lambda move: -move.offset)
        totals = [followed.total for followed in shown.values()]
        metric, version = self._question.metric, run.state_version
        if metric.name.startswith(NAMED):
            name = metric.name.removeprefix(NAMED)
            metric = named_metric(name, planned_metrics(run.plan).get(name, MetricPlan()).model_dump())
        return Why(run.run_id, metric, version, log_begins_at, totals, moves[: self._question.most])

    def _look(self, run: RunState, seen: _RunSeen, record: LogRecord) -> None:
        changed, _ = run.changes.take_groups()
        due = {group for group in changed if group.tier is None and group.agent is not None}
        at = Moment(run)
        missing = at.missing if self._of_formulacode else {}
        if self._of_formulacode and (at.finished is not None or at.with_formulacode != seen.with_formulacode):
            due |= {*seen.agents, *(GroupId(None, *owner) for owner in missing)}
        seen.with_formulacode = at.with_formulacode
        for group_id in sorted(due):
            of = Subject(at, group_id, run.groups.get(group_id, GroupState()))
            of.has_boards = False  # no error is asked for
            is_there = of.counted.trials or of.owner in missing
            value = board_value(self._question.metric, of) if is_there else None
            self._note(run, seen, group_id, of.counted, value, record)

    def _note(
        self,
        run: RunState,
        seen: _RunSeen,
        group_id: GroupId,
        group: GroupState,
        value: float | None,
        record: LogRecord,
    ) -> None:
        label = group_id.agent_model or ""
        followed = seen.agents.get(group_id)
        if followed is None:
            followed = _Followed(Total(label, None, None), deque(maxlen=self._question.most))
            seen.agents[group_id] = followed
        unjudged = (group.no_verdict, group.distributions["impl_rate"].count)
        before, followed.value = followed.value, value
        if value != before and seen.in_window:
            judged = unjudged[0] < followed.unjudged[0] or unjudged[1] > followed.unjudged[1]
            trial, cause = _cause(run, record, group_id, judged=judged)
            move = Move(record.offset, time_of(record), label, cause, trial, before, value)
            followed.moves.append(move)
            _add(followed.total, move)
        followed.unjudged = unjudged


def _cause(
    run: RunState, record: LogRecord, group_id: GroupId, *, judged: bool
) -> tuple[SlotKey | None, Cause]:
    """The trial and cause of a move; `judged`: the agent:model gained a verdict or a judge's score."""
    event, *_ = event_in(record.value)
    assert not isinstance(event, Reason), "it was folded"
    if isinstance(event, RunStarted):
        return None, "plan"
    if isinstance(event, RunFinished):
        return None, "end"
    if isinstance(event, RunDeleted):
        return None, "deletion"
    key = slot_key(event)
    if (key.agent, key.model) != (group_id.agent, group_id.model):
        return key, "rescoring"
    if isinstance(event, TrialRetracted):
        return key, "retraction"
    if isinstance(event, TrialScored):
        return key, "verdict"
    slot = run.slots.get(key)
    if slot is None or not slot.superseded:
        return key, "result"
    return key, "verdict" if judged else "correction"


def _add(total: Total, move: Move) -> None:
    if not total.moves:
        total.before = move.before
    total.moves += 1
    if move.before is not None and move.after is not None:
        total.up += move.after > move.before
        total.down += move.after < move.before


def _is_baseline(run: RunState, group_id: GroupId) -> bool:
    return run.scores.is_baseline(group_id.agent or "")


# -----------------------------------------------------------------------------
# The trials that moved a number of a run's agents, and by how much: the run folded event by event.


def metric_of(name: str) -> BoardMetric:
    if not can_have_board(name):
        raise UnknownMetric(name)
    return BOARD_METRICS.get(name) or named_metric(name.removeprefix(NAMED), {})


def why(
    settings: Settings, run_id: str, prices: PriceTable, question: Question, as_of: Position | None = None
) -> Why:
    """Events of a run in the log that moved a number; raises UnknownAgent, and what `fold_run` raises."""
    moves = Moves(question)
    folded = fold_run(settings, run_id, prices, as_of, step=1, after=moves.after)
    return moves.answer(folded.run.state, folded.log.begins_at)


def why_in(
    records: Iterable[LogRecord],
    run_id: str | None,
    prices: PriceTable,
    question: Question,
    as_of: Position | None = None,
) -> tuple[Why, list[Rejected]]:
    """Events of a file that moved a number, and the unfoldable records; see `Folding.chosen`."""
    moves, rejected = Moves(question), list[Rejected]()
    folding = fold_records(
        records, prices=prices, on_rejected=rejected.append, as_of=as_of, step=1, after=moves.after
    )
    run = folding.pipeline.run(folding.chosen(run_id))
    return moves.answer(run.state, 0), rejected


# -----------------------------------------------------------------------------
# The moves of a number, as models for JSON and as a table with lines.


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


class MovingTrial(TrialPlace):
    """The trial of an event that moved a number."""


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
        return cls(
            run_id=why.run_id,
            metric=why.metric.name,
            unit=why.metric.unit,
            state_version=why.state_version,
            log_begins_at=why.log_begins_at,
            totals=[MetricTotal(**_numbers(total)) for total in why.totals],
            moves=[MetricMove(**_numbers(move) | {"trial": _trial(move)}) for move in why.moves],
        )


def moves_table(moves: MetricMoves) -> Table:
    number, change = _writers(moves)
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
        for move in moves.moves
    ]
    shown = [at for at, _ in enumerate(columns) if at != 1 or any(row[at] != UNSEEN for row in rows)]
    title = f"What moved {visible(moves.metric)}, newest first"
    return Table(title, [columns[at] for at in shown], [[row[at] for at in shown] for row in rows])


def totals_lines(moves: MetricMoves) -> list[str]:
    number, change = _writers(moves)
    lines = []
    for total in moves.totals:
        about = f"{visible(moves.metric)} of {visible(total.agent_model)}"
        if not total.moves:
            unknown = "is unknown; --metric names another number"
            lines.append(f"{about} {unknown if total.after is None else f'stayed at {number(total.after)}'}")
            continue
        ends = (total.before, total.after)
        before, after = ("unknown" if value is None else number(value) for value in ends)
        difference = "" if total.delta is None else f" ({change(total.delta)})"
        events = f"{counted(total.moves, 'event')}: {total.up:,} up, {total.down:,} down"
        lines.append(f"{about} moved from {before} to {after}{difference} by {events}")
    return lines


def _numbers(of: Move | Total) -> dict[str, Any]:
    difference = None if of.before is None or of.after is None else of.after - of.before
    delta = difference if isinstance(json_number(difference), float) else None
    return asdict(of) | {"before": json_number(of.before), "after": json_number(of.after), "delta": delta}


def _trial(move: Move) -> MovingTrial | None:
    key = move.trial
    return key and MovingTrial.like(key, agent_model=agent_model_label(key.agent, key.model))


def _named(trial: MovingTrial | None) -> str:
    if trial is None:
        return UNSEEN
    task = f"{trial.shard}: {trial.task_id}" if trial.shard else trial.task_id
    attempt = f"attempt {trial.attempt}" * (trial.attempt > 1)
    tier = "/".join(filter(None, (trial.tier, trial.subtest)))
    return visible(", ".join(filter(None, (task, attempt, tier))))


def _what(move: MetricMove) -> str:
    if move.cause == "rescoring" and move.trial is not None:
        return f"rescored by {visible(move.trial.agent_model)}"
    return CAUSES[move.cause]


def _writers(moves: MetricMoves) -> tuple[Callable[[Any], str], Callable[[Any], str]]:
    """Writers of the metric and its changes, with more digits than on boards, because one trial
    moves little.
    """
    columns = leaders_of(moves.metric, moves.unit).columns
    [column] = [column for column in columns if column.path == ("value",)]
    if column.format == "percent":
        return (
            lambda value: UNSEEN if value is None else f"{value:.2%}".replace("%", " %"),
            lambda delta: points(delta, 2),
        )

    unit = {"1": "", "seconds": " s"}.get(moves.unit, f" {moves.unit}")
    return (
        lambda value: cells.text(column, {"value": value}),
        lambda delta: UNSEEN if delta is None else f"{delta:+.3g}{unit}",
    )
