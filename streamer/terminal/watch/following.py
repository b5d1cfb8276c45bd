"""Readers that follow Redis while there is a viewer; they report outages and wait until they end."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar

from pydantic import ValidationError

from streamer.client.feeds import ScoredTrialReader, subscribe, until_one_ends
from streamer.client.queries import ReaderError, RedisUnavailable, RunSnapshot, WorkerStatus
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.operate.health import LogPosition, StoredRejection
from streamer.schemas.summaries import (
    AgentModelSummary,
    Leader,
    Rejection,
    RunSummary,
    TierSummary,
    TrialInFlight,
)
from streamer.schemas.wire import Version, version_of
from streamer.settings import Settings
from streamer.storage.kafka import (
    KafkaError,
    Names,
    TopicMissing,
    administering,
    is_away,
    no_broker_at,
    partition_of,
    partitions_of,
    said_of,
)
from streamer.storage.log import LogRecord, PartitionId, PartitionReader, following_wait_ms
from streamer.views.decide.outlook import Observation, Outlook, observation_of, outlook_of
from streamer.views.models import TrialRow

RETRY_SECONDS = 2.0
PULSE_SECONDS = 2.0
"""Seconds between two pings of Redis."""

OUTLOOK_SECONDS = 2.0
"""Seconds between two reads of running trials and places."""

REJECTIONS_KEPT = 500

Tell = Callable[[str | None], None]
"""A callback for a problem in a sentence, or None once there is no problem."""


def noting(problems: dict[str, str], where: str, changed: Callable[[], None]) -> Tell:
    """A `Tell` that stores the problem of a place and reports the change."""

    def tell(problem: str | None) -> None:
        if problem is None:
            problems.pop(where, None)
        else:
            problems[where] = problem
        changed()

    return tell


async def follow_state(
    reader: AsyncStateReader, run_id: str | None, take: Callable[[StateUpdate], None], tell: Tell
) -> None:
    """Report everything about a run (None: all runs), then each change, until cancelled."""
    while True:
        try:
            async with aclosing(reader.updates(run_id)) as updates:  # type: ignore[type-var]
                async for update in updates:
                    tell(None)
                    take(update)
        except RedisUnavailable:
            pass  # told by `feel_pulse`
        except ReaderError as error:
            tell(str(error))
        await asyncio.sleep(RETRY_SECONDS)


async def follow_outlook(
    reader: AsyncStateReader,
    run_id: str,
    now: Callable[[], datetime],
    take: Callable[[RunSnapshot, Outlook], None],
) -> None:
    """Report the running trials, places and forecasts of a run, until cancelled.

    They are read whenever the run has changed. Running trials age even without a change.
    """
    digest, compared = "", None
    while True:
        try:
            snapshot = await reader.snapshot(run_id)
            changed = snapshot.run.digest != digest
            if changed:
                compared = await reader.comparison(run_id)
                digest = snapshot.run.digest
            if changed or snapshot.in_flight:
                take(snapshot, outlook_of(snapshot.run, snapshot.agents, snapshot.in_flight, compared, now()))
        except ReaderError:
            pass  # reported by the run's own followers
        await asyncio.sleep(OUTLOOK_SECONDS)


async def feel_pulse(
    reader: AsyncStateReader, take: Callable[[list[WorkerStatus]], None], tell: Tell
) -> None:
    """Report whether Redis answers, and the workers' heartbeats, until cancelled."""
    while True:
        try:
            workers = await reader.workers()
        except ReaderError as error:
            tell(f"Trying again; the numbers below may be old. {error}")
        else:
            tell(None)
            take(workers)
        await asyncio.sleep(PULSE_SECONDS)


class Rejections:
    """Counts of rejections by run (None: no run named), and the newest ones.

    `problem` is the reason if they are unknown.
    """

    def __init__(self) -> None:
        self.counts: Counter[str | None] = Counter()
        self.problem: str | None = None
        self._newest: deque[StoredRejection] = deque(maxlen=REJECTIONS_KEPT)

    def restart(self) -> None:
        """Start over: the rejections will come again from the beginning."""
        self.counts.clear()
        self._newest.clear()

    def take(self, rejected: StoredRejection) -> None:
        self.counts[rejected.run_id] += 1
        self._newest.append(rejected)

    def newest(self, run_id: str) -> list[StoredRejection]:
        return [rejected for rejected in reversed(self._newest) if rejected.run_id == run_id]


