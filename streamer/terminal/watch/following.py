"""Following Redis as long as there is a viewer; an outage is shown and waited out."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from streamer.client.feeds import ScoredTrialReader, subscribe
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
    no_broker_at,
    partition_of,
    partitions_of,
)
from streamer.storage.log import LogRecord, PartitionId, PartitionReader, following_wait_ms
from streamer.views.decide.outlook import Observation, Outlook, observation_of, outlook_of
from streamer.views.models import TrialRow

if TYPE_CHECKING:
    from streamer.operate.health import StoredRejection

RETRY_SECONDS = 2.0
PULSE_SECONDS = 2.0
"""How often Redis is asked for a sign of life."""

OUTLOOK_SECONDS = 2.0
"""How often running trials and places are looked at."""

REJECTIONS_KEPT = 500

Tell = Callable[[str | None], None]
"""Called with what is wrong, in a sentence; None: nothing (any more)."""


def noting(problems: dict[str, str], where: str, changed: Callable[[], None]) -> Tell:
    """A `Tell` that keeps what is wrong there among the problems, and says that they changed."""

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
    """Everything about a run (None: all runs) as it stands, then each change, until cancelled."""
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
    """The running trials, the places and the forecasts of a run, until cancelled.

    They are asked for whenever the run has changed. Running trials grow older without that.
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
            pass  # told by those who follow the run itself
        await asyncio.sleep(OUTLOOK_SECONDS)


async def feel_pulse(
    reader: AsyncStateReader, take: Callable[[list[WorkerStatus]], None], tell: Tell
) -> None:
    """Whether Redis answers, and the workers' heartbeats, until cancelled."""
    while True:
        try:
            workers = await reader.workers()
        except ReaderError as error:
            tell(f"Trying again; what stands below may be old. {error}")
        else:
            tell(None)
            take(workers)
        await asyncio.sleep(PULSE_SECONDS)


class Rejections:
    """The rejections: how many of each run, and the newest.

    Attributes:
        counts: run id to how many; None for those that name no run.
        problem: why they are not known.
    """

    def __init__(self) -> None:
        self.counts: Counter[str | None] = Counter()
        self.problem: str | None = None
        self._newest: deque[StoredRejection] = deque(maxlen=REJECTIONS_KEPT)

    def restart(self) -> None:
        """The rejections will be sent from the beginning."""
        self.counts.clear()
        self._newest.clear()

    def take(self, rejected: StoredRejection) -> None:
        self.counts[rejected.run_id] += 1
        self._newest.append(rejected)

    def newest(self, run_id: str) -> list[StoredRejection]:
        """The newest of a run, newest first."""
        return [rejected for rejected in reversed(self._newest) if rejected.run_id == run_id]


# -----------------------------------------------------------------------------
# The newest scored trials of a run, from the log: Redis has none.


KEPT = 200
"""So many trials are kept."""

ENOUGH = 50
"""So many are looked for in what the log holds already."""

FIRST_LOOK = 2_000
"""Records before the end of the partition that are read first; other runs may have written them."""

FURTHER = 8
"""Each further read goes back this many times as far."""


class Newest:
    """The newest trials of one run, oldest first.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self._reader = ScoredTrialReader(run_id)
        self._rows: dict[str, tuple[Version, int, TrialRow]] = {}

    @property
    def rows(self) -> list[TrialRow]:
        """Newest first; what was folded at once by revision, which mostly is the time of writing."""
        by_age = sorted(self._rows.values(), key=lambda entry: entry[:2], reverse=True)
        return [row for _, _, row in by_age]

    def take(self, record: LogRecord) -> bool:
        """Take a record; False if it is about another run, or older than what is held."""
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
    """The newest trials, newest first: once as the log has them, then whenever some come; without end.

    Only as much of the log is read as it takes to find `ENOUGH`.

    Raises:
        TopicMissing: no worker has created the topics.
        TopicUnreadable: the broker fell silent.
        KafkaError: the broker cannot be reached, or refuses.
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
    """Go back further and further, until there are enough, or all has been read."""
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
# The parts that only the log knows: rejections and newest trials, as long as there is a viewer.
#
# Loaded once the first screen stands: the boards do not wait for what reads the log.


T = TypeVar("T")

BROKER_SECONDS = 5.0
"""How often the broker is asked for a sign of life."""


async def follow_rejections(settings: Settings, rejections: Rejections, tell: Tell) -> None:
    """All rejections that the log holds, then those that come, until cancelled."""

    def begin() -> AsyncIterator[StoredRejection]:
        rejections.restart()
        return read_rejections(settings, lambda: tell(None))

    await _follow(settings, begin, rejections.take, tell)


async def follow_newest(
    settings: Settings, run_id: str, take: Callable[[list[TrialRow]], None], tell: Tell
) -> None:
    """The newest trials of a run, newest first, whenever there are others, until cancelled."""
    await _follow(settings, lambda: newest_trials(settings, run_id), take, tell)


async def read_rejections(settings: Settings, on_ready: Callable[[], None]) -> AsyncIterator[StoredRejection]:
    """From the beginning of the log, without end; what this version cannot read is left out.

    Args:
        settings: where the broker is.
        on_ready: called once the log is read, also if it holds no rejection.
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
    """Begin again after each outage."""
    while True:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_take_all(begin, take, tell))
                tasks.create_task(_until_away(settings))
        except* TopicMissing:
            tell("the log has no topics yet: a worker makes them")
        except* (KafkaError, OSError):
            tell(no_broker_at(settings.bootstrap))
        await asyncio.sleep(RETRY_SECONDS)


async def _take_all(begin: Callable[[], AsyncIterator[T]], take: Callable[[T], None], tell: Tell) -> None:
    async with aclosing(begin()) as messages:  # type: ignore[type-var]
        async for message in messages:
            take(message)
            tell(None)


async def _until_away(settings: Settings) -> None:
    """Ends with an error once the broker does not answer. A consumer says nothing of that: it waits."""
    while True:
        await asyncio.sleep(BROKER_SECONDS)
        async with administering(settings):
            pass


# -----------------------------------------------------------------------------
# The content of the screens: runs as they stand. No connection, no widgets, no clock.


class Runs:
    """All runs.

    Attributes:
        runs: run id to summary.
        leaders: run id to who leads it; runs without a known value are left out.
    """

    def __init__(self) -> None:
        self.runs: dict[str, RunSummary] = {}
        self.leaders: dict[str, Leader] = {}

    def fill(self, summaries: list[RunSummary], leaders: Mapping[str, Leader]) -> None:
        """What stands there now; what is known already is newer."""
        self.leaders = {run: one for run, one in leaders.items() if run not in self.runs} | self.leaders
        self.runs = {run.run_id: run for run in summaries} | self.runs

    def take(self, update: StateUpdate) -> None:
        """Take an update; only updates of runs matter here."""
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

    Attributes:
        run: its summary, None: Redis has none (yet, or any more).
        deleted: it was there, and was deleted.
        agents: key to summary of each agent:model.
        tiers: key to summary of each tier, pooled over agents.
        since: where it stood when the viewer began to look.
        in_flight: its running trials, as of the last look.
        outlook: what it has before it, as of the last look; None: not looked yet.
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
