"""Data models besides the summaries, shared with the API: listed trials, points of charts, comparisons."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, Literal, Self, cast, get_args

import msgspec
from msgspec import Struct, field
from pydantic import BaseModel, Field

from streamer.schemas.base import Instant, Message, Number, agent_model_label, decode_id, optional
from streamer.schemas.events import NO_FAILURE, FormulaCodePayload, FormulaCodeSummary
from streamer.schemas.summaries import (
    AgentModelSummary,
    Grade,
    Leader,
    RunSummary,
    ScoredTrial,
    State,
    TrialInFlight,
    state_of,
)
from streamer.schemas.wire import Version
from streamer.statistics.exact import nearest_float

Label = Annotated[str, Field(description="Label `agent:model`.")]
TrialOutcome = Literal["passed", "failed", "fell_back", "no_verdict"]


def described(model: type[BaseModel], name: str) -> Any:
    """A field with its description from another model."""
    return Field(description=model.model_fields[name].description)


class RunNow(RunSummary):
    """One run as published, with its state at the time of the request."""

    state: State = Field(
        description="As of the moment of asking: complete (all planned trials are in), finished (the harness "
        "ended it short of its plan or without one), running, or without an event for 10 minutes stalled "
        "(a plan is open) or unfinished (there is no complete plan)."
    )

    @classmethod
    def of(cls, run: RunSummary, now: datetime) -> Self:
        return cast("Self", cls.model_construct(**dict(run), state=state_of(run, now)))


class ListedRun(RunNow):
    """One run of a list, with the agent:model that leads it."""

    leader: Leader | None = optional("Who leads by `primary_metric`; null: no agent has a known value.")

    def led_by(self, leader: Leader | None) -> ListedRun:
        return self.model_copy(update={"leader": leader})


class AgentNow(AgentModelSummary):
    """One agent:model as published, with its place and board options."""

    place: str | None = Field(description="The places that it may truly have: `1`, `1-3`; null: not ranked.")
    over: bool = Field(description="The harness said that the run is over.")
    graded: bool = Field(description="Whether the board shows its grade.")

    @classmethod
    def of(cls, agent: AgentModelSummary, place: str | None, *, over: bool, graded: bool) -> AgentNow:
        return cls.model_construct(**dict(agent), place=place, over=over, graded=graded)


class HistoryPoint(Message):
    """One update: the headline numbers of a group at an event time. Unknown values are null."""

    id: str = Field(description="Entry of the stream; grows.")
    kind: Literal["run", "agent_model", "tier"] = Field(description="What the group is.")
    agent_model: Label | None = Field(description="Null for the run, and for a tier pooled over agents.")
    tier: str | None = Field(description="Null for the run and for an agent:model over the run.")
    epoch: int = Field(description="Rebuild that it belongs to.")
    state_version: int = Field(description="Offset of the last event folded into the run.")
    last_event_at: Instant | None = Field(description="Event time.")
    deleted: bool = Field(description="The group emptied.")
    trials: int | None = described(AgentModelSummary, "trials")
    accuracy: Number | None = described(AgentModelSummary, "accuracy")
    pass_rate: Number | None = Field(description="Mean pass rate.")
    composite_score: Number | None = Field(description="Median composite score; null without a judge.")
    grade: Grade | None = described(AgentModelSummary, "grade")
    total_cost: Number | None = described(AgentModelSummary, "total_cost")
    cost_of_pass: Number | None = described(AgentModelSummary, "cost_of_pass")
    mean_speedup: Number | None = described(FormulaCodeSummary, "mean_speedup")
    agent_advantage: Number | None = described(FormulaCodeSummary, "agent_advantage")
    metrics: dict[str, Number | None] = optional(
        "Named metric that the plan names to its mean (R30); unknown ones are left out.", {}
    )
    provisional: bool | None = Field(description="Planned trials are missing.")
    done: int | None = Field(description="Run only: slots filled.")
    planned: int | None = Field(description="Run only: slots planned.")


class TrialRow(Message):
    """One scored trial in a list; `/api/runs/{run}/trials/{trial}` has all of it."""

    id: str = Field(description="Names the slot within the run, 24 hexadecimal digits.")
    shard: str = described(ScoredTrial, "shard")
    task_id: str = described(ScoredTrial, "task_id")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = described(ScoredTrial, "tier")
    subtest: str | None = described(ScoredTrial, "subtest")
    resolved: bool | None = described(ScoredTrial, "resolved")
    success: bool | None = described(ScoredTrial, "success")
    outcome: TrialOutcome = Field(description="In one word; `fell_back` before `failed` (C1).")
    failure_mode: str | None = described(ScoredTrial, "failure_mode")
    composite_score: float | None = described(ScoredTrial, "composite_score")
    grade: Grade | None = described(ScoredTrial, "grade")
    cost_usd: float | None = described(ScoredTrial, "cost_usd")
    duration_seconds: float | None = described(ScoredTrial, "duration_seconds")
    task_speedup: float | None = described(FormulaCodePayload, "task_speedup")
    agent_advantage: float | None = described(FormulaCodePayload, "agent_advantage")
    metrics: dict[str, float] = optional("Named metric to its value (R30).", {})

    @classmethod
    def of(cls, trial_id: str, trial: Mapping[str, Any]) -> TrialRow:
        formulacode = trial["formulacode"] or {}
        return cls(
            id=trial_id,
            shard=trial["shard"],
            task_id=sys.intern(trial["task_id"]),
            attempt=trial["attempt"],
            agent_model=sys.intern(trial["agent_model"]),
            tier=_interned(trial["tier"]),
            subtest=_interned(trial["subtest"]),
            resolved=trial["resolved"],
            success=trial["success"],
            outcome=outcome_of(trial),
            failure_mode=_interned(trial["failure_mode"]),
            composite_score=trial["composite_score"],
            grade=trial["grade"],
            cost_usd=trial["cost_usd"],
            duration_seconds=trial["duration_seconds"],
            task_speedup=formulacode.get("task_speedup"),
            agent_advantage=formulacode.get("agent_advantage"),
            metrics={sys.intern(name): value for name, value in (trial.get("metrics") or {}).items()},
        )


class TrialPlace(Message):
    """The slot of a trial, in answers about single trials."""

    shard: str = described(TrialRow, "shard")
    task_id: str = described(TrialRow, "task_id")
    attempt: int = Field(ge=1, description="n-th repeat of the task.")
    agent_model: Label
    tier: str | None = described(TrialRow, "tier")
    subtest: str | None = described(TrialRow, "subtest")


def outcome_of(trial: Mapping[str, Any]) -> TrialOutcome:
    formulacode = trial["formulacode"]
    fell_back = None if formulacode is None else bool(formulacode.get("fallback_to_baseline"))
    return _outcome(trial["success"], trial["resolved"], fell_back)


def _outcome(success: bool | None, resolved: bool | None, fell_back: bool | None) -> TrialOutcome:
    """The outcome; a trial that fell back to the baseline failed, regardless of its numbers (C1)."""
    if fell_back:
        return "fell_back"
    if success:
        return "passed"
    return "no_verdict" if resolved is None and fell_back is None else "failed"


def _interned(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


class _StoredFormulaCode(Struct, gc=False):
    task_speedup: float | None = None
    agent_advantage: float | None = None
    fallback_to_baseline: bool = False


class StoredRow(Struct, gc=False):
    """A compact :class:`TrialRow`, in a quarter of the time and memory, which also identifies the result."""

    shard: str
    task_id: str
    attempt: int
    agent_model: str
    tier: str | None
    subtest: str | None
    resolved: bool | None
    success: bool | None
    failure_mode: str | None
    composite_score: float | None
    grade: Grade | None
    cost_usd: float | None
    duration_seconds: float | None
    fingerprint: str
    epoch: int
    state_version: int
    formulacode: _StoredFormulaCode | None = None
    stored_metrics: dict[str, float] | None = field(default=None, name="metrics")
    id: str = ""

    @classmethod
    def of(cls, value: bytes) -> StoredRow:
        row = _stored_row(value)
        row.task_id, row.agent_model = sys.intern(row.task_id), sys.intern(row.agent_model)
        row.tier, row.failure_mode = _interned(row.tier), _interned(row.failure_mode)
        return row

    @property
    def version(self) -> Version:
        return self.epoch, self.state_version

    @property
    def outcome(self) -> TrialOutcome:
        fell_back = None if self.formulacode is None else self.formulacode.fallback_to_baseline
        return _outcome(self.success, self.resolved, fell_back)

    @property
    def metrics(self) -> dict[str, float]:
        return self.stored_metrics or {}

    @property
    def task_speedup(self) -> float | None:
        return self.formulacode.task_speedup if self.formulacode else None

    @property
    def agent_advantage(self) -> float | None:
        return self.formulacode.agent_advantage if self.formulacode else None


_stored_row = msgspec.json.Decoder(StoredRow).decode

AnyRow = TrialRow | StoredRow


class SideMeans(Message):
    """Means of one side of a comparison; null if unknown, or if no trial has the value."""

    composite_score: float | None = Field(description="Mean composite score, 0 to 1.")
    cost_usd: float | None = Field(description="Mean known cost of a trial in USD.")
    duration_seconds: float | None = Field(description="Mean known duration of a trial in seconds.")
    task_speedup: float | None = Field(description="FormulaCode: mean known speedup, ratio.")
    agent_advantage: float | None = Field(description="FormulaCode: mean known advantage.")
    metrics: dict[str, float | None] = optional(
        "Named metric to its mean over the trials that have it (R30).", {}
    )


class Side(SideMeans):
    """One side of a comparison on one task: means over its attempts."""

    trials: int = Field(ge=1, description="Trials of this task.")
    pass_rate: float | None = Field(
        ge=0, le=1, description="Share of successes; null: no trial has a verdict (R31)."
    )


class TaskPair(Message):
    """A task that both sides have done."""

    task_id: str = Field(description="The problem.")
    tier: str | None = Field(description="Tiers are compared like with like.")
    a: Side = Field(description="First side.")
    b: Side = Field(description="Second side.")


class SideTotals(SideMeans):
    """One side over the common tasks; each task counts once, regardless of its attempts.

    Each mean is over the tasks where both sides know the value. At the end the pass rate is over all trials.
    """

    run: str = Field(description="Run id.")
    agent_model: Label | None = Field(description="Null: all agents of the run but baselines.")
    trials: int = Field(ge=0, description="Trials of the tasks that both have done.")
    only_here: int = Field(ge=0, description="Tasks that the other side has not done.")
    pass_rate: float | None = Field(
        description="Mean over tasks, at the end over trials; null: no task in common with verdicts."
    )


class Ends(Message):
    """Both ends of an interval, in the unit of the estimate."""

    low: float = Field(description="Lower end.")
    high: float = Field(description="Upper end.")

    @classmethod
    def of(cls, ends: Iterable[float | Fraction] | None) -> Self | None:
        """A lower and an upper end, if there are any; beyond the range of floats the nearest one."""
        if ends is None:
            return None
        low, high = map(nearest_float, ends)
        return cls(low=low, high=high)


class Difference(Message):
    """The difference of the sides in one metric, second minus first, over the tasks where both know it."""

    tasks: int = Field(ge=0, description="Tasks where both have it.")
    mean: float | None = Field(description="Mean of second minus first, in the unit of the metric.")
    interval: Ends | None = Field(
        description="Of the mean on tasks like these, 95 %, clustered by task. Null before the end, and with "
        "fewer than 5 tasks, of other metrics than pass_rate 10 (inference 7)."
    )
    higher_is_better: bool = Field(description="Direction of the metric.")
    unit: str | None = optional("Named metric: its unit; null: not said.")
    label: str | None = optional("Named metric: heading for people; null: the name.")
    a_better: int = Field(ge=0, description="Tasks where the first side is better.")
    b_better: int = Field(ge=0, description="Tasks where the second side is better.")
    equal: int = Field(ge=0, description="Tasks where they are equal.")
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Two-sided exact sign test over the tasks that differ, on the attempts that both sides "
        "have; of pass rates with one trial per task and side: McNemar's exact test. 1: nothing differs. "
        "Null before the end, and where nothing was tested.",
    )


class FlipGroup(Message):
    """Tasks that only one side passes, in the same tier and with the same failure of the other side."""

    passed_by: Literal["a", "b"] = Field(description="The side that passes them.")
    tier: str | None = Field(description="Null: tasks without a tier.")
    failure_mode: str | None = Field(
        description="Most frequent failure mode of the side that does not pass; null: none was named."
    )
    count: int = Field(ge=1, description="How many tasks.")
    tasks: list[str] = Field(description="The first of them, by name; at most `limit`.")


NO_PREFIX = {
    "order_from_a_side": "the order was made from results of a compared run",
    "order_chosen": "the order was chosen, and the plan does not say how",
}

DIFFERENT_TASKS = (
    "the sides ran different tasks, and neither is known to have planned exactly the common ones before "
    "the other began"
)


class Comparison(Message):
    """Two runs, or two agents, on the tasks that both have done."""

    a: SideTotals = Field(description="First side.")
    b: SideTotals = Field(description="Second side.")
    tasks: int = Field(ge=0, description="Tasks that both ran (task and tier).")
    a_better: int = Field(ge=0, description="Tasks with a higher pass rate of the first side.")
    b_better: int = Field(ge=0, description="Tasks with a higher pass rate of the second side.")
    equal: int = Field(ge=0, description="Tasks with equal pass rates.")
    both_passed: int = Field(
        ge=0, description="Tasks that both pass: successes in more than half of a side's trials."
    )
    only_a: int = Field(ge=0, description="Tasks that the first side alone passes.")
    only_b: int = Field(ge=0, description="Tasks that the second side alone passes.")
    neither: int = Field(ge=0, description="Tasks that neither side passes.")
    differences: dict[str, Difference] = Field(
        description="Metric to its difference: pass_rate, composite_score, task_speedup, agent_advantage, "
        "cost_usd, duration_seconds, and `metrics/NAME` of named metrics (R30)."
    )
    ended: bool = optional(
        "Nothing more comes of either side: intervals and p values hold, whatever verdicts are missing.",
        False,
    )
    not_comparable: str | None = optional(
        "Why no verdict is possible: the sides ran different tasks, or were made in different ways; null: "
        "one is."
    )
    refused: list[str] = optional(
        "What `--allow` has to name for a verdict: `tasks`, or fields of provenance (R36).", []
    )
    left_out: list[str] = optional("Common tasks whose trials were made in different ways (R36).", [])
    worse: Literal["a", "b"] | None = optional(
        "The side that evidence shows to be worse while trials are missing: 20 for b, 40 for a. Null: none, "
        "or at the end."
    )
    flips: list[FlipGroup] = optional(
        "The tasks that one side alone passes, in groups, the largest first.", []
    )
    pairs: list[TaskPair] = Field(description="The tasks, greatest difference of pass rates first; a page.")
    only_a_tasks: list[str] = optional("The tasks that the first side alone passes, by name; a page.", [])
    only_b_tasks: list[str] = optional("The tasks that the second side alone passes, by name; a page.", [])
    not_in_a: list[str] = optional("Tasks that only the second side has done; a page.", [])
    not_in_b: list[str] = optional("Tasks that only the first side has done; a page.", [])
    in_common: str = optional("The counts of the common tasks as a sentence.", "")
    words: list[str] = optional(
        "What may be said of two agents, one sentence each (inference 8). Names are not escaped.", []
    )


# -----------------------------------------------------------------------------
# Reasons for failed trials, grouped by failure mode and by the common part of their messages.


MAX_KIND_CHARACTERS = 160
MAX_GROUPS = 200

_DIFFERS = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\bhttps?://\S+"), "URL"),
    (re.compile(r"(?<![\w/])/(?:[\w.@+-]+/)+[\w.@+-]*"), "PATH"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "N"),
)

_TRACEBACK = "Traceback (most recent call last)"


class FailureGroup(Message):
    """Failed trials that are alike."""

    failure_mode: str | None = Field(description="As the harness says; null: it says none.")
    kind: str = Field(description="What their messages have in common; empty: they have none.")
    example: str | None = Field(description="First line of one message, last of a traceback; null: none.")
    count: int = Field(ge=1, description="How many trials.")
    share: float = Field(gt=0, le=1, description="Of the trials of the run that did not succeed.")
    agents: dict[str, int] = Field(description="Agent:model to its trials among them, most first.")


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """A trial that did not succeed.

    The modes "unset" and "none" carry no information. `kind` is "" without a message. `example` is the
    message's telling line.
    """

    agent_model: str
    failure_mode: str | None
    kind: str
    example: str | None


def telling_line(message: str) -> str:
    """The telling line of a message: the first line, or the last of a traceback; at most 300 characters.

    >>> telling_line("Traceback (most recent call last):\\n  File x\\nValueError: no\\n")
    'ValueError: no'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    return lines[-1 if lines[0].startswith(_TRACEBACK) else 0][:300]


