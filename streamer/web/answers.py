"""The answers to each path of the API. OPERATIONS at the end lists the paths."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from streamer.schemas.canonical import json_number
from streamer.schemas.summaries import AgentModelSummary, TierSummary
from streamer.views.compare import ComparedSide, compare_sides, side_of
from streamer.views.comparisons import pair_standings
from streamer.views.history import history_points
from streamer.views.leaderboard import BenchmarkBoard
from streamer.views.models import Comparison, HistoryPoint, RunNow
from streamer.views.outlook import Outlook
from streamer.views.why import MetricMoves
from streamer.web.folded import comparison_as_of, in_order, moves_of, snapshot_as_of
from streamer.web.models import (
    AsOfQuery,
    ComparedAgents,
    CompareQuery,
    Health,
    HistoryQuery,
    LabelGroup,
    LeaderboardQuery,
    LeaderboardRow,
    LeaderboardsQuery,
    NoQuery,
    OutlookQuery,
    RunSnapshot,
    RunsQuery,
    TiersQuery,
    WhyQuery,
)
from streamer.web.one_file import one_file
from streamer.web.operation import Answer, BadQuery, Operation
from streamer.web.resources import Web
from streamer.web.run_curves import RunCurves
from streamer.web.run_views import curves_of, labels, outlook
from streamer.web.trial_answers import TRIAL_OPERATIONS


async def _runs(web: Web, query: RunsQuery) -> list[RunNow]:
    if query.as_of is not None:
        past = await web.runs_as_of.at(query.as_of)
        return [RunNow.of(run, past.moment) for run in past.runs()]
    found = await web.reader.runs()
    now = datetime.now(UTC)
    return [RunNow.of(run, now) for run in found]


async def _run(web: Web, query: AsOfQuery, run: str) -> RunNow:
    now = datetime.now(UTC)
    if query.as_of is not None:
        found, moment = await snapshot_as_of(web, run, query.as_of)
        return RunNow.of(found.run, moment or now)
    return RunNow.of(await web.reader.run(run), now)


async def _snapshot(web: Web, query: AsOfQuery, run: str) -> RunSnapshot:
    if query.as_of is not None:
        found, _ = await snapshot_as_of(web, run, query.as_of)
    else:
        found = await web.reader.snapshot(run)
    return RunSnapshot(run=found.run, agents=found.agents, tiers=found.tiers, in_flight=found.in_flight)


async def _why(web: Web, query: WhyQuery, run: str) -> MetricMoves:
    return await moves_of(web, run, query)


async def _comparison(web: Web, query: AsOfQuery, run: str) -> ComparedAgents:
    if query.as_of is not None:
        found = await comparison_as_of(web, run, query.as_of)
    else:
        found = await web.reader.comparison(run)
    return ComparedAgents(comparison=found.comparison, pairs=pair_standings(found))


async def _agents(web: Web, query: AsOfQuery, run: str) -> list[AgentModelSummary]:
    if query.as_of is not None:
        return (await snapshot_as_of(web, run, query.as_of))[0].agents
    return await web.reader.agents(run)


async def _tiers(web: Web, query: TiersQuery, run: str) -> list[TierSummary]:
    if query.as_of is not None:
        tiers = (await snapshot_as_of(web, run, query.as_of))[0].tiers
        return [tier for tier in tiers if query.within or tier.agent_model is None]
    return await web.reader.tiers(run, within=query.within)


async def _history(web: Web, query: HistoryQuery, run: str) -> list[HistoryPoint]:
    return history_points(await web.history(run), query.kind, query.points)


async def _leaderboard(web: Web, query: LeaderboardQuery) -> list[LeaderboardRow]:
    labels = dict(map(_label, query.label))
    narrowed: dict[str, Any] = {
        "run": query.run,
        "benchmark": query.benchmark,
        "labels": labels,
        "limit": query.limit,
    }
    if query.as_of is not None:
        past = await web.runs_as_of.at(query.as_of, query.run)
        rows = past.leaderboard(query.metric, **narrowed)
    else:
        rows = await web.reader.leaderboard(query.metric, **narrowed)
    return [
        LeaderboardRow(**asdict(row) | {"metric": query.metric, "value": json_number(row.value)})
        for row in rows
    ]


async def _leaderboards(web: Web, query: LeaderboardsQuery) -> list[BenchmarkBoard]:
    return await web.leaderboards.boards(query, dict(map(_label, query.label)))


async def _leaderboards_file(web: Web, query: LeaderboardsQuery) -> bytes:
    """The leaderboards as one HTML file."""
    document = await web.leaderboards.document(query, dict(map(_label, query.label)))
    return one_file(document)


async def _compare(web: Web, query: CompareQuery) -> Comparison:
    a = await _side(web, query.a, query.a_agent)
    b = await _side(web, query.b, query.b_agent)
    return await in_order(web, compare_sides(a, b, query.offset, query.limit))


async def _health(web: Web, query: NoQuery) -> Health:
    return await web.hub.health()


async def _side(web: Web, run_id: str, agent_model: str | None) -> ComparedSide:
    agents = await web.reader.agents(run_id)
    held = (await web.trials.trials(run_id)).values()
    rows = side_of([trial.row for trial in held], agents, agent_model)
    return ComparedSide(await web.reader.comparison(run_id), agents, agent_model, rows)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadQuery(f"label={text!r}: write KEY=VALUE")
    return key, value


OPERATIONS = (
    Operation("/api/runs", "All runs, the latest first.", RunsQuery, RunNow, True, _runs),
    Operation("/api/runs/{run}", "One run.", AsOfQuery, RunNow, False, _run),
    Operation(
        "/api/runs/{run}/snapshot",
        "One run with its agent:models, tiers and trials in flight, all from one moment.",
        AsOfQuery,
        RunSnapshot,
        False,
        _snapshot,
    ),
    Operation(
        "/api/runs/{run}/agents",
        "The agent:models of a run, baselines too, by label.",
        AsOfQuery,
        AgentModelSummary,
        True,
        _agents,
    ),
    Operation(
        "/api/runs/{run}/comparison",
        "The agents of a run compared: the rank of each, and what may be said of every two.",
        AsOfQuery,
        ComparedAgents,
        False,
        _comparison,
    ),
    Operation("/api/runs/{run}/tiers", "The tiers of a run.", TiersQuery, TierSummary, True, _tiers),
    Operation(
        "/api/runs/{run}/why",
        "What moved a number of the run's agents; folds the log of the run again.",
        WhyQuery,
        MetricMoves,
        False,
        _why,
    ),
    Operation(
        "/api/runs/{run}/labels/{label}",
        "The trials of a run by the values of one of their labels; folds the log of the run again.",
        AsOfQuery,
        LabelGroup,
        True,
        labels,
    ),
    Operation(
        "/api/runs/{run}/history",
        "Headline numbers over time, oldest first.",
        HistoryQuery,
        HistoryPoint,
        True,
        _history,
    ),
    Operation(
        "/api/runs/{run}/curves",
        "The learning curves of a run, by the trials' own times; folds the log of the run again.",
        AsOfQuery,
        RunCurves,
        False,
        curves_of,
    ),
    Operation(
        "/api/runs/{run}/outlook",
        "What a run still has before it: forecasts, running trials, places, a budget.",
        OutlookQuery,
        Outlook,
        False,
        outlook,
    ),
    *TRIAL_OPERATIONS,
    Operation(
        "/api/leaderboard",
        "Agent:models by a metric, best first; no baselines, provisional ones last.",
        LeaderboardQuery,
        LeaderboardRow,
        True,
        _leaderboard,
    ),
    Operation(
        "/api/leaderboards",
        "A leaderboard for each benchmark: finished runs pooled by agent:model, intervals and ranks.",
        LeaderboardsQuery,
        BenchmarkBoard,
        True,
        _leaderboards,
    ),
    Operation(
        "/api/leaderboards.html",
        "The same leaderboards as one HTML file that needs nothing else.",
        LeaderboardsQuery,
        BenchmarkBoard,
        True,
        _leaderboards_file,
        media="text/html",
    ),
    Operation(
        "/api/compare",
        "Two runs, or two agents, on the tasks that both have done.",
        CompareQuery,
        Comparison,
        False,
        _compare,
    ),
    Operation("/api/health", "Whether this server follows Redis.", NoQuery, Health, False, _health),
)


def values_of(answer: Answer) -> Any:
    """An answer as a JSON value."""
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", by_alias=True)
    return [one.model_dump(mode="json", by_alias=True) for one in answer if isinstance(one, BaseModel)]
