"""Leaderboards of benchmarks: the runs of each pooled by agent:model, with intervals and ranks. Pure.

Pass rates are pooled over all finished runs, task by task. Of other metrics the newest finished run stands
for its agent:model: the sums by task that pooling needs are published of passes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal, TypeVar

from pydantic import Field

from streamer.client.queries import MOST_BOARD_RUNS, BoardRun, ComparedRun, HistoryEntry
from streamer.schemas.base import (
    Instant,
    Message,
    Number,
    agent_model_label,
    decode_id,
    json_number,
    optional,
    value_at,
)
from streamer.schemas.events import BOARD_METRICS, NAMED, PRIMARY_METRIC, BoardMetric, board_metric
from streamer.schemas.provenance import Made
from streamer.schemas.summaries import AgentModelSummary, Rank, TaskOutcomes, is_over, state_of
from streamer.statistics.ability import Clusters, rate_interval
from streamer.statistics.pairs import Attempts, Paired, common_tasks, outcomes_of, paired, places_at_end
from streamer.text import UNSEEN, counted, ends_in_points, points, shown
from streamer.views.cells import place, text
from streamer.views.columns import ALIKE, Board, Column, metric, named
from streamer.views.decide.comparable import Pool, comparable
from streamer.views.decide.compare import between
from streamer.views.models import Ends, HistoryPoint, Label
from streamer.views.tables import Document, Table, table_of

# -----------------------------------------------------------------------------
# Who stands on the leaderboards of benchmarks: each agent:model of each run, and who is left out. Pure.


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
        trials: that the value rests on (R1, R31).
        left_out: why the run is not pooled; None: it is.
    """

    run: BoardRun
    agent: AgentModelSummary
    value: float
    interval: Ends | None
    tasks: dict[str, Attempts]
    trials: int
    left_out: LeftOut | None

    @property
    def size(self) -> int:
        """Its tasks; of numbers alone only their count is published (R31)."""
        return len(self.tasks) or self.agent.tasks

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
    entries = [entry for run in runs for entry in _entries(run, of)]
    most = max((entry.size for entry in entries if entry.left_out is None), default=0)
    return [_mark(entry, most, pooled=pooled) for entry in entries]


def _entries(run: BoardRun, of: BoardMetric) -> Iterable[Entry]:
    over = is_over(run.run) and run.run.degraded is None and not run.run.provisional
    for agent in run.agents:
        stored, label = agent.model_dump(mode="json"), agent.agent_model
        value = None if agent.baseline else of.value(stored)
        if value is None:
            continue
        attempts = {
            task: Attempts(*numbers[label]) for task, numbers in run.tasks.items() if label in numbers
        }
        finished = over and not agent.provisional
        left_out: LeftOut | None = None if attempts or agent.verdict_trials == 0 else "not_compared"
        shown_as = left_out if finished else "unfinished"
        yield Entry(run, agent, value, _interval(of, stored), attempts, of.trials(stored), shown_as)


def _mark(entry: Entry, most: int, *, pooled: bool) -> Entry:
    if entry.left_out is not None:
        return entry
    if not pooled:
        return replace(entry, left_out="no_benchmark")
    tiny = entry.size < LEAST_TASKS or 2 * entry.size < most
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
    low, high = value_at(agent, (*path, f"{before}low")), value_at(agent, (*path, f"{before}high"))
    return Ends(low=low, high=high) if isinstance(low, float) and isinstance(high, float) else None


# -----------------------------------------------------------------------------
# An agent:model over the nights: its finished runs of one benchmark, and whether the last change is real.


class TrendPoint(Message):
    """One finished run of an agent:model."""

    run: str = Field(description="Run id.")
    at: Instant | None = Field(description="Event time of its last event.")
    value: Number = Field(description="In the unit of the metric.")
    interval: Ends | None = Field(description="On tasks like these, 95 %; null: none is known.")
    trials: int = Field(ge=0, description="Trials of the run.")