def kind_of(message: str) -> str:
    """The common part of messages that differ only in numbers, ids and paths.

    >>> kind_of("Timeout after 300.5 s in /app/run-1/task.py"), kind_of("Timeout after 12 s in /srv/x/y.py")
    ('Timeout after N s in PATH', 'Timeout after N s in PATH')
    """
    kind = telling_line(message)
    for pattern, word in _DIFFERS:
        kind = pattern.sub(word, kind)
    return kind[:MAX_KIND_CHARACTERS]


def stated_mode(failure_mode: str | None) -> str | None:
    """The failure mode; None if the harness says that there is none (G6)."""
    return None if failure_mode in NO_FAILURE else failure_mode


def failure_groups(trials: Iterable[FailedTrial]) -> tuple[list[FailureGroup], int]:
    """The first :data:`MAX_GROUPS` groups, largest first, equal ones by name; and how many there are."""
    groups: dict[tuple[str | None, str], list[FailedTrial]] = {}
    for trial in trials:
        groups.setdefault((stated_mode(trial.failure_mode), trial.kind), []).append(trial)
    total = sum(map(len, groups.values()))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0][0] or "", item[0][1]))
    shown = [
        FailureGroup(
            failure_mode=mode,
            kind=kind,
            example=members[0].example,
            count=len(members),
            share=len(members) / total,
            agents=dict(Counter(trial.agent_model for trial in members).most_common()),
        )
        for (mode, kind), members in ordered[:MAX_GROUPS]
    ]
    return shown, len(groups)


