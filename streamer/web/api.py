"""The functions behind each path of the API; `OPERATIONS` lists the paths."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from streamer.client.feeds import NotInLog, scored_trials, scored_trials_of
from streamer.client.folded import FoldedRun, RunLog, fold_run, fold_states
from streamer.client.queries import OF_COMPARISON, OF_SNAPSHOT, HistoryEntry, RunAnswers
from streamer.client.readers import AsyncStateReader
from streamer.folding.breakdowns import by_label
from streamer.folding.fold import CannotBeFolded
from streamer.folding.prices import price_table
from streamer.operate.unfinished import Unfinished, unfinished_in
from streamer.schemas.base import decode_id, json_number
from streamer.schemas.events import TrialResult
from streamer.schemas.summaries import AgentModelSummary, RunSummary, ScoredTrial, TierSummary, is_over
from streamer.schemas.wire import Position, Version
from streamer.settings import Settings
from streamer.storage.kafka import TopicAuthorizationFailedError, TopicMissing
from streamer.views.cells import sort_value
from streamer.views.columns import RUNS, sorted_rows
from streamer.views.decide.compare import ComparedSide, compare_sides, pair_standings
from streamer.views.decide.gate import Live, in_order, needs_order, with_live
from streamer.views.decide.history import (
    PastRun,
    TaskHistory,
    TaskPage,
    TaskRun,
    past_of,
    task_document,
    task_page,
    tasks_of,
)
from streamer.views.decide.leaderboard import BenchmarkBoard, history_points
from streamer.views.decide.ledger import (
    LedgerName,
    LedgerResult,
    entries_of,
    ledger_document,
    ledger_of,
    names_document,
    names_of,
    runs_of,
)
from streamer.views.decide.outlook import Outlook, outlook_of, places_of
from streamer.views.models import (
    Comparison,
    FailedTrial,
    FailureGroup,
    HistoryPoint,
    ListedRun,
    Matrix,
    RunNow,
    TrialRow,
    failure_groups,
    matrix_of,
)
from streamer.views.tables import Document, run_document
from streamer.views.why import MetricMoves, Question, metric_of, why
from streamer.web import log
from streamer.web.artifacts import (
    ArtifactView,
    CannotBeOpened,
    DirectoryRun,
    RunDirectories,
    recording,
    view_of,
)
from streamer.web.log import (
    MAX_TRIALS,
    CurveCache,
    EventFacts,
    EventsClosed,
    Folds,
    Leaderboards,
    LogTruncated,
    Recent,
    RunCurves,
    RunsAt,
    StoredTrial,
    TooManyTrials,
    TrialEvents,
    TrialLog,
    facts_of,
    page_of,
    run_curves,
)
from streamer.web.models import (
    JSON,
    Answer,
    AsOfQuery,
    BadQuery,
    ComparedAgents,
    CompareQuery,
    Health,
    HistoryQuery,
    LabelGroup,
    LeaderboardQuery,
    LeaderboardRow,
    LeaderboardsQuery,
    ListedTrial,
    MatrixQuery,
    NoQuery,
    NoSuchTask,
    NoSuchTrial,
    Operation,
    OutlookQuery,
    Page,
    Query,
    RunSheetQuery,
    RunSnapshot,
    RunsQuery,
    TaskSheetQuery,
    TasksQuery,
    TiersQuery,
    TimeQuery,
    TrialArtifact,
    TrialEvent,
    TrialPage,
    TrialsQuery,
    UnfinishedQuery,
    WhyQuery,
)
from streamer.web.pages import one_file, sheet
from streamer.web.protocols.connections import Connections
from streamer.web.protocols.intake import EventIntake
from streamer.web.protocols.live import Hub
from streamer.web.report import as_csv, as_parquet, known_side

# -----------------------------------------------------------------------------
# The resources of the answers: readers, streams, access to the broker.


HISTORY_SECONDS = 2.0
"""The age below which a run's history is not read again."""

MAX_HISTORIES = 16

MAX_READ_AHEAD = 4
"""The most runs read at a time because their pages were opened."""

LARGE = 20_000
"""Number of trials above which a run is read in advance, because reading takes a second or more."""