class Change(Message):
    """The newest finished run of an agent:model against the one before, on their common tasks."""

    before: str = Field(description="Run id of the older run.")
    after: str = Field(description="Run id of the newer run.")
    difference: float | None = Field(
        description="Pass rate after minus before, over known trials of common tasks; null: none."
    )
    interval: Ends | None = Field(
        description="Of the difference, 95 %, clustered, whatever unknown trials become; null: under 5 tasks."
    )
    p_value: float | None = Field(
        ge=0,
        le=1,
        description="Exact two-sided sign test over the tasks with equal attempts, the largest that unknown "
        "trials leave; null: there is no such task.",
    )
    certain: bool = Field(
        description="The sign test shows it at 5 %, the mean agrees (inference 7), and the runs are "
        "comparable (R36)."
    )
    said: str = Field(
        description="The difference, its interval, and `real`, `may be chance`, `attempts differ` or "
        "`not comparable` (R36)."
    )
    words: list[str] = Field(description="What may be said, one sentence each; names are not escaped.")


def change_between(before: BoardRun, after: BoardRun, agent_model: str) -> Change:
    """How an agent:model changed from one finished run to the next.

    It is one comparison that was chosen before its outcome was seen. Of twenty agents that did not change,
    about one looks as if it had.
    """
    older, newer = (ComparedRun(run.run, None, run.tasks, run.provenance) for run in (before, after))
    names = before.run.run_id, after.run.run_id
    made = comparable(_made(before, agent_model), _made(after, agent_model), names)
    sides = (outcomes_of(_without(run.tasks, made.left_out), [agent_model]) for run in (after, before))
    result = paired(list(common_tasks(*sides).pairs.values()), over=True)
    words = between(newer, older, agent_model, agent_model, result)
    if made.refused:
        words = [f"not comparable: {'; '.join(dict.fromkeys(made.refused.values()))}"]
    ends = result.interval
    return Change(
        before=before.run.run_id,
        after=after.run.run_id,
        difference=result.difference,
        interval=Ends.of(ends),
        p_value=result.p_value,
        certain=result.certain and not made.refused,
        said=_said(result, is_refused=bool(made.refused)),
        words=words + [said for said in made.words if said not in made.refused.values()],
    )


def _made(run: BoardRun, agent_model: str, tasks: Iterable[str] | None = None) -> Made:
    names = run.tasks if tasks is None else tasks
    return Made.by(run.run, names, run.provenance, [agent_model])


def _without(tasks: Mapping[str, TaskOutcomes], left_out: Collection[str]) -> dict[str, TaskOutcomes]:
    return {task: of for task, of in tasks.items() if task not in left_out}


def _said(result: Paired, *, is_refused: bool) -> str:
    if result.difference is None:
        return UNSEEN
    ends, untested = result.interval, result.uneven == result.tasks
    between = f" {ends_in_points(ends.low, ends.high)}" if ends else ""
    judged = (
        "not comparable"
        if is_refused
        else "real"
        if result.certain
        else "attempts differ"
        if untested
        else "may be chance"
    )
    return f"{points(result.difference)}{between}, {judged}"