# -----------------------------------------------------------------------------
# Each agent on each task: outcomes, the mean of a metric, and running trials.


MatrixMetric = Literal["outcome", "composite_score", "cost_usd", "duration_seconds", "task_speedup"]
MatrixSort = Literal["difficulty", "disagreement", "task"]

MAX_CELLS = 500_000

Cell = tuple[int, int, int, int, float | None]
"""Trials, passes, trials without a verdict, trials in flight, mean of the metric."""


class TooManyCells(Exception):
    """A run has too many tasks and agents for a matrix."""

    def __init__(self, tasks: int, agents: int) -> None:
        super().__init__(
            f"The matrix of {tasks:,} tasks and {agents:,} agents has over {MAX_CELLS:,} cells, too many "
            "to show. Use the list of trials"
        )


class MatrixTask(Message):
    """A row of the matrix: one task, in one tier."""

    task_id: str = Field(description="The problem.")
    tier: str | None = Field(description="Tiers are kept apart; null: no tier.")
    pass_rate: float | None = Field(
        ge=0, le=1, description="Share of successes, all agents pooled; null: no trial has a verdict (R31)."
    )
    disagreement: float = Field(
        ge=0, le=0.5, description="Mean distance of the agents' pass rates from their median; 0: they agree."
    )
    cells: list[Cell | None] = Field(description="By agent, in the order of `agents`; null: nothing yet.")