# -----------------------------------------------------------------------------
# The newest scored trials of a run, from the log, because Redis has no trials.


KEPT = 200
ENOUGH = 50
"""The number of trials that the first reading looks for."""

FIRST_LOOK = 2_000
"""Records before the end of the partition that are read first; some may belong to other runs."""

FURTHER = 8
"""The factor by which each further read covers more records."""


class Newest:
    """The newest trials of one run, oldest first."""

    def __init__(self, run_id: str) -> None:
        self._reader = ScoredTrialReader(run_id)
        self._rows: dict[str, tuple[Version, int, TrialRow]] = {}

    @property
    def rows(self) -> list[TrialRow]:
        """The trials, newest first; trials folded together are ordered by revision, highest first."""
        by_age = sorted(self._rows.values(), key=lambda entry: entry[:2], reverse=True)
        return [row for _, _, row in by_age]

    def take(self, record: LogRecord) -> bool:
        """Take a record; False if it belongs to another run or is outdated."""
        change = self._reader.change(record)
        if change is None:
            return False
        key = change.key.decode()
        if change.trial is None:
            return self._rows.pop(key, None) is not None
        version = version_of(change.trial)
        self._rows.pop(key, None)
        self._rows[key] = version, change.trial["revision"], TrialRow.of(key, change.trial)
        if len(self._rows) > KEPT:
            del self._rows[next(iter(self._rows))]
        return True


async def newest_trials(settings: Settings, run_id: str) -> AsyncIterator[list[TrialRow]]:
    """The newest trials, newest first: once from the log, then after each change, without end.

    It reads only as much of the log as it needs to find `ENOUGH`.
    """
    topic = Names(settings.namespace).scored_trials
    numbers = await partitions_of(settings, topic)
    place = (topic, partition_of(run_id, len(numbers)))
    async with PartitionReader(settings, [place], wait_ms=following_wait_ms(settings)) as reader:
        end = (await reader.ends())[place]
        newest = await _as_it_stands(reader, place, end, run_id)
        yield newest.rows
        async for batch in reader.read({place: end}, None):
            if [record for record in batch if newest.take(record)]:
                yield newest.rows


async def _as_it_stands(reader: PartitionReader, place: PartitionId, end: int, run_id: str) -> Newest:
    """Read further and further back, until there are enough trials or nothing is left."""
    begin = (await reader.beginnings())[place]
    back = FIRST_LOOK
    while True:
        newest, start = Newest(run_id), max(begin, end - back)
        async for batch in reader.read({place: start}, {place: end}):
            for record in batch:
                newest.take(record)
        if start == begin or len(newest.rows) >= ENOUGH:
            return newest
        back *= FURTHER


# -----------------------------------------------------------------------------
# The parts that only the log has: rejections and newest trials, while there is a viewer.


T = TypeVar("T")

BROKER_SECONDS = 5.0
"""Seconds between two pings of the broker."""


async def follow_rejections(settings: Settings, rejections: Rejections, tell: Tell) -> None:
    """Report all rejections in the log, then new ones, until cancelled."""

    def begin() -> AsyncIterator[StoredRejection]:
        rejections.restart()
        return read_rejections(settings, lambda: tell(None))

    await _follow(settings, begin, rejections.take, tell)


async def follow_newest(
    settings: Settings, run_id: str, take: Callable[[list[TrialRow]], None], tell: Tell
) -> None:
    """Report the newest trials of a run after each change, newest first, until cancelled."""
    await _follow(settings, lambda: newest_trials(settings, run_id), take, tell)