# -----------------------------------------------------------------------------
# Leaderboards of benchmarks: the runs of each pooled by agent:model, with intervals and ranks. Pure.


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
    unversioned: int = Field(ge=0, description="Runs on it that name no version of the benchmark.")
    title: str = optional("For people; names are not escaped.", "")
    notes: list[str] = optional("What its columns mean, a sentence or two each.", [])
    metric: str = Field(description="METRIC of the board, or metrics/NAME.")
    label: str | None = Field(description="Named metric: heading for people; null: the name.")
    unit: str = Field(description="Unit of the values; 1 for a plain ratio.")
    higher_is_better: bool = Field(description="Direction of the metric.")
    rows: list[BoardRow] = Field(description="Best first.")
    below: list[BoardRow] = Field(description="Runs that are left out, best first.")
    rank_missing: Literal["metric", "too_many_agents", "one_agent"] | None = Field(
        description="Why no agent is ranked; null: they are."
    )
    differences: list[str] = optional(
        "How its ranked runs were made in different ways, one sentence each (R36). Agents are ranked against "
        "each other only by tasks on which they agree. Names are not escaped.",
        [],
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
    boards = (_board(group, metric, now, together=together) for _, group in ordered)
    return [board for board in boards if board is not None]


def _board(runs: Sequence[BoardRun], metric: str, now: datetime, *, together: bool) -> BenchmarkBoard | None:
    """One board; None: no agent has the metric. Without verdicts, the primary metric leads (R31)."""
    if metric == PRIMARY_METRIC and all(run.run.verdict_trials == 0 for run in runs):
        metric = next((name for run in runs if (name := run.run.primary_metric) != metric), metric)
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
    pooled = [_pooled(group, of, together=together) for group in groups.values()]
    pooled.sort(key=lambda pair: (sign * pair[0], pair[1].agent_model))
    missing = _rank_missing(metric, len(pooled))
    made = Pool(
        {label: {one.run.run.run_id: _pool_made(one, together) for one in of} for label, of in groups.items()}
    )
    ranks = (
        {} if missing else places_at_end({r.agent_model: tasks for _, r, tasks in pooled}, common=made.common)
    )
    below = [entry for entry in entries if entry.left_out is not None]
    below.sort(key=lambda entry: (sign * entry.value, entry.agent.agent_model, entry.run.run.run_id))
    named = [run.run.benchmark_version for run in runs]
    return BenchmarkBoard.like(
        of,
        title="",
        notes=[],
        benchmark=None if mixed else next(iter(names)),
        mixed=mixed,
        versions=sorted({version for version in named if version is not None}),
        unversioned=named.count(None),
        metric=metric,
        rows=_placed(pooled, {label: Rank(best=p.best, worst=p.worst) for label, p in ranks.items()}),
        below=[_row_below(entry, now) for entry in below],
        rank_missing=missing,
        differences=made.words(),
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
    tasks: dict[str, list[Attempts]] = {}
    for entry in reversed(entries):
        for task, one in _task_names(entry, together=together).items():
            tasks.setdefault(task, []).append(one)
    rests_on, value, interval = [newest], newest.value, newest.interval
    if of.name == PRIMARY_METRIC:
        rests_on = list(entries)
        clusters = Clusters.of_counts(
            [
                (sum(run.planned for run in attempts), sum(run.passed for run in attempts), 1)
                for attempts in tasks.values()
            ]
        )
        mean, ends = clusters.mean(), rate_interval(clusters)
        value, interval = mean or 0.0, Ends.of(ends)
    row = BoardRow.like(
        newest.agent,
        order=None,
        rank=None,
        value=json_number(value),
        interval=interval,
        trials=sum(entry.trials for entry in rests_on),
        tasks=len(tasks) if of.name == PRIMARY_METRIC else min(newest.agent.tasks, newest.trials),
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
    return {f"{of}\n{task}": attempts for task, attempts in entry.tasks.items()}


def _pool_made(entry: Entry, together: bool) -> Made:
    """What the trials of one run were made with, under the names that its tasks have on the board."""
    made = _made(entry.run, entry.agent.agent_model, entry.tasks)
    names = zip(_task_names(entry, together=together), made.tasks.values(), strict=True)
    return replace(made, tasks=dict(names))


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
    return BoardRow.like(
        entry.agent,
        order=None,
        rank=None,
        value=json_number(entry.value),
        interval=None if entry.left_out == "unfinished" else entry.interval,
        trials=entry.trials,
        tasks=min(entry.agent.tasks, entry.trials),
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
    at, value = run.last_event_at, json_number(entry.value)
    return TrendPoint.like(entry, run=run.run_id, at=at, value=value, trials=entry.agent.trials)


def _change(entries: Sequence[Entry]) -> Change | None:
    """The newest run against the one before; tasks of different benchmarks may share their names."""
    *older, after = entries
    benchmark = after.run.run.benchmark
    before = next((one for one in reversed(older) if one.run.run.benchmark == benchmark), None)
    if benchmark is None or before is None:
        return None
    return change_between(before.run, after.run, after.agent.agent_model)


# -----------------------------------------------------------------------------
# Leaderboards of benchmarks as tables and as a document: terminal, HTML file and page say the same.


POOLED = Board(
    "Leaderboard of a benchmark",
    (
        Column("agent", "agent:model", "agent", ("agent_model",)),
        Column("order", "order", "count", ("order",), on=("text",)),
        Column("rank", "place", "number", ("rank",), hint="Its possible true ranks, 95 %", about=ALIKE),
        Column("value", "value", "number", ("value",)),
        Column("interval", "95 %", "number", ("interval",), on=("text",), about=ALIKE),
        Column("trials", "trials", "count", ("trials",)),
        Column("tasks", "tasks", "count", ("tasks",)),
        Column("unknown", "unknown", "some", ("unknown",), hint="Trials without a final value"),
        Column("runs", "runs", "count", ("runs",), hint="Finished runs pooled here"),
        Column("newest", "newest run", "name", ("newest",)),
        Column("trend", "run by run", "state", ("trend",), hint="Finished runs, the oldest first"),
        Column("change", "change", "state", ("change",), hint="The newest run minus the one before"),
        Column("why", "left out", "state", ("why",), on=("text",)),
    ),
)
"""The columns of a leaderboard that pools runs, on every surface."""

RANKED = (
    "place: with 95 % probability, every agent's true place is in its range, for all agents at once "
    "(one-sided sign tests on common tasks, Holm). This holds for one board fixed beforehand, not for the "
    "best of many nights. For each pair of agents, the newest runs that give both equal attempts at a task "
    "count. If there are none, the task cannot separate the two, and the ranges widen."
)
NOT_RANKED = {
    "metric": "No ranks: two agents are tested against each other only by passes, not by this metric.",
    "too_many_agents": "No ranks: more than 60 agents.",
    "one_agent": "No ranks: fewer than two agents have a finished run.",
}
ALL_RUNS = (
    "The value covers all finished runs; 95 % is for tasks like these, clustered by task. Runs are left "
    "out while unfinished, or with fewer than 5 tasks or half of the largest run's. Their values cover the "
    "results so far."
)
NEWEST = "Value and 95 % are from the newest finished run: only passes can be pooled over runs."
UNKNOWN = (
    "unknown: trials without a final value, for example without a verdict. The value counts them as not "
    "passed; place and change allow for both outcomes."
)
CHANGED = (
    "change: the newest run minus the one before, on the same benchmark. real: the sign test over common "
    "tasks with equal attempts shows it at 5 %. attempts differ: there is no such task. About one in 20 "
    "unchanged agents looks changed."
)
MIXED = "Benchmarks are mixed: these values come from different tasks."
LATEST = f"Only the latest {MOST_BOARD_RUNS:,} runs count here. A benchmark or a label narrows them."

POINTS_LISTED = 5


def leaderboard_tables(boards: Iterable[BenchmarkBoard], limit: int | None = None) -> list[Table]:
    """A table for each benchmark: ranked agents first, runs that are left out below and marked.

    Args:
        limit: at most so many rows of each table; None: all.
    """
    every = list(boards)
    notes = notes_once(board.notes or notes_of(board) for board in every)
    return [_table(board, limit)._replace(note="\n".join(of)) for board, of in zip(every, notes, strict=True)]


def leaderboard_document(
    boards: Sequence[BenchmarkBoard], facts: Sequence[str], limit: int | None = None
) -> Document:
    """All boards as one document.

    Args:
        facts: what they were narrowed to, such as a label.
        limit: as of `leaderboard_tables`.
    """
    lines = [] if any(board.rows or board.below for board in boards) else ["No agent is on this board."]
    return Document("Leaderboard", facts, lines, leaderboard_tables(boards, limit))


def with_words(boards: Iterable[BenchmarkBoard], runs: int = 0) -> list[BenchmarkBoard]:
    """The same boards of so many runs, each with its title and its notes."""
    latest = [LATEST] if runs >= MOST_BOARD_RUNS else []
    return [
        board.model_copy(update={"title": title_of(board), "notes": notes_of(board) + latest})
        for board in boards
    ]


def value_column(board: BenchmarkBoard) -> Column:
    """The column that says how values of a board are written and what they are called."""
    if board.metric in BOARD_METRICS:
        return metric(board.metric, path=("value",), sort=None)
    direction = "higher" if board.higher_is_better else "lower"
    says = {"unit": board.unit, "label": board.label, "direction": direction}
    return replace(named(board.metric, says), path=("value",), sort=None)


def title_of(board: BenchmarkBoard) -> str:
    """What stands above a board; names from outside stand in it."""
    if board.mixed:
        name = "All runs"
    elif board.benchmark is None:
        name = "Runs that name no benchmark"
    else:
        alike = len(board.versions) == 1 and not board.unversioned
        name = " ".join([shown(board.benchmark), *map(shown, board.versions * alike)])
    return f"{name}: {value_column(board).title}, {'highest' if board.higher_is_better else 'lowest'} first"


def notes_of(board: BenchmarkBoard) -> list[str]:
    """What the columns of a board mean, and why some say nothing; a sentence or two each."""
    said = [MIXED] if board.mixed else []
    if len(board.versions) > 1:
        said.append(f"Runs of several versions of the benchmark: {', '.join(map(shown, board.versions))}.")
    if board.versions and board.unversioned and not board.mixed:
        verb = "names" if board.unversioned == 1 else "name"
        said.append(f"{counted(board.unversioned, 'run')} {verb} no version of the benchmark.")
    said += [f"{shown(difference)}." for difference in board.differences]
    if board.rows:
        said.append(ALL_RUNS if board.metric == "pass_rate" else NEWEST)
        said.append(RANKED if board.rank_missing is None else NOT_RANKED[board.rank_missing])
    if board.metric == PRIMARY_METRIC and any(row.unknown for row in board.rows):
        said.append(UNKNOWN)
    if any(row.change for row in board.rows):
        said.append(CHANGED)
    return said


MEANINGS = frozenset((ALL_RUNS, NEWEST, RANKED, UNKNOWN, CHANGED, LATEST))
"""Notes that say the same of every board."""


def notes_once(boards: Iterable[Sequence[str]]) -> list[list[str]]:
    """The notes of boards that stand together; what their columns mean stands below the last such board.

    >>> notes_once([[CHANGED, "Of a."], [CHANGED, "Of b."], []])[0]
    ['Of a.']
    """
    said, kept = set[str](), list[list[str]]()
    for notes in reversed(list(boards)):
        kept.insert(0, [note for note in notes if note not in said])
        said |= MEANINGS.intersection(notes)
    return kept


def _table(board: BenchmarkBoard, limit: int | None) -> Table:
    value = value_column(board)
    columns = tuple(value if column.name == "value" else column for column in POOLED.columns)
    rows = [_row(row, value) for row in (*board.rows, *board.below)][:limit]
    return table_of(replace(POOLED, columns=columns), rows, title_of(board))


def _row(row: BoardRow, value: Column) -> dict[str, Any]:
    ends = row.interval

    def write(one: float | str) -> str:
        return text(value, {"value": one})

    points = [write(point.value) for point in row.trend[-POINTS_LISTED:]] if len(row.trend) > 1 else []
    return {
        **row.model_dump(include={"agent_model", "order", "trials", "tasks", "unknown", "value", "why"}),
        "rank": place(row.rank) if row.rank else UNSEEN,
        "interval": f"[{write(ends.low)}, {write(ends.high)}]" if ends else None,
        "runs": len(row.runs),
        "newest": row.runs[0],
        "trend": ", ".join(points) or None,
        "change": row.change.said if row.change else None,
    }


# -----------------------------------------------------------------------------
# The history of a run as points of a chart: few enough to draw, the latest of every group among them.


COUNTS = ("trials", "done", "planned")
NUMBERS = (
    "accuracy",
    "pass_rate",
    "composite_score",
    "total_cost",
    "cost_of_pass",
    "mean_speedup",
    "agent_advantage",
)
_NOT_FINITE = {"Infinity", "-Infinity", "NaN"}

T = TypeVar("T")


def history_points(entries: Iterable[HistoryEntry], kind: str | None, limit: int) -> list[HistoryPoint]:
    """Entries as points, oldest first.

    Args:
        entries: oldest first.
        kind: only these; None: all.
        limit: at most so many points per group, 2 or more.
    """
    groups: dict[tuple[str, str], list[HistoryEntry]] = {}
    for entry in entries:
        if kind in (None, entry.kind):
            groups.setdefault((entry.kind, entry.group), []).append(entry)
    kept = [entry for group in groups.values() for entry in thinned(group, limit)]
    return [point_of(entry) for entry in sorted(kept, key=lambda entry: _order(entry.id))]


def thinned(items: Sequence[T], limit: int) -> list[T]:
    """At most `limit` (2 or more) of the items, evenly spread, the first and the last among them.

    >>> thinned([1, 2, 3, 4, 5], 3), thinned([1, 2], 3), thinned([], 3)
    ([1, 3, 5], [1, 2], [])
    """
    if len(items) <= limit:
        return list(items)
    step = (len(items) - 1) / (limit - 1)
    return [items[round(number * step)] for number in range(limit)]


def point_of(entry: HistoryEntry) -> HistoryPoint:
    """One entry with its numbers as numbers."""
    tier, agent_model = group_of(entry.kind, entry.group)
    numbers: dict[str, Any] = {name: _plain_number(entry.headline.get(name)) for name in NUMBERS}
    counts: dict[str, Any] = {name: _count(entry.headline.get(name)) for name in COUNTS}
    named: dict[str, Any] = {
        name.removeprefix(NAMED): _plain_number(mean)
        for name, mean in entry.headline.items()
        if name.startswith(NAMED)
    }
    provisional = entry.headline.get("provisional")
    return HistoryPoint.like(
        entry,
        agent_model=agent_model,
        tier=tier,
        grade=entry.headline.get("grade"),
        metrics=named,
        provisional=None if provisional is None else provisional == "true",
        **numbers,
        **counts,
    )


def group_of(kind: str, suffix: str) -> tuple[str | None, str | None]:
    """Tier and agent:model of a group, from what follows the kind in the suffix of its Redis key.

    >>> group_of("tier", "T1:a%3Ab:m"), group_of("agent_model", "a:m"), group_of("run", "")
    (('T1', 'a%3Ab:m'), (None, 'a:m'), (None, None))
    """
    parts = [decode_id(part) for part in suffix.split(":")] if suffix else []
    tier = parts.pop(0) if kind == "tier" else None
    return tier, agent_model_label(*parts) if len(parts) == 2 else None


def _order(entry_id: str) -> tuple[int, int]:
    """Redis stream ids are `milliseconds-number`."""
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number or 0)


def _plain_number(text: str | None) -> float | str | None:
    return text if text is None or text in _NOT_FINITE else float(text)


def _count(text: str | None) -> int | None:
    return None if text is None else int(text)
