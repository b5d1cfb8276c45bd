"""What moved a number of a run's agents: it is read again after each event that can have moved it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from streamer.aggregate.formulacode_summary import missing_sub_trials
from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import GroupId, SlotKey, slot_key
from streamer.aggregate.run_state import RunState
from streamer.aggregate.summarise import board_value
from streamer.decoding import Folded, event_in
from streamer.pipeline import Pipeline
from streamer.records import LogRecord, Position, time_of
from streamer.schemas.decode import Reason
from streamer.schemas.events import RunDeleted, RunFinished, RunStarted, TrialRetracted
from streamer.schemas.metrics import BoardMetric

Cause = Literal["result", "correction", "verdict", "retraction", "rescoring", "plan", "end", "deletion"]
"""What moved a number.

`result`: the first result of a trial. `correction`: another result of it won. `verdict`: the same, and the
trial had no verdict or no judge's score before. `retraction`: its result was withdrawn. `rescoring`: another
agent's part in the trial changed, and its score with it (R9). `plan`: a `run_started`. `end`: `run_finished`.
"""


class UnknownAgent(Exception):
    """The run has no such agent."""

    def __init__(self, agent: str, known: Iterable[str]) -> None:
        super().__init__(f"the run has no agent {agent!r}; it has {', '.join(known) or 'none'}")


@dataclass(frozen=True, slots=True)
class Move:
    """One event that moved the number of one agent:model.

    Attributes:
        offset: of the event's record; of a file the line's number from 0.
        at: the record's timestamp; None: it has none.
        agent_model: whose number moved.
        cause: what happened.
        trial: the event's; None: it is about the run.
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
    """All moves of one agent:model together.

    Attributes:
        before, after: its number before the first and after the last.
        moves: how many events moved it.
        up, down: how many of them raised and lowered it; the others made it known or unknown.
    """

    agent_model: str
    before: float | None
    after: float | None
    moves: int = 0
    up: int = 0
    down: int = 0


@dataclass(frozen=True, slots=True)
class Why:
    """The answer.

    Attributes:
        run_id: the run.
        metric: the number.
        state_version: offset of the last event folded.
        log_begins_at: offset at which the run's log begins; above 0: earlier events were deleted.
        totals: one for each agent:model, by label.
        moves: the latest, newest first.
    """

    run_id: str
    metric: BoardMetric
    state_version: int
    log_begins_at: int
    totals: list[Total]
    moves: list[Move]


class Question(NamedTuple):
    """What is asked.

    Attributes:
        metric: whose moves.
        agent: only this agent, or agent:model; None: all but baselines.
        since: only moves by the events after this position; None: all.
        most: so many moves at most, the latest.
    """

    metric: BoardMetric
    agent: str | None = None
    since: Position | None = None
    most: int = 50


@dataclass(slots=True)
class _Followed:
    """One agent:model, from event to event.

    Attributes:
        value: its number now.
        unjudged: trials without a verdict, and with a judge's score, as of the last look.
    """

    total: Total
    moves: deque[Move]
    value: float | None = None
    unjudged: tuple[int, int] = (0, 0)


@dataclass
class _RunSeen:
    """Memory of one run, from one event to the next."""

    agents: dict[GroupId, _Followed] = field(default_factory=dict)
    with_formulacode: bool = False
    in_window: bool = False


class Moves:
    """Reads the number of every agent:model after each event that can have moved it."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._of_formulacode = question.metric.path[0] == "formulacode"
        self._runs: dict[str, _RunSeen] = {}

    def after(self, pipeline: Pipeline, records: Sequence[LogRecord], folded: Folded) -> None:
        """One record was folded."""
        [record] = records
        for run_id in folded.touched:
            run, seen = pipeline.run(run_id).state, self._runs.setdefault(run_id, _RunSeen())
            since = self._question.since
            seen.in_window = seen.in_window or since is None or not since.includes(record)
            run.count()
            self._look(run, seen, record)

    def answer(self, run: RunState, log_begins_at: int) -> Why:
        """The answer for one run."""
        agents = self._runs[run.run_id].agents
        wanted = self._question.agent
        shown = {
            group: followed
            for group, followed in sorted(agents.items())
            if (wanted in (group.agent, group.agent_model) if wanted else not _is_baseline(run, group))
        }
        if wanted and not shown:
            raise UnknownAgent(wanted, sorted(group.agent_model or "" for group in agents))
        for followed in shown.values():
            followed.total.after = followed.value
            if not followed.total.moves:
                followed.total.before = followed.value
        moves = [move for followed in shown.values() for move in followed.moves]
        moves.sort(key=lambda move: -move.offset)
        totals = [followed.total for followed in shown.values()]
        metric, version = self._question.metric, run.state_version
        return Why(run.run_id, metric, version, log_begins_at, totals, moves[: self._question.most])

    def _look(self, run: RunState, seen: _RunSeen, record: LogRecord) -> None:
        changed, _ = run.changes.take_groups()
        due = {group for group in changed if group.tier is None and group.agent is not None}
        missing = missing_sub_trials(run) if self._of_formulacode else {}
        with_formulacode = run.totals.with_formulacode > 0
        if self._of_formulacode and (
            run.plan.finished is not None or with_formulacode != seen.with_formulacode
        ):
            due |= {*seen.agents, *(GroupId(None, *owner) for owner in missing)}
        seen.with_formulacode = with_formulacode
        for group_id in sorted(due):
            owner = (group_id.agent or "", group_id.model or "")
            lacking, group = missing.get(owner), run.groups.get(group_id)
            value = None
            if group is not None or lacking is not None:
                group = group or GroupState()
                metric = self._question.metric
                value = board_value(metric, group, owner[0], lacking, formulacode=with_formulacode)
            self._note(run, seen, group_id, group or GroupState(), value, record)

    def _note(
        self,
        run: RunState,
        seen: _RunSeen,
        group_id: GroupId,
        group: GroupState,
        value: float | None,
        record: LogRecord,
    ) -> None:
        """The number of an agent:model is this after a record."""
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
    """The trial of an event that moved a number, and what happened to it.

    Args:
        judged: of the agent:model more trials have a verdict, or a judge's score, than before.
    """
    event, _ = event_in(record.value)
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
    slot = run.slots.get(key)
    if slot is None or not slot.superseded:
        return key, "result"
    return key, "verdict" if judged else "correction"


def _add(total: Total, move: Move) -> None:
    """Count a move in."""
    if not total.moves:
        total.before = move.before
    total.moves += 1
    if move.before is not None and move.after is not None:
        total.up += move.after > move.before
        total.down += move.after < move.before


def _is_baseline(run: RunState, group_id: GroupId) -> bool:
    return run.scores.is_baseline(group_id.agent or "")