class Matrix(Message):
    """Every agent:model of a run on every task."""

    metric: MatrixMetric = Field(description="What the last number of a cell is the mean of.")
    agents: list[str] = Field(description="Labels, the highest pass rate first, ties by name.")
    tasks: list[MatrixTask] = Field(description="As `sort` says, ties by name.")
    low: float | None = Field(description="Least mean of the metric in a cell; null: none is known.")
    high: float | None = Field(description="Greatest mean, likewise.")


class MetricMeans(Message):
    """The last numbers of all cells for one metric."""

    low: float = Field(description="Least mean in a cell.")
    high: float = Field(description="Greatest mean in a cell.")
    cells: list[list[float | None]] = Field(
        description="By task and agent, as in the matrix; null: no trial knows the metric."
    )


class WholeMatrix(Message):
    """A matrix in every colour and order, for a file, which cannot request another."""

    matrix: Matrix = Field(description="Of outcomes, the hardest task first.")
    orders: dict[MatrixSort, list[int]] = Field(description="Order to the places of its tasks in `matrix`.")
    means: dict[MatrixMetric, MetricMeans] = Field(description="Of each metric that some trial knows.")


@dataclass(slots=True)
class _Cell:
    trials: int = 0
    judged: int = 0
    passes: int = 0
    unknown: int = 0
    running: int = 0
    values: list[float] = dataclass_field(default_factory=list)

    @property
    def mean(self) -> float | None:
        if not self.values:
            return None
        total, count = sum(self.values), len(self.values)
        return total / count if math.isfinite(total) else sum(value / count for value in self.values)

    def as_tuple(self) -> Cell:
        return self.trials, self.passes, self.unknown, self.running, self.mean


