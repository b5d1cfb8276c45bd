"""How each agent does on each task: outcomes, the mean of a metric, and what is running."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import Field

from streamer.schemas.base import Message
from streamer.schemas.identity import agent_model_label
from streamer.schemas.in_flight import TrialInFlight
from streamer.views.models import TrialRow

MatrixMetric = Literal["outcome", "composite_score", "cost_usd", "duration_seconds", "task_speedup"]
MatrixSort = Literal["difficulty", "disagreement", "task"]

MAX_CELLS = 500_000
"""Tasks times agents of the largest matrix."""

Cell = tuple[int, int, int, int, float | None]
"""Trials, passes, trials without a verdict, trials in flight, mean of the metric."""


class TooManyCells(Exception):
    """A run has too many tasks and agents for a matrix."""

    def __init__(self, tasks: int, agents: int) -> None:
        super().__init__(
            f"The matrix of {tasks:,} tasks and {agents:,} agents has over {MAX_CELLS:,} cells, too many "
            "to show. The list of trials has them one by one"
        )


class MatrixTask(Message):
    """A row of the matrix: one task, in one tier."""

    task_id: str = Field(description="The problem.")
    tier: str | None = Field(description="Tiers are kept apart; null: no tier.")
    pass_rate: float | None = Field(ge=0, le=1, description="Passes of known trials, all agents pooled.")
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
    """A matrix in every colour and order, for a file that cannot ask for another."""

    matrix: Matrix = Field(description="Of outcomes, the hardest task first.")
    orders: dict[MatrixSort, list[int]] = Field(description="Order to the places of its tasks in `matrix`.")
    means: dict[MatrixMetric, MetricMeans] = Field(description="Of each metric that some trial knows.")


@dataclass(slots=True)
class _Cell:
    trials: int = 0
    passes: int = 0
    unknown: int = 0
    running: int = 0
    values: list[float] = field(default_factory=list)

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
    rows: Iterable[TrialRow],
    in_flight: Iterable[TrialInFlight],
    metric: MatrixMetric = "outcome",
    sort: MatrixSort = "difficulty",
) -> Matrix:
    """The matrix of a run.

    Args:
        rows: its trials.
        in_flight: those that have started and have no result.
        metric: averaged in each cell over the trials that know it; "outcome": nothing is.
        sort: `difficulty`: the hardest task first; `disagreement`: the one on which agents differ most.

    Raises:
        TooManyCells: tasks times agents are more than :data:`MAX_CELLS`.
    """
    lines: dict[TaskKey, dict[str, _Cell]] = defaultdict(lambda: defaultdict(_Cell))
    for row in rows:
        cell = lines[row.task_id, row.tier][row.agent_model]
        cell.trials += 1
        cell.passes += row.success
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
        metric=metric,
        agents=agents,
        tasks=tasks,
        low=min(means, default=None),
        high=max(means, default=None),
    )


def whole_matrix(rows: Iterable[TrialRow]) -> WholeMatrix:
    """The matrix of a run that nothing is added to, in every colour and order.

    Args:
        rows: its trials.

    Raises:
        TooManyCells: as `matrix_of`.
    """
    held = list(rows)
    matrix = matrix_of(held, ())
    means = {}
    for metric in get_args(MatrixMetric):
        of = matrix_of(held, (), metric)
        if of.low is not None and of.high is not None:
            cells = [[cell and cell[4] for cell in task.cells] for task in of.tasks]
            means[metric] = MetricMeans(low=of.low, high=of.high, cells=cells)
    orders = {sort: _ordered(matrix.tasks, order) for sort, order in _ORDERS.items()}
    return WholeMatrix(matrix=matrix, orders=orders, means=means)


def _ordered(tasks: Sequence[MatrixTask], order: Callable[[MatrixTask], Any]) -> list[int]:
    return sorted(range(len(tasks)), key=lambda at: order(tasks[at]))


def _agents(lines: Mapping[TaskKey, _Line]) -> list[str]:
    trials: dict[str, int] = defaultdict(int)
    passes: dict[str, int] = defaultdict(int)
    for line in lines.values():
        for agent, cell in line.items():
            trials[agent] += cell.trials
            passes[agent] += cell.passes
    return sorted(trials, key=lambda agent: (-passes[agent] / (trials[agent] or 1), agent))


def _task(key: TaskKey, line: _Line, agents: list[str]) -> MatrixTask:
    rates = sorted(cell.passes / cell.trials for cell in line.values() if cell.trials)
    middle = rates[len(rates) // 2] if rates else 0.0
    known = sum(cell.trials for cell in line.values())
    return MatrixTask.model_construct(
        task_id=key[0],
        tier=key[1],
        pass_rate=sum(cell.passes for cell in line.values()) / known if known else None,
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
