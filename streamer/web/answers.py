"""The answers to each path of the API. OPERATIONS at the end lists the paths."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from streamer.client.async_reader import AsyncStateReader
from streamer.client.results import HistoryEntry
from streamer.schemas.canonical import json_number
from streamer.schemas.scored_trial import ScoredTrial
from streamer.schemas.summaries import AgentModelSummary, TierSummary
from streamer.settings import Settings
from streamer.views.compare import compare, side_of
from streamer.views.comparisons import between, pair_standings
from streamer.views.history import history_points
from streamer.views.models import Comparison, HistoryPoint, RunNow, TrialRow
from streamer.views.outlook import Outlook
from streamer.web.event_intake import EventIntake
from streamer.web.hub import Hub
from streamer.web.models import (
    ComparedAgents,
    CompareQuery,
    Health,
    HistoryQuery,
    LabelGroup,
    LeaderboardQuery,
    LeaderboardRow,
    NoQuery,
    Query,
    RunSnapshot,
    TiersQuery,
    TrialPage,
    TrialsQuery,
)
from streamer.web.run_views import CurveCache, RunCurves, curves_of, labels, outlook, prices_of
from streamer.web.trial_list import page_of
from streamer.web.trial_log import TrialLog

HISTORY_SECONDS = 2.0
"""A run's history that was read so recently is not read again."""

MAX_HISTORIES = 16

Answer = BaseModel | Sequence[BaseModel] | bytes


class BadQuery(Exception):
    """The part after the question mark cannot be answered."""


class NoSuchTrial(Exception):
    """The run has no such trial."""

    def __init__(self, run_id: str, trial_id: str) -> None:
        super().__init__(f"Run {run_id!r} has no trial {trial_id!r}; /api/runs/.../trials lists those it has")