TaskKey = tuple[str, str | None]
_Line = Mapping[str, _Cell]


def matrix_of(
    rows: Iterable[AnyRow],
    in_flight: Iterable[TrialInFlight],
    metric: MatrixMetric = "outcome",
    sort: MatrixSort = "difficulty",
) -> Matrix:
    """The matrix of a run; raises TooManyCells.

    Each cell has the mean of `metric` over the trials that know it; "outcome" needs no mean. `difficulty`
    puts the hardest task first, `disagreement` the one on which agents differ most.
    """
    lines: dict[TaskKey, dict[str, _Cell]] = defaultdict(lambda: defaultdict(_Cell))
    for row in rows:
        cell = lines[row.task_id, row.tier][row.agent_model]
        cell.trials += 1
        cell.judged += row.success is not None
        cell.passes += row.success is True
        cell.unknown += row.outcome == "no_verdict"
        value = None if metric == "outcome" else getattr(row, metric)
        if value is not None:
            cell.values.append(value)
    for trial in in_flight:
        lines[trial.task_id, trial.tier][agent_model_label(trial.agent, trial.model)].running += 1
    agents = _agents(lines)
    if len(lines) * len(agents) > MAX_CELLS:
        raise TooManyCells(len(lines), len(agents))
    tasks = [_task(key, line, agents) for key, line in lines.items()]
    tasks.sort(key=_ORDERS[sort])
    means = [cell[4] for task in tasks for cell in task.cells if cell is not None and cell[4] is not None]
    return Matrix(
        metric=metric, agents=agents, tasks=tasks, low=min(means, default=None), high=max(means, default=None)
    )


