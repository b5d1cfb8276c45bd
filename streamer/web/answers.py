"""Answers of the API, drawn for the page, with the same paths and queries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any
from urllib.parse import quote

from streamer.client.queries import MOST_BOARD_RUNS
from streamer.schemas.events import BOARD_METRICS, NAMED
from streamer.schemas.summaries import RunSummary
from streamer.storage.kafka import KafkaError, broker_problem
from streamer.text import UNSEEN, counted, visible
from streamer.views import drawing
from streamer.views.cells import place
from streamer.views.columns import AGENTS, ALIKE, COMPARED, RUNS, Column, named, unsorted
from streamer.views.decide import compare
from streamer.views.decide import outlook as outlooks
from streamer.views.decide.leaderboard import (
    POOLED,
    BenchmarkBoard,
    BoardRow,
    Change,
    notes_once,
    value_column,
)
from streamer.views.decide.outlook import Outlook
from streamer.views.models import Comparison, FailureGroup, FlipGroup, ListedRun, SideTotals
from streamer.web import models
from streamer.web.api import Web, event_of
from streamer.web.artifacts import ArtifactView
from streamer.web.boards import run_link
from streamer.web.models import OutlookQuery, Query
from streamer.web.opened import opened_file, opened_trial
from streamer.web.protocols.live import Json

# -----------------------------------------------------------------------------
# The paths.


DRAWN_TYPE = "application/vnd.streamer.drawn+json"
"""The media type with which the page asks for elements instead of values."""


async def _runs_answer(web: Web, query: models.RunsQuery, found: models.Page[ListedRun]) -> Json:
    column = next(one for one in RUNS.columns if one.name == query.sort)
    descending = column.sort == "greatest" if query.descending is None else query.descending
    runs = [run.model_dump(mode="json") for run in found]
    drawn = drawing.draw_runs(runs, run_link, (query.sort, descending))
    return {"runs": drawn.parts(), "matching": found.total}


async def _trials_answer(web: Web, query: models.TrialsQuery, found: models.TrialPage, run: str) -> Json:
    agents = [agent.model_dump(mode="json") for agent in await web.reader.agents(run)]
    trials = [trial.model_dump(mode="json") for trial in found.trials]
    empty = "No trial fits." if found.total else "No trial has been counted yet."
    link = lambda trial: run_link(run, "/trials", trial=trial)  # noqa: E731
    drawn = drawing.draw_trials(trials, agents, sort=(query.sort, query.descending), empty=empty, link=link)
    counts = {"offset": found.offset, "matching": found.matching, "total": found.total}
    return {"trials": drawn.parts()} | counts


async def _failures_answer(web: Web, query: Query, found: models.Page[FailureGroup], run: str) -> Json:
    groups = [group.model_dump(mode="json") for group in found]
    link = lambda mode, kind: run_link(run, "/trials", failure_mode=mode, kind=kind)  # noqa: E731
    return {"failures": drawing.draw_failures(groups, link, found.total).parts()}


async def _compare_answer(web: Web, query: Query, found: Comparison) -> Json:
    counts = {"tasks": found.tasks, "shown": len(found.pairs), "refused": found.refused}
    return {"parts": drawn_comparison(found)} | counts


async def _leaders_answer(web: Web, query: models.LeaderboardsQuery, found: list[BenchmarkBoard]) -> Json:
    asked, _ = await web.runs.at(query.as_of)
    runs = (await asked.page_of_runs(limit=MOST_BOARD_RUNS)).runs
    boards = [
        {
            "key": board.title,
            "caption": visible(board.title),
            "title": drawing.name(board.title),
            "table": draw_leaders(board.model_copy(update={"notes": notes})).parts(),
        }
        for board, notes in zip(found, notes_once([board.notes for board in found]), strict=True)
    ]
    benchmarks = sorted({run.benchmark for run in runs if run.benchmark})
    return {"boards": boards, "metrics": _metrics(query.metric, runs), "benchmarks": benchmarks}


def _metrics(asked: str, runs: Iterable[RunSummary]) -> list[tuple[str, str]]:
    said: dict[str, Any] = {}
    for run in runs:
        for metric, says in (run.metrics or {}).items():
            said.setdefault(NAMED + metric, says)
    if asked.startswith(NAMED):
        said.setdefault(asked, None)
    own = [column for column in AGENTS.shown_on("page") if column.name in BOARD_METRICS]
    columns = [*own, *(named(metric, says) for metric, says in sorted(said.items(), key=lambda one: one[0]))]
    return [(column.name, drawing.title_of(column)) for column in columns]


async def _trial_answer(web: Web, query: Query, found: bytes, run: str, trial: str) -> Json:
    event, problem, payload = None, None, json.loads(found)
    try:
        event = await event_of(web, models.NoQuery(), run, trial)
    except Exception as error:
        if models.status_of(error) is None:
            raise
        problem = refusal(web, error)
    agents = await web.reader.agents(run)
    agent = next((one for one in agents if one.agent_model == payload["agent_model"]), None)
    return opened_trial(payload, event, problem, agent)


def refusal(web: Web, error: Exception) -> str:
    """An error as readable text, if the server has a status for it."""
    if isinstance(error, KafkaError):
        return f"This needs the broker, and {broker_problem(error, web.settings.bootstrap)}"
    return str(error)


async def _file_answer(
    web: Web, query: Query, found: ArtifactView, run: str, trial: str, artifact: str
) -> Json:
    path = "/".join(quote(part, safe="") for part in (run, "trials", trial, "artifacts", artifact))
    async with web.reading:
        return {"file": await asyncio.to_thread(opened_file, found, f"/api/runs/{path}/player")}


async def _outlook_answer(web: Web, query: OutlookQuery, found: Outlook, run: str) -> Json:
    return {"budget": outlooks.budget_words(found.budget, found.at) if found.budget else None}


DRAWN: dict[str, Callable[..., Awaitable[Json]]] = {
    "/api/runs": _runs_answer,
    "/api/runs/{run}/trials": _trials_answer,
    "/api/runs/{run}/trials/{trial}": _trial_answer,
    "/api/runs/{run}/trials/{trial}/artifacts/{artifact}": _file_answer,
    "/api/runs/{run}/failures": _failures_answer,
    "/api/runs/{run}/outlook": _outlook_answer,
    "/api/compare": _compare_answer,
    "/api/leaderboards": _leaders_answer,
}
"""The drawing function of each path; the answers of other paths are not drawn."""


# -----------------------------------------------------------------------------
# Leaderboards.


SPARK = (72, 18)


def draw_leaders(board: BenchmarkBoard) -> drawing.Drawn:
    """A leaderboard: ranked agents, then the excluded runs."""
    rows, value = [*board.rows, *board.below], replace(value_column(board), name="value", hint="")
    write = drawing.NUMBERS["percent" if value.format == "pass_rate" else value.format]
    is_share = board.metric in BOARD_METRICS and value.format in ("percent", "score")
    about = ALIKE if any(row.interval for row in rows) else ""
    known = {"rank": any(r.rank for r in rows), "change": any(r.change for r in rows)}
    known["trend"] = any(len(row.trend) > 1 for row in rows)
    columns = [
        replace(value, about=about) if column.name == "value" else column
        for column in unsorted(POOLED.shown_on("page"))
        if known.get(column.name, True)
    ]
    look = drawing.Look(
        visible(board.title),
        key=lambda row: f"{row.runs[0] if row.left_out else ''}\n{row.agent_model}",
        primary="value",
        row_class=lambda row: "left-out" if row.left_out else "",
        cells={
            "agent": lambda row: (
                drawing.name(row.agent_model),
                drawing.badge(row.why, "warn") if row.why else None,
            ),
            "rank": lambda row: place(row.rank) if row.rank else UNSEEN,
            "value": lambda row: _value_of(row, write, is_share),
            "runs": lambda row: drawing.count(len(row.runs)),
            "newest": lambda row: drawing.h("a", {"href": run_link(row.newest)}, drawing.name(row.newest)),
            "trend": lambda row: _trend(row, write) if len(row.trend) > 1 else UNSEEN,
            "change": lambda row: _change(row.change) if row.change else UNSEEN,
        },
        empty="No agent is on this board.",
    )
    return drawing.draw(columns, rows, look, board.notes)


def _value_of(row: BoardRow, write: Callable[[Any], str], is_share: bool) -> drawing.Content:
    """The value with its interval; a share also gets a thin bar."""
    ends = row.interval
    if ends is None:
        return write(row.value)
    reach = drawing.h("span", {"class": "note"}, f"[{write(ends.low)}, {write(ends.high)}]")
    text = drawing.h("span", {}, write(row.value), " ", reach)
    if not is_share:
        return text
    bar = drawing.h("i", {"--low": ends.low, "--high": ends.high}), drawing.h("b", {"--at": float(row.value)})
    return drawing.h(
        "span", {"class": "reached"}, text, drawing.h("span", {"class": "reach", "aria-hidden": "true"}, bar)
    )


def _change(change: Change) -> drawing.Content:
    by = change.difference or 0.0
    mood = ("better" if by > 0 else "worse") if change.certain else None
    return drawing.h("span", {"class": mood, "title": visible("; ".join(change.words))}, change.said)


def _trend(row: BoardRow, write: Callable[[Any], str]) -> drawing.Element:
    values = [float(p.value) for p in row.trend if isfinite(float(p.value))]
    said = "\n".join(f"{visible(point.run)}: {write(point.value)}" for point in row.trend)
    (width, height), low, high = SPARK, min(values, default=0.0), max(values, default=0.0)
    points = [
        (
            2 + at * (width - 4) / max(1, len(values) - 1),
            height - 3 - (value - low) / (high - low or 1) * (height - 6),
        )
        for at, value in enumerate(values)
    ]
    line = drawing.h("polyline", {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points)})
    says = {"class": "spark", "viewBox": f"0 0 {width} {height}", "role": "img", "aria-label": said}
    return drawing.h("svg", says, drawing.h("title", {}, said), line)


# -----------------------------------------------------------------------------
# Two sides compared: in words, by metric, by the tasks that only one side passes, and task by task.


def drawn_comparison(found: Comparison) -> list[drawing.Element]:
    if not found.tasks:
        return [drawing.h("p", {"class": "empty"}, "They have no task in common.")]
    said = [drawing.h("p", {}, f"{side.upper()}  ", *_whose(getattr(found, side))) for side in "ab"]
    said += [drawing.h("p", {}, visible(line)) for line in (found.in_common, *found.words)]
    parts = [drawing.h("div", {"class": "body note notes said"}, *said), drawing.table(_totals(found))]
    parts.append(
        drawing.h("p", {"class": "body note"}, compare.METHODS if found.ended else compare.STILL_OPEN)
    )
    if found.flips:
        parts += [
            drawing.h("h3", {"class": "part"}, "Tasks that only one side passes"),
            drawing.table(_flips(found)),
        ]
    for side, tasks in (("a", found.not_in_b), ("b", found.not_in_a)):
        only_here = getattr(found, side).only_here
        if only_here and tasks:
            listed = _listed(tasks, only_here, drawing.name, f" only in {side.upper()}")
            parts.append(drawing.h("div", {"class": "body"}, listed))
    return [*parts, drawing.h("h3", {"class": "part"}, "Task by task"), drawing.table(_pairs(found))]


def _whose(side: SideTotals) -> Sequence[drawing.Content]:
    agent = "all but baselines" if side.agent_model is None else drawing.name(side.agent_model)
    return drawing.name(side.run), ": ", agent, f", {counted(side.trials, 'trial')} of the common tasks"


def _totals(found: Comparison) -> drawing.Drawn:
    rows: list[dict[str, Any]] = [
        {"metric": metric, "column": compare.column_of(metric, of), "of": of, "tasks": of.tasks}
        | {"a_better": of.a_better, "b_better": of.b_better, "equal": of.equal}
        for metric, of in found.differences.items()
        if of.tasks
    ]

    def side(which: SideTotals) -> Callable[[Any], drawing.Content]:
        return lambda row: drawing.NUMBERS[row["column"].format](compare.value_of(which, row["metric"]))

    def title(row: Any) -> drawing.Content:
        return drawing.name(row["column"].title) if row["column"].outside else drawing.title_of(row["column"])

    some = any(row["of"].interval for row in rows)
    columns = [c for c in compare.COMPARED_BOARD.shown_on("page") if some or c.name != "interval"]
    look = drawing.Look(
        "Totals",
        key=lambda row: str(row["metric"]),
        primary="moved",
        cells={
            "metric": title,
            "a": side(found.a),
            "b": side(found.b),
            "moved": lambda row: _moved(row["column"], row["of"].mean, row["of"].higher_is_better),
            "interval": lambda row: (
                drawing.fine(compare.interval_of(row["column"], row["of"], _written)) or UNSEEN
            ),
            "p": lambda row: _chance(row["of"].p_value),
        },
    )
    return drawing.draw(columns, rows, look)


def _written(column: Column, value: Any) -> str:
    return drawing.NUMBERS[column.format](value)


def _moved(column: Column, by: float | None, high: bool) -> drawing.Content:
    return (
        UNSEEN
        if by is None
        else drawing.better(by, drawing.fine(compare.moved(column, by, _written)), high=high)
    )


def _chance(p: float | None) -> str:
    return UNSEEN if p is None else "< 0.001" if p < 0.001 else drawing.ratio(p)


def _flips(found: Comparison) -> drawing.Drawn:
    def lost(group: FlipGroup, task: str) -> drawing.Element:
        other = found.b if group.passed_by == "a" else found.a
        task_id = task if group.tier is None else task[len(group.tier) + 1 :]
        wanted = {"task": task_id, "tier": group.tier, "agent": other.agent_model}
        given = {key: value for key, value in wanted.items() if value is not None}
        return drawing.h("a", {"href": run_link(other.run, "/trials", **given)}, drawing.name(task))

    look = drawing.Look(
        "Tasks that only one side passes",
        key=lambda group: json.dumps([group.passed_by, group.tier, group.failure_mode]),
        primary="count",
        cells={
            "passed_by": lambda group: f"{group.passed_by.upper()} alone",
            "tasks": lambda group: _listed(group.tasks, group.count, partial(lost, group)),
        },
    )
    return drawing.draw(compare.FLIPS, found.flips, look)


def _listed(
    tasks: Sequence[str], whole: int, show: Callable[[str], drawing.Content], what: str = ""
) -> drawing.Element:
    more = whole - len(tasks)
    rest = drawing.h("li", {}, f"and {drawing.count(more)} more") if more > 0 else None
    items = [drawing.h("li", {}, show(task)) for task in tasks]
    return drawing.h(
        "details",
        {},
        drawing.h("summary", {}, f"{counted(whole, 'task')}{what}"),
        drawing.h("ul", {}, *items, rest),
    )


PAIRS = (
    Column("task", "task", "name", ("task_id",), sort="least"),
    Column("tier", "tier", "tier", ("tier",), sort="least"),
    Column("a", "A", "percent", ("a", "pass_rate"), sort="greatest"),
    Column("b", "B", "percent", ("b", "pass_rate"), sort="greatest"),
    Column("difference", "B - A", "percent", ("difference",), sort="greatest"),
    Column("a_cost", "cost, A", "dollars", ("a", "cost_usd"), sort="least"),
    Column("b_cost", "cost, B", "dollars", ("b", "cost_usd"), sort="least"),
)


def _pairs(found: Comparison) -> drawing.Drawn:
    rows = [pair.model_dump() for pair in found.pairs]
    for row in rows:
        rates = row["a"]["pass_rate"], row["b"]["pass_rate"]
        row["difference"] = None if None in rates else rates[1] - rates[0]

    def side(which: str) -> Callable[[Any], drawing.Content]:
        return lambda row: (
            f"{drawing.percent(row[which]['pass_rate'])} of {drawing.count(row[which]['trials'])}"
        )

    look = drawing.Look(
        "Tasks that both ran",
        key=lambda row: json.dumps([row["task_id"], row["tier"]]),
        cells={
            "a": side("a"),
            "b": side("b"),
            "difference": lambda row: _moved(COMPARED.columns[0], row["difference"], True),
        },
    )
    return drawing.draw(PAIRS, rows, look)
