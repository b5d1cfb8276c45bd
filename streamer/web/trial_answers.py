"""The answers about trials: lists, why they failed, how agents do on tasks, and one trial with its files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from streamer.artifacts.opening import CannotBeOpened
from streamer.artifacts.shown import ArtifactView, recording, view_of
from streamer.client.folded_run import FoldedRun
from streamer.schemas.details import Artifact
from streamer.schemas.events import TrialResult
from streamer.schemas.scored_trial import ScoredTrial
from streamer.views.failures import FailedTrial, FailureGroup, failure_groups
from streamer.views.matrix import Matrix, matrix_of
from streamer.views.models import TrialRow
from streamer.web.folded import answer_as_of
from streamer.web.models import (
    ListedTrial,
    MatrixQuery,
    NoQuery,
    TrialArtifact,
    TrialEvent,
    TrialPage,
    TrialsQuery,
)
from streamer.web.operation import NoSuchTrial, Operation
from streamer.web.resources import Web
from streamer.web.run_directories import KnownRun
from streamer.web.run_log import TooManyTrials
from streamer.web.trial_events import EventFacts, EventsClosed, facts_of
from streamer.web.trial_list import page_of
from streamer.web.trial_log import HeldTrial


async def _trials(web: Web, query: TrialsQuery, run: str) -> TrialPage:
    await web.reader.run(run)
    held = await web.trials.trials(run)
    of = await _facts(web, run, needed=query.kind is not None)
    wanted = None
    if query.kind is not None:
        wanted = {trial_id for trial_id, trial in held.items() if _kind(of(trial)) == query.kind}
    page = page_of([trial.row for trial in held.values()], query, wanted)
    listed = [_with_facts(row, of(held[row.id])) for row in page.trials]
    return page.model_copy(update={"trials": listed})


async def _facts(web: Web, run: str, *, needed: bool) -> Callable[[HeldTrial], EventFacts | None]:
    """What the log says of a trial; nothing where it has results for too many, withdrawn ones among them.

    Args:
        needed: raise EventsClosed where the server may not read events; otherwise nothing is said then.
    """
    facts: Mapping[str, EventFacts] = {}
    try:
        facts = await web.events.facts(run)
    except TooManyTrials:
        pass
    except EventsClosed:
        if needed:
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


async def _failures(web: Web, query: NoQuery, run: str) -> list[FailureGroup]:
    await web.reader.run(run)
    held = await web.trials.trials(run)
    of = await _facts(web, run, needed=True)
    failed = []
    for trial in held.values():
        if not trial.row.success:
            said = of(trial)
            example = None if said is None else said.reason
            failed.append(FailedTrial(trial.row.agent_model, trial.row.failure_mode, _kind(said), example))
    return failure_groups(failed)


async def _matrix(web: Web, query: MatrixQuery, run: str) -> Matrix:
    if query.as_of is not None:
        question = "matrix", query.metric, query.sort
        return await answer_as_of(web, question, run, query.as_of, partial(_matrix_as_of, query))
    snapshot = await web.reader.snapshot(run)
    held = await web.trials.trials(run)
    rows = [trial.row for trial in held.values()]
    return await asyncio.to_thread(matrix_of, rows, snapshot.in_flight, query.metric, query.sort)


def _matrix_as_of(query: MatrixQuery, found: FoldedRun) -> Matrix:
    trials = enumerate(map(orjson.loads, found.scored_trials()))
    rows = [TrialRow.of(str(number), trial) for number, trial in trials]
    return matrix_of(rows, found.snapshot().in_flight, query.metric, query.sort)


async def _trial(web: Web, query: NoQuery, run: str, trial: str) -> bytes:
    found = await web.trials.payload(run, trial)
    if found is None:
        raise NoSuchTrial(run, trial)
    return found


async def _event(web: Web, query: NoQuery, run: str, trial: str) -> TrialEvent:
    event = await _event_of(web, run, trial)
    given, closed = event.artifacts or [], None
    try:
        if any(file.path is not None for file in given):
            await asyncio.to_thread(web.directories.of, run, event.shard)
    except CannotBeOpened as error:
        closed = str(error)
    files = [_described(number, file, closed) for number, file in enumerate(given)]
    return TrialEvent(
        trial_id=event.trial_id,
        trial_name=event.trial_name,
        started_at=event.started_at,
        finished_at=event.finished_at,
        labels=event.labels or {},
        message=event.message,
        artifacts=files,
    )


async def _event_of(web: Web, run: str, trial: str) -> TrialResult:
    held = (await web.trials.trials(run)).get(trial)
    event = None if held is None else await web.events.event(run, held)
    if event is None:
        raise NoSuchTrial(run, trial)
    return event


def _described(number: int, file: Artifact, closed: str | None) -> TrialArtifact:
    return TrialArtifact(
        number=number,
        name=file.name,
        path=file.path,
        url=file.url,
        media_type=file.media_type,
        closed=None if file.url is not None else closed,
    )


async def _artifact(web: Web, query: NoQuery, run: str, trial: str, artifact: str) -> ArtifactView:
    place = await _place(web, run, trial, artifact)
    async with web.reading:
        return await asyncio.to_thread(lambda: view_of(place.checked(), place.path, place.name))


async def recorded(web: Web, run: str, trial: str, artifact: str) -> str:
    """The recording of a terminal that a trial left.

    Raises:
        NoSuchTrial: the run has no such trial.
        CannotBeOpened: it is no recording, or no directory of the run is known.
    """
    place = await _place(web, run, trial, artifact)
    async with web.reading:
        return await asyncio.to_thread(lambda: recording(place.checked(), place.path))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file of a trial lies, as its event says."""

    run: KnownRun
    event: TrialResult
    path: str
    name: str

    def checked(self) -> Path:
        """The directory that the path is relative to. It takes files' time; see `KnownRun.check`."""
        self.run.check(self.event, self.path)
        return self.run.home


async def _place(web: Web, run: str, trial: str, artifact: str) -> _Place:
    event = await _event_of(web, run, trial)
    files = {str(number): file for number, file in enumerate(event.artifacts or [])}
    file = files.get(artifact)
    if file is None or file.path is None:
        raise CannotBeOpened(f"This trial has no file {artifact!r}; .../event lists those that it has")
    known = await asyncio.to_thread(web.directories.of, run, event.shard)
    return _Place(known, event, file.path, file.name)


TRIAL_OPERATIONS = (
    Operation("/api/runs/{run}/trials", "A page of scored trials.", TrialsQuery, TrialPage, False, _trials),
    Operation(
        "/api/runs/{run}/failures",
        "The trials that did not succeed, grouped by failure mode and message, the largest group first.",
        NoQuery,
        FailureGroup,
        True,
        _failures,
    ),
    Operation(
        "/api/runs/{run}/matrix",
        "Each agent on each task: outcomes, a metric, and what is running.",
        MatrixQuery,
        Matrix,
        False,
        _matrix,
    ),
    Operation(
        "/api/runs/{run}/trials/{trial}",
        "One scored trial with its payload, as published.",
        NoQuery,
        ScoredTrial,
        False,
        _trial,
    ),
    Operation(
        "/api/runs/{run}/trials/{trial}/event",
        "What the harness said of a trial besides its numbers: message, times, files.",
        NoQuery,
        TrialEvent,
        False,
        _event,
    ),
    Operation(
        "/api/runs/{run}/trials/{trial}/artifacts/{artifact}",
        "One file of a trial, by its number, read as steps, a log or a diff.",
        NoQuery,
        ArtifactView,
        False,
        _artifact,
    ),
)