def whole_matrix(rows: Iterable[TrialRow]) -> WholeMatrix:
    """The matrix of an ended run in every colour and order; raises TooManyCells."""
    all_rows = list(rows)
    matrix = matrix_of(all_rows, ())
    means = {}
    for metric in get_args(MatrixMetric):
        of = matrix_of(all_rows, (), metric)
        if of.low is not None and of.high is not None:
            cells = [[cell and cell[4] for cell in task.cells] for task in of.tasks]
            means[metric] = MetricMeans(low=of.low, high=of.high, cells=cells)
    orders = {sort: _ordered(matrix.tasks, order) for sort, order in _ORDERS.items()}
    return WholeMatrix(matrix=matrix, orders=orders, means=means)


def _ordered(tasks: Sequence[MatrixTask], order: Callable[[MatrixTask], Any]) -> list[int]:
    return sorted(range(len(tasks)), key=lambda at: order(tasks[at]))


def _agents(lines: Mapping[TaskKey, _Line]) -> list[str]:
    judged: dict[str, int] = defaultdict(int)
    passes: dict[str, int] = defaultdict(int)
    for line in lines.values():
        for agent, cell in line.items():
            judged[agent] += cell.judged
            passes[agent] += cell.passes
    return sorted(judged, key=lambda agent: (-passes[agent] / (judged[agent] or 1), agent))


def _task(key: TaskKey, line: _Line, agents: list[str]) -> MatrixTask:
    rates = sorted(cell.passes / cell.judged for cell in line.values() if cell.judged)
    middle = rates[len(rates) // 2] if rates else 0.0
    count = sum(cell.judged for cell in line.values())
    return MatrixTask.model_construct(
        task_id=key[0],
        tier=key[1],
        pass_rate=sum(cell.passes for cell in line.values()) / count if count else None,
        disagreement=sum(abs(rate - middle) for rate in rates) / len(rates) if rates else 0.0,
        cells=[line[agent].as_tuple() if agent in line else None for agent in agents],
    )


def _name(task: MatrixTask) -> tuple[str, str]:
    return task.task_id, task.tier or ""


_ORDERS: dict[MatrixSort, Callable[[MatrixTask], Any]] = {
    "difficulty": lambda task: (2.0 if task.pass_rate is None else task.pass_rate, _name(task)),
    "disagreement": lambda task: (-task.disagreement, _name(task)),
    "task": _name,
}


def name_of(task: tuple[str, str | None]) -> str:
    """A task as in lists: after its tier, if it has one.

    >>> name_of(("fix", None)), name_of(("fix", "T0"))
    ('fix', 'T0/fix')
    """
    return task[0] if task[1] is None else f"{task[1]}/{task[0]}"


def name_of_key(key: str) -> str:
    """A task in a sentence, from its key; after its tier and subtest, if it has some.

    >>> name_of_key("a%2Fb"), name_of_key("T0||fix")
    ('a/b', 'T0/fix')
    """
    return "/".join(decode_id(part) for part in key.split("|") if part)
