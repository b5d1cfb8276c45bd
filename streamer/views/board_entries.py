"""Who stands on the leaderboards of benchmarks: each agent:model of each run, and who is left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from streamer.client.lifecycle import is_over
from streamer.client.results import BoardRun
from streamer.inference.paired import Attempts
from streamer.schemas.metrics import BoardMetric
from streamer.schemas.summaries import AgentModelSummary
from streamer.views.columns import found
from streamer.views.models import Ends

LeftOut = Literal["unfinished", "tiny", "no_benchmark", "not_compared"]

LEAST_TASKS = 5
"""Even if one agent passes all of fewer tasks and another none, the sign test cannot tell them apart."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An agent:model of one run.

    Attributes:
        run: the run.
        agent: its summary there.
        value: the metric's.
        interval: of the value, on tasks like these; None: not known.
        tasks: its trials by task; {} while the run is not over.
        left_out: why the run is not pooled; None: it is.
    """

    run: BoardRun
    agent: AgentModelSummary
    value: float
    interval: Ends | None
    tasks: dict[str, Attempts]
    left_out: LeftOut | None

    @property
    def when(self) -> tuple[datetime, str]:
        """Event time of the run's last event, and its id."""
        return self.run.run.last_event_at or datetime.min.replace(tzinfo=UTC), self.run.run.run_id


def entries_of(runs: Iterable[BoardRun], of: BoardMetric, *, pooled: bool) -> list[Entry]:
    """Every agent:model of every run that has the metric, baselines left out (R4).

    Args:
        runs: of one benchmark.
        of: the metric.
        pooled: the runs may be pooled; False: their benchmark is not known.
    """
    held = [entry for run in runs for entry in _entries(run, of)]
    most = max((len(entry.tasks) for entry in held if entry.left_out is None), default=0)
    return [_mark(entry, most, pooled=pooled) for entry in held]


def _entries(run: BoardRun, of: BoardMetric) -> Iterable[Entry]:
    over = is_over(run.run) and run.run.degraded is None and not run.run.provisional
    for agent in run.agents:
        stored, label = agent.model_dump(mode="json"), agent.agent_model
        value = None if agent.baseline else of.value(stored)
        if value is None:
            continue
        held = {task: Attempts(*numbers[label]) for task, numbers in run.tasks.items() if label in numbers}
        finished = over and not agent.provisional
        left_out: LeftOut | None = None if held else "not_compared"
        yield Entry(run, agent, value, _interval(of, stored), held, left_out if finished else "unfinished")


def _mark(entry: Entry, most: int, *, pooled: bool) -> Entry:
    if entry.left_out is not None:
        return entry
    if not pooled:
        return replace(entry, left_out="no_benchmark")
    tiny = len(entry.tasks) < LEAST_TASKS or 2 * len(entry.tasks) < most
    return replace(entry, left_out="tiny") if tiny else entry


def _interval(of: BoardMetric, agent: Mapping[str, object]) -> Ends | None:
    """The interval that the summary of one run has of a metric."""
    beside = {
        "pass_rate": ("uncertainty", "ability"),
        "mean_cost": ("statistics", "cost_usd"),
        "mean_speedup": ("formulacode",),
    }
    path = beside.get(of.name, of.path[:-1] if of.path[-1] == "mean" else None)
    if path is None:
        return None
    before = "mean_speedup_" if of.name == "mean_speedup" else ""
    low, high = found(agent, (*path, f"{before}low")), found(agent, (*path, f"{before}high"))
    return Ends(low=low, high=high) if isinstance(low, float) and isinstance(high, float) else None
