"""Leaderboards of benchmarks: the runs of each pooled by agent:model, with intervals and ranks. Pure.

Pass rates are pooled over all finished runs, task by task. Of other metrics the newest finished run stands
for its agent:model: the sums by task that pooling needs are published of passes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import inf
from typing import Any, Literal

from pydantic import Field

from streamer.client.lifecycle import state_of
from streamer.client.results import BoardRun
from streamer.inference.ability import Clusters, rate_interval
from streamer.inference.paired import Attempts
from streamer.inference.ranks import places_at_end
from streamer.schemas.base import Message, Number
from streamer.schemas.canonical import json_number
from streamer.schemas.comparison import Rank
from streamer.schemas.metrics import PRIMARY_METRIC, BoardMetric, board_metric
from streamer.views.board_entries import Entry, LeftOut, entries_of
from streamer.views.models import Ends, Label
from streamer.views.trend import Change, TrendPoint, change_between

LEFT_OUT: dict[LeftOut, str] = {
    "tiny": "tiny",
    "no_benchmark": "names no benchmark",
    "not_compared": "no tasks published",
}
"""Why a row of a run that is over stands below, in words."""

MOST_RANKED = 60
"""Agents of a board that are ranked, as in a run."""

MOST_POINTS = 30
"""The latest runs of an agent:model that its trend shows."""


class BoardRow(Message):
    """One agent:model on the leaderboard of a benchmark; below the others also one of its runs."""

    order: int | None = Field(ge=1, description="From 1; equal values share a number. Null: see `left_out`.")
    rank: Rank | None = Field(description="Where it may truly stand, 95 %, all agents at once; null: none.")
    agent_model: Label
    value: Number = Field(description="In the unit of the metric.")
    interval: Ends | None = Field(
        description="Of the value on tasks like these, 95 %, clustered by task; null: none is known."
    )
    trials: int = Field(ge=0, description="Trials that the value rests on.")
    tasks: int = Field(ge=0, description="Tasks that it rests on.")
    unknown: int = Field(
        ge=0,
        description="Trials of them without a final value (inference 3): not passed in `value`, and counted "
        "both ways in `rank`.",
    )
    runs: list[str] = Field(description="Runs that it rests on, the newest first.")
    newest: str = Field(description="The newest of them.")
    left_out: LeftOut | None = Field(
        description="Why it stands below, unranked: its run is unfinished, tiny, names no benchmark, or has "
        "published no tasks of the agent. Null: it is ranked."
    )
    why: str | None = Field(description="The same in words; of an unfinished run its state.")
    trend: list[TrendPoint] = Field(description="Its finished runs, the oldest first, 30 at most.")
    change: Change | None = Field(
        description="Its newest finished run against the one before of the same benchmark; null: there is "
        "none, it names no benchmark, or the metric is not the pass rate."
    )


class BenchmarkBoard(Message):
    """The leaderboard of one benchmark by one metric."""

    benchmark: str | None = Field(description="Null: several, or runs that name none.")
    mixed: bool = Field(description="Its runs are of several benchmarks, because that was asked for.")
    versions: list[str] = Field(description="Versions of the benchmark that its runs name.")
    title: str = Field(default="", description="For people; names are not escaped.")
    notes: list[str] = Field(default=[], description="What its columns mean, a sentence or two each.")
    metric: str = Field(description="METRIC of the board, or metrics/NAME.")
    label: str | None = Field(description="Named metric: heading for people; null: the name.")
    unit: str = Field(description="Unit of the values; 1 for a plain ratio.")
    higher_is_better: bool = Field(description="Direction of the metric.")
    rows: list[BoardRow] = Field(description="Best first.")
    below: list[BoardRow] = Field(description="Runs that are left out, best first.")
    rank_missing: Literal["metric", "too_many_agents", "one_agent"] | None = Field(
        description="Why no agent is ranked; null: they are."
    )


def boards_of(
    runs: Iterable[BoardRun], metric: str, now: datetime, *, together: bool = False
) -> list[BenchmarkBoard]:
    """A leaderboard for each benchmark, by its name; runs that name none come last.

    Args:
        runs: as `StateReader.board_runs` gives them.
        metric: a METRIC, or metrics/NAME.
        now: the time at which the states of runs are determined.
        together: one board of all runs, whatever their benchmark; its tasks stay different tasks.
    """
    groups: dict[str | None, list[BoardRun]] = {}
    for run in runs:
        groups.setdefault(None if together else run.run.benchmark, []).append(run)
    ordered = sorted(groups.items(), key=lambda item: (item[0] is None, item[0] or ""))
    boards = (_board(held, metric, now, together=together) for _, held in ordered)
    return [board for board in boards if board is not None]


def _board(runs: Sequence[BoardRun], metric: str, now: datetime, *, together: bool) -> BenchmarkBoard | None:
    """One board; None: no agent has the metric."""
    of = board_metric(metric, (agent.model_dump(mode="json") for run in runs for agent in run.agents))
    if of is None:
        return None
    names = {run.run.benchmark for run in runs}
    mixed = len(names) > 1
    entries = entries_of(runs, of, pooled=together or None not in names)
    if not entries:
        return None
    sign = -1.0 if of.higher_is_better else 1.0
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.when):
        if entry.left_out is None:
            groups.setdefault(entry.agent.agent_model, []).append(entry)
    pooled = [_pooled(held, of, together=together) for held in groups.values()]
    pooled.sort(key=lambda pair: (sign * pair[0], pair[1].agent_model))
    missing = _rank_missing(metric, len(pooled))
    ranks = {} if missing else places_at_end({row.agent_model: tasks for _, row, tasks in pooled})
    below = [entry for entry in entries if entry.left_out is not None]
    below.sort(key=lambda entry: (sign * entry.value, entry.agent.agent_model, entry.run.run.run_id))
    named = {run.run.benchmark_version for run in runs}
    return BenchmarkBoard(
        benchmark=None if mixed else next(iter(names)),
        mixed=mixed,
        versions=sorted(version for version in named if version is not None),
        metric=metric,
        label=of.label,
        unit=of.unit,
        higher_is_better=of.higher_is_better,
        rows=_placed(pooled, {label: Rank(best=p.best, worst=p.worst) for label, p in ranks.items()}),
        below=[_row_below(entry, now) for entry in below],
        rank_missing=missing,
    )


def _rank_missing(metric: str, agents: int) -> Literal["metric", "too_many_agents", "one_agent"] | None:
    if metric != PRIMARY_METRIC:
        return "metric"
    if agents > MOST_RANKED:
        return "too_many_agents"
    return "one_agent" if agents < 2 else None


def _pooled(
    entries: Sequence[Entry], of: BoardMetric, *, together: bool
) -> tuple[float, BoardRow, dict[str, list[Attempts]]]:
    """The finished runs of one agent:model, the oldest first: its value, its row, and its trials by task."""
    newest = entries[-1]
    tasks = _by_task(_task_names(entry, together=together) for entry in reversed(entries))
    rests_on, value, interval = [newest], newest.value, newest.interval
    if of.name == PRIMARY_METRIC:
        rests_on = list(entries)
        clusters = Clusters.of_counts(
            [
                (sum(run.planned for run in held), sum(run.passed for run in held), 1)
                for held in tasks.values()
            ]
        )
        mean, ends = clusters.mean(), rate_interval(clusters)
        value, interval = mean or 0.0, ends and Ends(low=ends.low, high=ends.high)
    row = BoardRow(
        order=None,
        rank=None,
        agent_model=newest.agent.agent_model,
        value=_number(value),
        interval=interval,
        trials=sum(entry.agent.trials for entry in rests_on),
        tasks=len(tasks) if of.name == PRIMARY_METRIC else len(newest.tasks),
        unknown=sum(one.unknown for entry in rests_on for one in entry.tasks.values()),
        runs=[entry.run.run.run_id for entry in reversed(rests_on)],
        newest=newest.run.run.run_id,
        left_out=None,
        why=None,
        trend=[_point(entry) for entry in entries[-MOST_POINTS:]],
        change=_change(entries) if of.name == PRIMARY_METRIC else None,
    )
    return value, row, tasks


def _task_names(entry: Entry, *, together: bool) -> Mapping[str, Attempts]:
    """The tasks of a run; where benchmarks may be mixed, each under the name of its own."""
    run = entry.run.run
    if not together:
        return entry.tasks
    of = f"run {run.run_id}" if run.benchmark is None else f"benchmark {run.benchmark}"
    return {f"{of}\n{task}": held for task, held in entry.tasks.items()}


def _by_task(several: Iterable[Mapping[str, Attempts]]) -> dict[str, list[Attempts]]:
    """The trials at each task, run by run."""
    found: dict[str, list[Attempts]] = {}
    for tasks in several:
        for task, one in tasks.items():
            found.setdefault(task, []).append(one)
    return found


def _placed(
    pooled: Sequence[tuple[float, BoardRow, Mapping[str, Sequence[Attempts]]]], ranks: Mapping[str, Rank]
) -> list[BoardRow]:
    """The rows in order, with the places that they may truly have."""
    rows: list[BoardRow] = []
    last, order = inf, 0
    for position, (value, row, _) in enumerate(pooled, start=1):
        order = order if rows and value == last else position
        last = value
        rows.append(row.model_copy(update={"order": order, "rank": ranks.get(row.agent_model)}))
    return rows


def _row_below(entry: Entry, now: datetime) -> BoardRow:
    return BoardRow(
        order=None,
        rank=None,
        agent_model=entry.agent.agent_model,
        value=_number(entry.value),
        interval=None if entry.left_out == "unfinished" else entry.interval,
        trials=entry.agent.trials,
        tasks=entry.agent.tasks,
        unknown=sum(one.unknown for one in entry.tasks.values()),
        runs=[entry.run.run.run_id],
        newest=entry.run.run.run_id,
        left_out=entry.left_out,
        why=_why(entry, now),
        trend=[],
        change=None,
    )


def _why(entry: Entry, now: datetime) -> str | None:
    if entry.left_out != "unfinished":
        return entry.left_out and LEFT_OUT[entry.left_out]
    if entry.run.run.degraded is not None:
        return "in quarantine"
    state = state_of(entry.run.run, now)
    return "short of its plan" if state == "finished" else state


def _point(entry: Entry) -> TrendPoint:
    run = entry.run.run
    return TrendPoint(
        run=run.run_id,
        at=run.last_event_at,
        value=_number(entry.value),
        interval=entry.interval,
        trials=entry.agent.trials,
    )


def _number(value: float) -> Any:
    """A known value as it stands in JSON."""
    return json_number(value)


def _change(entries: Sequence[Entry]) -> Change | None:
    """The newest run against the one before; tasks of different benchmarks may share their names."""
    *older, after = entries
    benchmark = after.run.run.benchmark
    before = next((one for one in reversed(older) if one.run.run.benchmark == benchmark), None)
    if benchmark is None or before is None:
        return None
    return change_between(before.run, after.run, after.agent.agent_model)