GROWTH = 1.25

LOOK_SECONDS = 5.0
"""Seconds between two checks for large runs among the latest ones."""


class Web:
    """Resources that all answers share, and access to the broker; one per process.

    `prices` apply to runs folded here (R2). `reading` is a lock, because reading a trial's file takes as much
    memory as the file.
    """

    def __init__(
        self, settings: Settings, artifacts: Sequence[Path] = (), connections: Connections | None = None
    ) -> None:
        connections = connections or Connections()
        self.settings = settings
        self.prices = price_table(settings.prices_file)
        self.folds = Folds()
        self.reading = asyncio.Lock()
        self.curves = CurveCache(settings, self.prices, self.folds)
        self.reader = AsyncStateReader(settings)
        self.hub = Hub(self.reader, connections.most_streams, connections.most_per_address)
        self.intake = EventIntake(settings)
        self.runs = RunsAt(self.reader, settings, self.prices, self.folds)
        self.leaderboards = Leaderboards(self.runs, time.monotonic)
        self.trials = TrialLog(settings, time.monotonic)
        self.events = TrialEvents(settings, time.monotonic)
        self.directories = RunDirectories(settings, artifacts, time.monotonic)
        self._reading_ahead: dict[str, asyncio.Future[Any]] = {}
        self._large: dict[str, tuple[Version | None, int]] = {}
        self._histories: Recent[list[HistoryEntry]] = Recent(HISTORY_SECONDS, MAX_HISTORIES, time.monotonic)

    async def history(self, run_id: str) -> list[HistoryEntry]:
        return await self._histories.answer(run_id, partial(self.reader.history, run_id))

    def read_ahead(self, run_id: str) -> None:
        """Start reading the trials of a run whose page was opened.

        Errors are ignored here, because the later request hits them again.
        """
        if run_id not in self._reading_ahead and len(self._reading_ahead) < MAX_READ_AHEAD:
            reading = asyncio.gather(self._read_ahead(run_id), return_exceptions=True)
            self._reading_ahead[run_id] = reading
            reading.add_done_callback(lambda _: self._reading_ahead.pop(run_id))

    async def _read_ahead(self, run_id: str) -> None:
        run = await self.reader.run(run_id)
        if run.trials <= MAX_TRIALS:
            await asyncio.gather(self.trials.trials(run_id), self.events.facts(run_id))
            await self.events.facts(run_id, every=True)

    async def follow_large_runs(self) -> None:
        """Prepare answers about large runs before a viewer asks, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)  # questions at the start take precedence
            with suppress(Exception):  # every question about runs gets it
                await self.read_large_runs()

    async def read_large_runs(self) -> None:
        """Read the latest large runs that fit into memory, viewed ones first.

        A run is read again once it has grown a lot, or has changed and is over. Errors of one run are ignored
        here, because the later request hits them again.
        """
        room, before, self._large = MAX_TRIALS, self._large, {}
        runs = (await self.reader.page_of_runs()).runs
        for run in sorted(runs, key=lambda run: run.run_id not in self.hub.viewed):
            if LARGE <= run.trials <= room:
                room -= run.trials
                version, (read, trials) = (run.epoch, run.state_version), before.get(run.run_id, (None, 0))
                has_ended = is_over(run) and self.curves.has_rested(run.run_id)
                is_due = version != read and (has_ended or run.trials >= GROWTH * trials)
                self._large[run.run_id] = (version, run.trials) if is_due else (read, trials)
                if is_due:
                    with suppress(Exception):  # before there are rows, which take room
                        await self.curves.work_ahead(run.run_id, version)
                    with suppress(Exception):
                        await self._read_ahead(run.run_id)


# -----------------------------------------------------------------------------
# Answers that fold the log of a run again: at an earlier position, and about moves of a number.


T = TypeVar("T")


class LiveRun:
    """A run from Redis and the topics; each method raises what `StateReader` raises."""

    def __init__(self, web: Web, run_id: str) -> None:
        self._web, self._run_id = web, run_id

    async def answers(self, *parts: str) -> RunAnswers:
        return await self._web.reader.answers(self._run_id, *parts)

    async def curves(self) -> RunCurves:
        run = await self._web.reader.run(self._run_id)
        return await self._web.curves.curves(self._run_id, (run.epoch, run.state_version))

    async def matrix(self, query: MatrixQuery) -> Matrix:
        in_flight = (await self._web.reader.snapshot(self._run_id)).in_flight
        trials = await self._web.trials.trials(self._run_id)
        rows = [trial.row for trial in trials.values()]
        return await asyncio.to_thread(matrix_of, rows, in_flight, query.metric, query.sort)

    async def file(self, ending: str) -> bytes:
        """All scored trials as a file; also raises what `scored_trials` raises."""
        run = await self._web.reader.run(self._run_id)

        def work() -> bytes:
            filled = run.progress.done > 0  # else the topic has nothing of the run
            return _written(ending, scored_trials(self._web.settings, self._run_id) if filled else [], run)

        return await self._web.folds.answer(("download", self._run_id, run.state_version, ending), work)


class FoldedAgain:
    """A run folded again, with the answers of a LiveRun and those that need a fold.

    Nothing after `position` is read; None: the fold goes to the present end of the log.
    """

    def __init__(self, web: Web, run_id: str, position: Position | None) -> None:
        self._web, self._run_id, self._position = web, run_id, position

    async def answer(self, question: Hashable, answer: Callable[[FoldedRun], T]) -> T:
        """Call `answer` with the run in a thread; equal concurrent questions share one answer."""
        web, run_id, position = self._web, self._run_id, self._position
        version = (await web.reader.run(run_id)).state_version

        def folded() -> T:
            if position and (begins_at := RunLog(web.settings, run_id, position).begins_at):
                raise LogTruncated(f"run {run_id!r}", begins_at)
            return answer(fold_run(web.settings, run_id, web.prices, position))

        return await web.folds.answer((question, run_id, version, position), folded)

    async def answers(self, *_: str) -> RunAnswers:
        return await self.answer("answers", lambda folded: folded.answers)

    async def curves(self) -> RunCurves:
        return await self.answer(
            "curves", lambda folded: run_curves(folded.run.state, folded.answers.run.state_version)
        )

    async def matrix(self, query: MatrixQuery) -> Matrix:
        def of(folded: FoldedRun) -> Matrix:
            trials = enumerate(map(orjson.loads, folded.scored_trials()))
            rows = [TrialRow.of(str(number), trial) for number, trial in trials]
            return matrix_of(rows, folded.answers.in_flight, query.metric, query.sort)

        return await self.answer(("matrix", query.metric, query.sort), of)

    async def file(self, ending: str) -> bytes:
        return await self.answer(
            ("download", ending), lambda folded: _written(ending, folded.scored_trials(), folded.answers.run)
        )


def run_at(web: Web, run_id: str, as_of: str | None) -> LiveRun | FoldedAgain:
    """A run now, or at a position that the user typed; raises BadPosition."""
    return LiveRun(web, run_id) if as_of is None else FoldedAgain(web, run_id, Position.of(as_of))


async def live_comparison(web: Web, comparison: Comparison, allowed: Sequence[str] = ()) -> Comparison:
    """A comparison of two runs, with the conclusions that the order of their trials allows; see `in_order`.

    It is unchanged if the log lacks events of either run, or this server may not read them.
    """
    if not needs_order(comparison):
        return comparison
    runs, agents = (comparison.a.run, comparison.b.run), (comparison.a.agent_model, comparison.b.agent_model)
    versions = [(await web.reader.run(run_id)).state_version for run_id in runs]

    def folded() -> Live:
        a, b = (fold_run(web.settings, run_id, web.prices) for run_id in runs)
        truncated = a.log.begins_at or b.log.begins_at
        return Live([], None) if truncated else in_order(a.run.state, b.run.state, *agents, allowed)

    question = "order", *runs, *agents, *versions, *allowed
    try:
        return with_live(comparison, await web.folds.answer(question, folded, keep=True))
    except (NotInLog, CannotBeFolded, TopicMissing, TopicAuthorizationFailedError):
        return comparison


def _position(text: str | None) -> Position | None:
    return None if text is None else Position.of(text)


# -----------------------------------------------------------------------------
# The answers to each path of the API, each below its path. OPERATIONS has all of them, in this order.


OPERATIONS: list[Operation] = []

A = TypeVar("A", bound=Callable[..., Awaitable[Answer]])


def _get(path: str, summary: str, *, answers: Any = None, media: str = JSON) -> Callable[[A], A]:
    """Declare a path; the function's annotations define its query and answer.

    If the function returns bytes, `answers` describes them and `media` is their type.
    """

    def declare(answer: A) -> A:
        annotated = get_type_hints(answer)
        result = answers or annotated["return"]
        many = get_origin(result) in (list, Page)
        model = get_args(result)[0] if many else result
        OPERATIONS.append(Operation(path, summary, annotated["query"], model, many, answer, media))
        return answer

    return declare


@_get("/api/runs", "A page of the runs, the latest first.")
async def _runs(web: Web, query: RunsQuery) -> Page[ListedRun]:
    column = next(one for one in RUNS.columns if one.name == query.sort)
    descending = column.sort == "greatest" if query.descending is None else query.descending
    latest_first = column.name == "last" and descending
    labels = _labels(query.label)
    part: dict[str, Any] = {"search": query.search, "labels": labels, "limit": None}
    if latest_first:
        part |= {"offset": query.offset, "limit": query.limit}
    asked, now = await web.runs.at(query.as_of)
    page = await asked.page_of_runs(**part)
    runs = [ListedRun.of(run, now) for run in page.runs]
    if not latest_first:
        ordered = sorted_rows(runs, partial(sort_value, column), descending=descending)
        runs = ordered[query.offset : query.offset + query.limit]
    leaders = await asked.leaders(runs)
    return Page([run.led_by(leaders.get(run.run_id)) for run in runs], page.total)


@_get("/api/runs/{run}", "One run.")
async def _run(web: Web, query: AsOfQuery, run: str) -> RunNow:
    answers = await run_at(web, run, query.as_of).answers()
    return RunNow.of(answers.run, answers.moment)


@_get(
    "/api/runs/{run}/snapshot",
    "One run with its agent:models, tiers and trials in flight, all from one moment.",
)
async def _snapshot(web: Web, query: AsOfQuery, run: str) -> RunSnapshot:
    return RunSnapshot.like((await run_at(web, run, query.as_of).answers(*OF_SNAPSHOT)).snapshot)


@_get("/api/runs/{run}/agents", "The agent:models of a run, baselines too, by label.")
async def _agents(web: Web, query: AsOfQuery, run: str) -> list[AgentModelSummary]:
    return (await run_at(web, run, query.as_of).answers("agent_model")).agents


@_get(
    "/api/runs/{run}/comparison",
    "The agents of a run compared: the rank of each, and the conclusion for each pair.",
)
async def comparison(web: Web, query: AsOfQuery, run: str) -> ComparedAgents:
    compared = (await run_at(web, run, query.as_of).answers(*OF_COMPARISON)).compared
    return ComparedAgents(comparison=compared.comparison, pairs=pair_standings(compared))


@_get("/api/runs/{run}/tiers", "The tiers of a run.")
async def _tiers(web: Web, query: TiersQuery, run: str) -> list[TierSummary]:
    tiers = (await run_at(web, run, query.as_of).answers("tier", *(["within"] if query.within else []))).tiers
    return [tier for tier in tiers if query.within or tier.agent_model is None]


@_get("/api/runs/{run}/why", "What moved a number of the run's agents; folds the log of the run again.")
async def moves_of(web: Web, query: WhyQuery, run: str) -> MetricMoves:
    question = Question(metric_of(query.metric), query.agent, _position(query.since), query.limit)
    version = (await web.reader.run(run)).state_version
    work = partial(why, web.settings, run, web.prices, question, _position(query.as_of))
    return MetricMoves.of(await web.folds.answer(("why", run, version, query.model_dump_json()), work))


@_get(
    "/api/runs/{run}/labels/{label}",
    "The trials of a run by the values of one of their labels; folds the log of the run again.",
)
async def labels(web: Web, query: AsOfQuery, run: str, label: str) -> list[LabelGroup]:
    folded_again = FoldedAgain(web, run, _position(query.as_of))
    groups = await folded_again.answer(("labels", label), lambda folded: by_label(folded.run.state, label))
    return [LabelGroup.model_validate(group) for group in groups]


@_get("/api/runs/{run}/history", "Headline numbers over time, oldest first.")
async def _history(web: Web, query: HistoryQuery, run: str) -> list[HistoryPoint]:
    return history_points(await web.history(run), query.kind, query.points)


@_get(
    "/api/runs/{run}/curves",
    "The learning curves of a run, by the trials' own times; folds the log of the run again.",
)
async def curves_of(web: Web, query: AsOfQuery, run: str) -> RunCurves:
    return await run_at(web, run, query.as_of).curves()


@_get(
    "/api/runs/{run}/outlook", "What a run still has before it: forecasts, running trials, places, a budget."
)
async def outlook(web: Web, query: OutlookQuery, run: str) -> Outlook:
    at = await run_at(web, run, query.as_of).answers(*OF_SNAPSHOT, *OF_COMPARISON)
    return outlook_of(at.run, at.agents, at.in_flight, at.compared, at.moment, query.budget)


@_get(
    "/api/runs/{run}/unfinished",
    "The trials of a run that are left to run, and why; folds the log of the run again.",
)
async def _unfinished(web: Web, query: UnfinishedQuery, run: str) -> Unfinished:
    folded_again, most = FoldedAgain(web, run, _position(query.as_of)), query.limit
    return await folded_again.answer(
        ("unfinished", most), lambda folded: unfinished_in(folded.run.state, most)
    )


# -----------------------------------------------------------------------------
# The answers about trials: lists, reasons for failures, agents by task, and one trial with its files.


@_get("/api/runs/{run}/trials", "A page of scored trials.")
async def trials_of(web: Web, query: TrialsQuery, run: str) -> TrialPage:
    await web.reader.run(run)
    stored, of = await _stored(web, run, every=query.kind is not None)
    ids = None
    if query.kind is not None:
        ids = {trial_id for trial_id, trial in stored.items() if _kind(of(trial)) == query.kind}
    page = await asyncio.to_thread(page_of, [trial.row for trial in stored.values()], query, ids)
    listed = [_with_facts(row, of(stored[row.id])) for row in page.trials]
    return page.model_copy(update={"trials": listed})


async def _stored(
    web: Web, run: str, *, every: bool
) -> tuple[dict[str, StoredTrial], Callable[[StoredTrial], EventFacts | None]]:
    """The trials of a run, and a lookup in the log; both topics are read concurrently.

    The lookup returns None if the log has too many results, including withdrawn ones. With `every` it covers
    all trials, and raises EventsClosed if the server may not read events.
    """
    return await asyncio.gather(web.trials.trials(run), _facts(web, run, every=every))


async def _facts(web: Web, run: str, *, every: bool) -> Callable[[StoredTrial], EventFacts | None]:
    facts: Mapping[str, EventFacts] = {}
    try:
        facts = await web.events.facts(run, every=every)
    except TooManyTrials:
        pass
    except EventsClosed:
        if every:
            raise
    return lambda trial: facts_of(facts, trial)


def _with_facts(row: ListedTrial, facts: EventFacts | None) -> ListedTrial:
    if facts is None:
        return row
    reason = None if row.success else facts.reason
    return row.model_copy(
        update={"trial_name": facts.trial_name, "finished_at": facts.finished_at, "reason": reason}
    )


def _kind(facts: EventFacts | None) -> str:
    return "" if facts is None else facts.kind


@_get(
    "/api/runs/{run}/failures",
    "The trials that did not succeed, grouped by failure mode and message, the largest group first.",
)
async def failures_of(web: Web, query: NoQuery, run: str) -> Page[FailureGroup]:
    await web.reader.run(run)
    stored, of = await _stored(web, run, every=True)
    failed = []
    for trial in stored.values():
        if trial.row.success is False:  # null: it has numbers alone (R31)
            said = of(trial)
            example = None if said is None else said.reason
            failed.append(FailedTrial(trial.row.agent_model, trial.row.failure_mode, _kind(said), example))
    return Page(*failure_groups(failed))


@_get("/api/runs/{run}/matrix", "Each agent on each task: outcomes, a metric, and what is running.")
async def _matrix(web: Web, query: MatrixQuery, run: str) -> Matrix:
    return await run_at(web, run, query.as_of).matrix(query)


@_get(
    "/api/runs/{run}/trials/{trial}", "One scored trial with its payload, as published.", answers=ScoredTrial
)
async def _trial(web: Web, query: NoQuery, run: str, trial: str) -> bytes:
    content = await web.trials.payload(run, trial)
    if content is None:
        raise NoSuchTrial(run, trial)
    return content


@_get(
    "/api/runs/{run}/trials/{trial}/event",
    "What the harness said of a trial besides its numbers: message, times, files.",
)
async def event_of(web: Web, query: NoQuery, run: str, trial: str) -> TrialEvent:
    event = await _event_of(web, run, trial)
    given, closed = event.artifacts or [], None
    try:
        if any(file.path is not None for file in given):
            await asyncio.to_thread(web.directories.of, run, event.shard)
    except CannotBeOpened as error:
        closed = str(error)
    files = [
        TrialArtifact.like(file, number=number, closed=None if file.url is not None else closed)
        for number, file in enumerate(given)
    ]
    return TrialEvent.like(event, labels=event.labels or {}, artifacts=files)


async def _event_of(web: Web, run: str, trial: str) -> TrialResult:
    stored = (await web.trials.trials(run)).get(trial)
    event = None if stored is None else await web.events.event(run, stored)
    if event is None:
        raise NoSuchTrial(run, trial)
    return event


@_get(
    "/api/runs/{run}/trials/{trial}/artifacts/{artifact}",
    "One file of a trial, by its number, read as steps, a log or a diff.",
)
async def _artifact(web: Web, query: NoQuery, run: str, trial: str, artifact: str) -> ArtifactView:
    place = await _place(web, run, trial, artifact)
    async with web.reading:
        return await asyncio.to_thread(lambda: view_of(place.checked(), place.path, place.name))


async def recorded(web: Web, run: str, trial: str, artifact: str) -> str:
    place = await _place(web, run, trial, artifact)
    async with web.reading:
        return await asyncio.to_thread(lambda: recording(place.checked(), place.path))


@dataclass(frozen=True, slots=True)
class _Place:
    run: DirectoryRun
    event: TrialResult
    path: str
    name: str

    def checked(self) -> Path:
        """The directory that the path is relative to, after a check that reads files."""
        self.run.check(self.event, self.path)
        return self.run.home


async def _place(web: Web, run: str, trial: str, artifact: str) -> _Place:
    event = await _event_of(web, run, trial)
    files = {str(number): file for number, file in enumerate(event.artifacts or [])}
    file = files.get(artifact)
    if file is None or file.path is None:
        raise CannotBeOpened(f"This trial has no file {artifact!r}; .../event lists its files")
    directory = await asyncio.to_thread(web.directories.of, run, event.shard)
    return _Place(directory, event, file.path, file.name)


# -----------------------------------------------------------------------------
# The answers about several runs: leaderboards, comparisons, and the server's health.


@_get("/api/leaderboard", "Agent:models by a metric, best first; no baselines, provisional ones last.")
async def _leaderboard(web: Web, query: LeaderboardQuery) -> list[LeaderboardRow]:
    labels = _labels(query.label)
    narrowed: dict[str, Any] = {
        "run": query.run,
        "benchmark": query.benchmark,
        "labels": labels,
        "limit": query.limit,
    }
    asked, _ = await web.runs.at(query.as_of, query.run)
    rows = await asked.leaderboard(query.metric, **narrowed)
    return [
        LeaderboardRow(**asdict(row) | {"metric": query.metric, "value": json_number(row.value)})
        for row in rows
    ]


@_get(
    "/api/leaderboards",
    "A leaderboard for each benchmark: finished runs pooled by agent:model, intervals and ranks.",
)
async def _leaderboards(web: Web, query: LeaderboardsQuery) -> list[BenchmarkBoard]:
    return await web.leaderboards.boards(query, _labels(query.label))


@_get(
    "/api/leaderboards.html",
    "The same leaderboards as one HTML file that needs nothing else.",
    answers=list[BenchmarkBoard],
    media="text/html",
)
async def _leaderboards_file(web: Web, query: LeaderboardsQuery) -> bytes:
    document = await web.leaderboards.document(query, _labels(query.label))
    return one_file(document)


@_get("/api/ledgers", "The ledgers of candidates, by name.")
async def _ledgers(web: Web, query: TimeQuery) -> list[LedgerName]:
    return names_of(entries_of(await _every_run(web, query)))


@_get("/api/ledgers/{name}", "The candidates that a ledger has tried, with level, evidence and verdict.")
async def _ledger(web: Web, query: TimeQuery, name: str) -> LedgerResult:
    runs = await _every_run(web, query)
    run_ids = runs_of(name, entries_of(runs))
    versions = frozenset((run.run_id, run.epoch, run.state_version) for run in runs if run.run_id in run_ids)
    position = _position(query.as_of)

    def folded() -> LedgerResult:
        return ledger_of(name, *fold_states(web.settings, run_ids, web.prices, position))

    return await web.folds.answer(("ledger", name, versions, position), folded, keep=True)


async def _every_run(web: Web, query: TimeQuery) -> list[RunSummary]:
    asked, _ = await web.runs.at(query.as_of)
    return (await asked.page_of_runs(limit=None)).runs


@_get("/api/tasks", "The tasks of a benchmark over its latest 400 runs; reads all their trials from the log.")
async def _tasks(web: Web, query: TasksQuery) -> list[TaskHistory]:
    return tasks_of(await _past_runs(web, query.benchmark))


@_get("/api/tasks/{task}", "A task over the latest 400 runs of a benchmark, and who tried it.")
async def _task(web: Web, query: TasksQuery, task: str) -> TaskPage:
    page = task_page(await _past_runs(web, query.benchmark), task)
    if not page.runs:
        raise NoSuchTask(task)
    return page


async def _past_runs(web: Web, benchmark: str | None, run: str | None = None) -> list[PastRun]:
    """One run or all runs of a benchmark with their scored trials; equal questions share one answer."""
    runs = await web.reader.board_runs(benchmark=benchmark, run=run)
    run_ids = [one.run.run_id for one in runs]
    work = lambda: past_of(runs, scored_trials_of(web.settings, run_ids))  # noqa: E731
    return await web.folds.answer(("tasks", benchmark, run), work)


@_get("/api/compare", "Two runs, or two agents, on the tasks that both have done.")
async def _compare(web: Web, query: CompareQuery) -> Comparison:
    a = await _side(web, query.a, query.a_agent)
    b = await _side(web, query.b, query.b_agent)
    compared = compare_sides(a, b, query.offset, query.limit, query.allow)
    return await live_comparison(web, compared, query.allow)


@_get("/api/health", "Whether this server follows Redis.")
async def _health(web: Web, query: NoQuery) -> Health:
    return await web.hub.health()


async def _side(web: Web, run_id: str, agent_model: str | None) -> ComparedSide:
    agents = await web.reader.agents(run_id)
    trials = [trial.row for trial in (await web.trials.trials(run_id)).values()]
    return known_side(ComparedSide(await web.reader.comparison(run_id), agents, agent_model, trials))


def _labels(texts: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise BadQuery(f"label={text!r}: write KEY=VALUE")
        if labels.setdefault(key, value) != value:
            one, other = f"{key}={labels[key]}", text
            raise BadQuery(f"label={one!r} and label={other!r}: no run has both. Ask for one at a time")
    return labels


def values_of(answer: Answer) -> Any:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json", by_alias=True)
    return [one.model_dump(mode="json", by_alias=True) for one in answer if isinstance(one, BaseModel)]


# -----------------------------------------------------------------------------
# Pages that the server draws as a whole: ledgers of candidates, and a task over all runs.


async def ledgers_sheet(web: Web, query: TimeQuery) -> bytes:
    names = await _ledgers(web, query)
    document = names_document(names)
    if not names:
        nothing = "No run belongs to a ledger yet. A run joins one through `ledger` in its plan."
        document = document._replace(tables=[], lines=[nothing])
    links = [{"name": f"/pages/ledgers/{quote(one.name, safe='')}"} for one in names]
    return sheet(document, links, is_ledger=True)


async def ledger_sheet(web: Web, query: TimeQuery, name: str) -> bytes:
    result = await _ledger(web, query, name)
    links = [{"run": f"/#/run/{quote(one.run_id, safe='')}"} for one in result.candidates]
    return sheet(ledger_document(result), links, is_ledger=True)


async def task_sheet(web: Web, query: TaskSheetQuery, task: str) -> bytes:
    """A task over all runs of a benchmark as a page; each row links to its trials."""
    benchmark = query.benchmark
    if query.run is not None:
        benchmark = (await web.reader.run(query.run)).benchmark
    elif benchmark is None:
        raise BadQuery("benchmark or run: give one, to say which runs the page covers")
    past = await _past_runs(web, benchmark, query.run if benchmark is None else None)
    page = task_page(past, task)
    links = [{"run": _trials_link(one, task)} for one in page.runs]
    return sheet(task_document(page, task, benchmark, len(past)), links)


async def run_sheet(web: Web, query: RunSheetQuery, run: str) -> bytes:
    """A run at an earlier time, as a page that says so and links to the live page."""
    if query.as_of is None:
        raise BadQuery("as_of: give the offset or time to show. The page /#/run/RUN is live")
    position = Position.of(query.as_of)
    document = document_of(await FoldedAgain(web, run, position).answers())
    document = document._replace(tables=[table for table in document.tables if table.rows])
    live = f"/#/run/{quote(run, safe='')}" + (f"/{query.tab}" if query.tab else "")
    of = position if position.at else f"offset {position}"
    return sheet(document, notice=f"As of {of}, not live.", lead=(live, "The run as it stands now"))


def document_of(at: RunAnswers) -> Document:
    """A run in sentences and tables."""
    agents, tiers = ([one.model_dump(mode="json") for one in some] for some in (at.agents, at.tiers))
    places = places_of(at.comparison)
    return run_document(at.run.model_dump(mode="json"), agents, tiers, now=at.moment, places=places)


def _trials_link(of: TaskRun, task_id: str) -> str:
    tier, within, _ = of.task.partition("|")  # see `task_key`
    options = {"agent": of.agent_model, "task": task_id}
    if within and tier:
        options["tier"] = decode_id(tier)
    return f"/#/run/{quote(of.run, safe='')}/trials?{urlencode(options)}"


SHEETS: dict[str, tuple[type[Query], Callable[..., Awaitable[bytes]]]] = {
    "/pages/ledgers": (TimeQuery, ledgers_sheet),
    "/pages/ledgers/{name}": (TimeQuery, ledger_sheet),
    "/pages/runs/{run}": (RunSheetQuery, run_sheet),
    "/pages/tasks/{task}": (TaskSheetQuery, task_sheet),
}


# -----------------------------------------------------------------------------
# The trials of a run as a file: CSV or Parquet, the same bytes as `streamer report` writes.


Writer = Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any] | None], bytes]

WRITERS: dict[str, tuple[Writer, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "parquet": (as_parquet, "application/vnd.apache.parquet"),
}
DOWNLOADS = {f"/api/runs/{{run}}/trials.{ending}": ending for ending in WRITERS}


async def download(web: Web, query: AsOfQuery, run_id: str, ending: str) -> Response:
    """All scored trials of a run as a file.

    Raises TooManyTrials if the run has more than this server holds, and ParquetMissing without pyarrow.
    """
    run = await web.reader.run(run_id)
    if run.progress.done > log.MAX_TRIALS:
        raise log.TooManyTrials(run_id)
    content = await run_at(web, run_id, query.as_of).file(ending)
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)[:100].lstrip(".") or "run"
    headers = {
        "content-disposition": f'attachment; filename="{name}-trials.{ending}"',
        "cache-control": "no-store",
    }
    return Response(content, media_type=WRITERS[ending][1], headers=headers)


def _written(ending: str, trials: Sequence[bytes], run: RunSummary) -> bytes:
    write, _ = WRITERS[ending]
    return write([orjson.loads(value) for value in trials], run.model_dump(mode="json")["metrics"])