async def read_rejections(settings: Settings, on_ready: Callable[[], None]) -> AsyncIterator[StoredRejection]:
    """Rejections from the beginning of the log, without end; unreadable ones are left out.

    `on_ready` is called once the log is read, even without a rejection.
    """
    updates = subscribe("rejections", settings, from_beginning=True, on_ready=on_ready)
    async with aclosing(updates) as following:  # type: ignore[type-var]
        async for update in following:
            try:
                message = Rejection.model_validate(update.message)
            except ValidationError:
                continue
            place = LogPosition(message.source_partition, message.source_offset)
            yield StoredRejection(place, update.timestamp_ms, message)


async def _follow(
    settings: Settings, begin: Callable[[], AsyncIterator[T]], take: Callable[[T], None], tell: Tell
) -> None:
    while True:
        try:
            await until_one_ends(_take_all(begin, take, tell), _until_away(settings))
        except TopicMissing:
            tell("no topics yet, or this user may not read them")
        except (KafkaError, OSError) as error:
            refuses = isinstance(error, KafkaError) and not is_away(error)
            tell(said_of(error) if refuses else no_broker_at(settings.bootstrap))
        await asyncio.sleep(RETRY_SECONDS)


async def _take_all(begin: Callable[[], AsyncIterator[T]], take: Callable[[T], None], tell: Tell) -> None:
    async with aclosing(begin()) as messages:  # type: ignore[type-var]
        async for message in messages:
            take(message)
            tell(None)


async def _until_away(settings: Settings) -> None:
    """Raise once the broker no longer answers, because a consumer would wait in silence."""
    while True:
        await asyncio.sleep(BROKER_SECONDS)
        async with administering(settings):
            pass


# -----------------------------------------------------------------------------
# The content of the screens: the present runs. No connection, no widgets, no clock.


class Runs:
    """All runs, and the leader of each; runs without a known value have no leader."""

    def __init__(self) -> None:
        self.runs: dict[str, RunSummary] = {}
        self.leaders: dict[str, Leader] = {}

    def fill(
        self, summaries: list[RunSummary], leaders: Mapping[str, Leader], before: Mapping[str, RunSummary]
    ) -> None:
        """Take the content of Redis, except where later updates are newer.

        `before` has the runs as they were before the reading: those that it lacks were deleted unheard.
        """
        for run_id in before.keys() - {run.run_id for run in summaries}:
            if self.runs.get(run_id) is before[run_id]:
                del self.runs[run_id]
                self.leaders.pop(run_id, None)
        self.leaders = {run: one for run, one in leaders.items() if run not in self.runs} | self.leaders
        self.runs = {run.run_id: run for run in summaries} | self.runs

    def take(self, update: StateUpdate) -> None:
        if update.kind != "run":
            return
        self.leaders.pop(update.run_id, None)
        if update.leader:
            self.leaders[update.run_id] = update.leader
        if isinstance(update.summary, RunSummary):
            self.runs[update.run_id] = update.summary
        else:
            self.runs.pop(update.run_id, None)


class OneRun:
    """One run with its groups.

    `run` is None while Redis has no such run, and `deleted` says whether it had one. `since` is the run as
    the viewer first saw it. `in_flight` and `outlook` date from the last look.
    """

    def __init__(self) -> None:
        self.run: RunSummary | None = None
        self.deleted = False
        self.agents: dict[str, AgentModelSummary] = {}
        self.tiers: dict[str, TierSummary] = {}
        self.since: Observation | None = None
        self.in_flight: list[TrialInFlight] = []
        self.outlook: Outlook | None = None

    def take(self, update: StateUpdate) -> None:
        summary = update.summary
        if update.kind == "run":
            self._take_run(summary if isinstance(summary, RunSummary) else None)
        elif summary is None:
            self.agents.pop(update.key, None)
            self.tiers.pop(update.key, None)
        elif isinstance(summary, AgentModelSummary):
            self.agents[update.key] = summary
        elif isinstance(summary, TierSummary) and summary.agent_model is None:
            self.tiers[update.key] = summary

    def _take_run(self, run: RunSummary | None) -> None:
        if run is None:
            self.deleted = self.run is not None
            self.since = None
        else:
            self.deleted = False
            self.since = self.since or observation_of(run)
        self.run = run