class Web:
    """Everything that answers draw on, and the way to the broker; one per process.

    Attributes:
        settings: where Redis and the broker are.
        prices: price table of the runs that are folded here (R2).
        curves: the learning curves of the runs that people look at.
        folding: held while one is, since that takes the memory of a run.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.prices = prices_of(settings)
        self.folding = asyncio.Lock()
        self.curves = CurveCache(settings, self.prices, self.folding)
        self.reader = AsyncStateReader(settings)
        self.hub = Hub(self.reader)
        self.intake = EventIntake(settings)
        self.trials = TrialLog(settings, time.monotonic)
        self._histories: dict[str, tuple[float, asyncio.Task[list[HistoryEntry]]]] = {}

    async def history(self, run_id: str) -> list[HistoryEntry]:
        """The history of a run, read once for all who ask at about the same time."""
        read_at, reading = self._histories.pop(run_id, (float("-inf"), None))
        now = time.monotonic()
        if reading is None or now - read_at >= HISTORY_SECONDS:
            read_at, reading = now, asyncio.create_task(self.reader.history(run_id))
        self._histories[run_id] = read_at, reading
        while len(self._histories) > MAX_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return await asyncio.shield(reading)


@dataclass(frozen=True, slots=True)
class Operation:
    """One path of the API.

    Attributes:
        path: with the names of its parameters in braces.
        summary: what it answers, for people.
        query: what may stand behind the question mark.
        model: what it answers with; `many`: a list of that.
        answer: called with the process's `Web`, the parameters of the path, and the query.
    """

    path: str
    summary: str
    query: type[Query]
    model: type[BaseModel]
    many: bool
    answer: Callable[..., Awaitable[Answer]]


async def _runs(web: Web, query: NoQuery) -> list[RunNow]:
    found = await web.reader.runs()
    now = datetime.now(UTC)
    return [RunNow.of(run, now) for run in found]


async def _run(web: Web, query: NoQuery, run: str) -> RunNow:
    return RunNow.of(await web.reader.run(run), datetime.now(UTC))


async def _snapshot(web: Web, query: NoQuery, run: str) -> RunSnapshot:
    found = await web.reader.snapshot(run)
    return RunSnapshot(run=found.run, agents=found.agents, tiers=found.tiers, in_flight=found.in_flight)


async def _comparison(web: Web, query: NoQuery, run: str) -> ComparedAgents:
    found = await web.reader.comparison(run)
    return ComparedAgents(comparison=found.comparison, pairs=pair_standings(found))


async def _agents(web: Web, query: NoQuery, run: str) -> list[AgentModelSummary]:
    return await web.reader.agents(run)


async def _tiers(web: Web, query: TiersQuery, run: str) -> list[TierSummary]:
    return await web.reader.tiers(run, within=query.within)


async def _history(web: Web, query: HistoryQuery, run: str) -> list[HistoryPoint]:
    return history_points(await web.history(run), query.kind, query.points)


async def _trials(web: Web, query: TrialsQuery, run: str) -> TrialPage:
    await web.reader.run(run)
    return page_of([held.row for held in (await web.trials.trials(run)).values()], query)


async def _trial(web: Web, query: NoQuery, run: str, trial: str) -> bytes:
    found = await web.trials.payload(run, trial)
    if found is None:
        raise NoSuchTrial(run, trial)
    return found


async def _leaderboard(web: Web, query: LeaderboardQuery) -> list[LeaderboardRow]:
    rows = await web.reader.leaderboard(
        query.metric,
        run=query.run,
        benchmark=query.benchmark,
        labels=dict(map(_label, query.label)),
        limit=query.limit,
    )
    return [
        LeaderboardRow(**asdict(row) | {"metric": query.metric, "value": json_number(row.value)})
        for row in rows
    ]


async def _compare(web: Web, query: CompareQuery) -> Comparison:
    a = await _side(web, query.a, query.a_agent)
    b = await _side(web, query.b, query.b_agent)
    names = ((query.a, query.a_agent), (query.b, query.b_agent))
    found = compare(a, b, names, query.offset, query.limit)
    runs = await web.reader.comparison(query.a), await web.reader.comparison(query.b)
    return found.model_copy(update={"words": between(*runs, query.a_agent, query.b_agent)})


async def _health(web: Web, query: NoQuery) -> Health:
    return await web.hub.health()


async def _side(web: Web, run_id: str, agent_model: str | None) -> list[TrialRow]:
    agents = await web.reader.agents(run_id)
    held = (await web.trials.trials(run_id)).values()
    return side_of([trial.row for trial in held], agents, agent_model)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadQuery(f"label={text!r}: write KEY=VALUE")
    return key, value


OPERATIONS = (
    Operation("/api/runs", "All runs, the latest first.", NoQuery, RunNow, True, _runs),
    Operation("/api/runs/{run}", "One run.", NoQuery, RunNow, False, _run),
    Operation(
        "/api/runs/{run}/snapshot",
        "One run with its agent:models, tiers and trials in flight, all from one moment.",
        NoQuery,
        RunSnapshot,
        False,
        _snapshot,
    ),
    Operation(
        "/api/runs/{run}/agents",
        "The agent:models of a run, baselines too, by label.",
        NoQuery,
        AgentModelSummary,
        True,
        _agents,
    ),
    Operation(
        "/api/runs/{run}/comparison",
        "The agents of a run compared: the rank of each, and what may be said of every two.",
        NoQuery,
        ComparedAgents,
        False,
        _comparison,
    ),
    Operation("/api/runs/{run}/tiers", "The tiers of a run.", TiersQuery, TierSummary, True, _tiers),
    Operation(
        "/api/runs/{run}/labels/{label}",
        "The trials of a run by the values of one of their labels; folds the log of the run again.",
        NoQuery,
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
        NoQuery,
        RunCurves,
        False,
        curves_of,
    ),
    Operation(
        "/api/runs/{run}/outlook",
        "What a run still has before it: forecasts, running trials, places.",
        NoQuery,
        Outlook,
        False,
        outlook,
    ),
    Operation("/api/runs/{run}/trials", "A page of scored trials.", TrialsQuery, TrialPage, False, _trials),
    Operation(
        "/api/runs/{run}/trials/{trial}",
        "One scored trial with its payload, as published.",
        NoQuery,
        ScoredTrial,
        False,
        _trial,
    ),
    Operation(
        "/api/leaderboard",
        "Agent:models by a metric, best first; no baselines, provisional ones last.",
        LeaderboardQuery,
        LeaderboardRow,
        True,
        _leaderboard,
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
