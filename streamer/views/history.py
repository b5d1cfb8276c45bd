"""What earlier runs say of the tasks of a benchmark, and what follows for the next run. Pure.

- the table of the tasks: how often each is passed, by whom, at what cost, and which are dead;
- the order for a comparison: tasks that tell agents apart come first;
- the plan: how many trials a drop of so many points needs, simulated with the functions that judge.

History decides what is run, and in which order. It enters no interval and no evidence (inference 8b).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import correlation, fmean
from typing import Any, Literal, NamedTuple

from pydantic import Field

from streamer.schemas.base import Message, task_key
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.statistics.final import shuffled_rounds
from streamer.views.columns import Board, Column
from streamer.views.tables import Table, table_of

# -----------------------------------------------------------------------------
# Earlier runs: their trials with a verdict.


class PastTrial(NamedTuple):
    """One trial of an earlier run.

    Attributes:
        task: as `task_key` writes it.
        task_id: the same task without tier and subtest.
        cost_usd: USD; None: unknown.
        seconds: duration; None: unknown.
    """

    run: str
    agent_model: str
    task: str
    task_id: str
    passed: bool
    cost_usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class PastRun:
    """An earlier run.

    Attributes:
        run: its summary.
        trials: those with a verdict, baselines left out (R4, R31).
    """

    run: RunSummary
    trials: Sequence[PastTrial]

    @classmethod
    def of(
        cls, run: RunSummary, agents: Iterable[AgentModelSummary], trials: Iterable[Mapping[str, Any]]
    ) -> PastRun:
        """A run with its agents and its scored trials, as parsed from JSON."""
        judged = {agent.agent_model for agent in agents if not agent.baseline}
        chosen = (one for one in trials if one["agent_model"] in judged and one["success"] is not None)
        return cls(run, [_past(run.run_id, trial) for trial in chosen])

    @property
    def at(self) -> tuple[datetime, str]:
        """When it started, else its last event; runs without a time come first."""
        return self.run.started_at or self.run.last_event_at or datetime.min.replace(tzinfo=UTC), (
            self.run.run_id
        )


def _past(run_id: str, trial: Mapping[str, Any]) -> PastTrial:
    return PastTrial(
        run_id,
        trial["agent_model"],
        task_key(trial["tier"], trial["subtest"], trial["task_id"]),
        trial["task_id"],
        trial["success"],
        trial["cost_usd"],
        trial["duration_seconds"],
    )


# -----------------------------------------------------------------------------
# The table of the tasks.


LEAST_AGENTS = 2
"""Agents from which on a task may be dead: one agent alone agrees with itself."""

LEAST_CORRELATED = 3
"""Agents that a correlation needs."""


class TaskHistory(Message):
    """One task over all earlier runs."""

    task: str = Field(description="TASK, or TIER|SUBTEST|TASK; percent-encoded.")
    task_id: str = Field(description="The task alone, as it is; not escaped.")
    attempts: int = Field(ge=1, description="Trials with a verdict.")
    passed: int = Field(ge=0, description="Trials that passed.")
    agents: int = Field(ge=1, description="Agent:models that tried it.")
    runs: int = Field(ge=1, description="Runs that tried it.")
    share: float = Field(ge=0, le=1, description="Mean over the agents of the share that each passed.")
    discrimination: float | None = Field(
        ge=-1,
        le=1,
        description="Correlation over the agents of their share here and on all other tasks; null: under "
        "three agents, or one of the two does not vary.",
    )
    flips: float | None = Field(
        ge=0,
        le=1,
        description="Share of the agents that passed and failed, of those with two attempts or more; null: "
        "there are none.",
    )
    cost_usd: float | None = Field(ge=0, description="Mean known cost of a trial, USD; null: none is known.")
    seconds: float | None = Field(ge=0, description="Mean known duration of a trial; null: none is known.")
    dead: Literal["passed", "failed"] | None = Field(
        description="All trials of two agents or more ended so; null: they differ, or one agent tried it."
    )
    differs_at_most: float | None = Field(
        ge=0,
        le=1,
        description="Chance that the next agent differs, at most, at 95 %: 1 - 0.05^(1/agents). Null: it is "
        "not dead.",
    )
    first_changed: str | None = Field(
        description="First run, by start, with an outcome that no run before had; null: all had the same."
    )


def tasks_of(runs: Iterable[PastRun]) -> list[TaskHistory]:
    """Every task of some runs, by name.

    Args:
        runs: each once, in any order. Runs of the same agent:model count as one agent.
    """
    ordered = sorted(runs, key=lambda run: run.at)
    trials: dict[str, list[PastTrial]] = {}
    for run in ordered:
        for trial in run.trials:
            trials.setdefault(trial.task, []).append(trial)
    shares = {task: _shares(of_task) for task, of_task in trials.items()}
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for by_agent in shares.values():
        sums.update(by_agent)
        counts.update(by_agent.keys())
    return [_history(task, trials[task], shares[task], sums, counts) for task in sorted(trials)]


def _history(
    task: str,
    trials: Sequence[PastTrial],
    shares: Mapping[str, float],
    sums: Mapping[str, float],
    counts: Mapping[str, int],
) -> TaskHistory:
    agents, passed = len(shares), sum(trial.passed for trial in trials)
    tried = Counter(trial.agent_model for trial in trials)
    repeated = [share for agent, share in shares.items() if tried[agent] > 1]
    is_dead = agents >= LEAST_AGENTS and passed in (0, len(trials))
    elsewhere = [
        (share, (sums[agent] - share) / (counts[agent] - 1))
        for agent, share in shares.items()
        if counts[agent] > 1
    ]
    return TaskHistory(
        task=task,
        task_id=trials[0].task_id,
        attempts=len(trials),
        passed=passed,
        agents=agents,
        runs=len({trial.run for trial in trials}),
        share=fmean(shares.values()),
        discrimination=_correlation(elsewhere),
        flips=_mean(float(0 < share < 1) for share in repeated),
        cost_usd=_mean(trial.cost_usd for trial in trials),
        seconds=_mean(trial.seconds for trial in trials),
        dead=("passed" if passed else "failed") if is_dead else None,
        differs_at_most=differs_at_most(agents) if is_dead else None,
        first_changed=next((trial.run for trial in trials if trial.passed != trials[0].passed), None),
    )


def differs_at_most(agents: int) -> float:
    """The chance that the next agent differs at a task where so many agents agree, at most, at 95 %.

    >>> [round(differs_at_most(agents), 3) for agents in (1, 9, 59)]
    [0.95, 0.283, 0.05]
    """
    return 1 - math.exp(math.log(0.05) / agents)


def _shares(trials: Iterable[PastTrial]) -> dict[str, float]:
    """agent:model to the share of its trials that passed."""
    outcomes: dict[str, list[bool]] = {}
    for trial in trials:
        outcomes.setdefault(trial.agent_model, []).append(trial.passed)
    return {agent: fmean(passed) for agent, passed in outcomes.items()}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _correlation(points: Sequence[tuple[float, float]]) -> float | None:
    sides = list(zip(*points, strict=True))
    if len(points) < LEAST_CORRELATED or any(max(side) - min(side) < 1e-12 for side in sides):
        return None
    return max(-1.0, min(1.0, correlation(*sides)))


TASKS = Board(
    "Tasks over all runs",
    (
        Column("task", "task", "name", ("task",)),
        Column("share", "passed", "percent", ("share",), hint="Mean over the agents.", rank=1),
        Column("attempts", "trials", "count", ("attempts",), rank=3),
        Column("agents", "agents", "count", ("agents",), rank=2),
        Column("runs", "runs", "count", ("runs",), rank=9),
        Column("dead", "dead", "state", ("dead",), hint="All trials of all agents ended so.", rank=1),
        Column("differs", "next differs", "percent", ("differs_at_most",), hint="At most, 95 %.", rank=5),
        Column("discrimination", "discrimination", "score", ("discrimination",), rank=6),
        Column("flips", "flips", "percent", ("flips",), rank=7),
        Column("cost", "cost", "dollars", ("cost_usd",), hint="Mean of a trial.", rank=4),
        Column("seconds", "time", "span", ("seconds",), hint="Mean of a trial.", rank=8),
        Column("first_changed", "first changed in", "name", ("first_changed",), rank=10),
    ),
)


def tasks_table(tasks: Sequence[TaskHistory]) -> Table:
    """The tasks, in the given order, and how many of them are dead."""
    return table_of(TASKS, tasks)._replace(note=dead_words(tasks))


def dead_words(tasks: Sequence[TaskHistory]) -> str:
    """How many tasks tell no agents apart, and how sure that is; "" without a task.

    The chance belongs to the dead task with the fewest agents.
    """
    dead = [task for task in tasks if task.dead]
    if not tasks:
        return ""
    passed = sum(task.dead == "passed" for task in dead)
    said = f"{len(dead)} of {len(tasks)} tasks are dead: {passed} always passed, {len(dead) - passed} never"
    if not dead:
        return said
    chance = differs_at_most(min(task.agents for task in dead))
    return f"{said}. The next agent differs at such a task with a chance of at most {chance:.0%} (95 %)"


# -----------------------------------------------------------------------------
# The order for a comparison: first the tasks that told earlier agents apart.


LIVE = 0.05, 0.95
"""A task whose share lies between them tells agents apart often enough to come first."""


def live_tasks(history: Iterable[TaskHistory], names: Iterable[str]) -> set[str]:
    """The tasks that come first: their share lies between .05 and .95, or nothing is known of them.

    Args:
        history: of a task in several tiers one of them suffices.
        names: task ids.
    """
    low, high = LIVE
    shares: dict[str, list[float]] = {}
    for task in history:
        shares.setdefault(task.task_id, []).append(task.share)
    return {name for name in names if any(low < share < high for share in shares.get(name, [0.5]))}


def order_for_comparison(
    names: Collection[str], history: Iterable[TaskHistory], attempts: int, seed: str
) -> list[tuple[str, int]]:
    """All trials, task and attempt: the live tasks in shuffled rounds, then the others in shuffled rounds.

    Args:
        names: task ids, each once.
        history: of runs that are no side of the comparison.
        attempts: at each task, >= 1.
        seed: as in `shuffled_rounds`.
    """
    live = live_tasks(history, names)
    parts = ([name for name in names if (name in live) is first] for first in (True, False))
    return [trial for part in parts for trial in shuffled_rounds(part, attempts, seed)]
