"""The health of a deployment, the records its workers rejected, and the repair of a run."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson
from pydantic import ValidationError

from streamer.schemas.summaries import Rejection
from streamer.schemas.wire import TOPICS, Reason, Record, decode
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import (
    BrokerRefuses,
    KafkaError,
    Names,
    TopicMissing,
    broker_problem,
    ours,
    partition_of,
    partitions_of,
    read_partition_counts,
    read_retention,
    said_of,
    what_differs,
    what_is_finite,
)
from streamer.storage.log import (
    CONFIGURATION_KEY,
    LogRecord,
    PartitionReader,
    current_configuration,
    read_batches,
    read_topic,
    repair_key,
)
from streamer.storage.outbox import Outgoing, ProducerRecord, ThreadedPublisher, store
from streamer.text import counted

if TYPE_CHECKING:
    from streamer.client.queries import WorkerStatus
    from streamer.client.readers import StateReader

# -----------------------------------------------------------------------------
# How far the workers are behind the event topic.


ANSWER_SECONDS = 15.0
"""How long the broker may take to answer while a user waits."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of the event topic.

    `beginning` is above 0 if the log was truncated. `end` excludes open transactions. `held` offsets wait
    behind these, events and the markers of transactions that ended in between.

    >>> PartitionLag(0, beginning=0, end=7, committed=5).lag, PartitionLag(0, 3, 7, None).lag
    (2, 4)
    """

    partition: int
    beginning: int
    end: int
    committed: int | None
    held: int = 0

    @property
    def lag(self) -> int:
        return max(0, self.end - max(self.beginning, self.committed or 0))


async def read_lags(settings: Settings) -> list[PartitionLag]:
    names = Names(settings.namespace)
    numbers = sorted(await partitions_of(settings, names.trial_events))
    places = [(names.trial_events, number) for number in numbers]
    async with PartitionReader(settings, places, group=names.group) as reader:
        beginnings, committed = await reader.beginnings(), await reader.committed()
        ends = await reader.ends(ANSWER_SECONDS)
        held = {place: reader.held(place) for place in places}
    return [
        PartitionLag(place[1], beginnings[place], ends[place], committed[place], held[place])
        for place in places
    ]


def what_is_held(partitions: Iterable[PartitionLag], topic: str) -> str | None:
    """What waits behind open transactions.

    >>> print(what_is_held([PartitionLag(0, 0, 7, 7, held=50), PartitionLag(1, 0, 5, 5)], "trial-events"))
    Up to 50 events wait behind an open transaction of another client, in partition 0 of topic \
'trial-events'. \
They count once it ends. End its producer, or abort it with kafka-transactions.sh
    """
    held = {partition.partition: partition.held for partition in partitions if partition.held}
    if not held:
        return None
    where = f"partition{'s' * (len(held) > 1)} {', '.join(map(str, held))}"
    return (
        f"Up to {counted(sum(held.values()), 'event waits', 'events wait')} behind an open transaction of "
        f"another client, in {where} of topic {topic!r}. They count once it "
        "ends. End its producer, or abort it with kafka-transactions.sh"
    )


# -----------------------------------------------------------------------------
# The health of a deployment: broker, topics, Redis, workers, lag, and any problems.


REDIS_SECONDS = 5.0
HELD_SECONDS = 3.0
"""How long a transaction may stay open before it is a problem; producers commit within a second or two."""

NEARLY_FULL = 0.9
"""The share of used memory at which a server that refused writes counts as full."""

BROKER_AWAY = (KafkaError, OSError, TimeoutError)


@dataclass(slots=True)
class DeploymentHealth:
    """The health of a deployment.

    `redis_full` means that it refuses writes, even heartbeats. `workers` has every worker's last heartbeat,
    including dead workers' until Redis forgets them.
    """

    broker: str
    redis: str
    broker_answers: bool = False
    redis_answers: bool = False
    redis_full: bool = False
    topics: dict[str, int] = field(default_factory=dict)
    workers: list[WorkerStatus] = field(default_factory=list)
    partitions: list[PartitionLag] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def live_workers(self) -> list[WorkerStatus]:
        return [worker for worker in self.workers if not worker.stale()]

    def as_json(self) -> dict[str, Any]:
        return {
            "broker": {"address": self.broker, "answers": self.broker_answers, "topics": self.topics},
            "redis": {"address": self.redis, "answers": self.redis_answers},
            "workers": [
                {"id": w.worker_id, "at": w.at.isoformat(), "live": not w.stale(), **w.status}
                for w in self.workers
            ],
            "partitions": [asdict(p) | {"lag": p.lag} for p in self.partitions],
            "problems": self.problems,
        }


def read_health(settings: Settings) -> DeploymentHealth:
    """The health of a deployment. Unreachable servers are problems in it, not exceptions."""

    from streamer.storage.redis import address

    health = DeploymentHealth(settings.bootstrap, address(settings.redis))
    _ask_broker(settings, health)
    _ask_redis(settings, health)
    if health.redis_answers and health.partitions:
        health.problems += _worker_problems(health)
    return health


def _ask_broker(settings: Settings, health: DeploymentHealth) -> None:
    names = Names(settings.namespace)
    try:
        existing = asyncio.run(read_partition_counts(settings))
        health.broker_answers = True
        health.topics = {n: existing[n] for t in TOPICS if (n := names.topic(t.name)) in existing}
        health.problems += _topic_problems(health.topics, names)
        health.partitions = _lags(settings, health)
        finite = what_is_finite(names.trial_events, asyncio.run(read_retention(settings)))
        health.problems += [finite] if finite else []
    except TopicMissing:
        pass  # is among the problems already
    except BROKER_AWAY as error:
        health.problems.append(_broker_problem(error, settings.bootstrap))


def _lags(settings: Settings, health: DeploymentHealth) -> list[PartitionLag]:
    """The partitions; a transaction that stays open for seconds is a problem."""
    before = asyncio.run(read_lags(settings))
    if not any(partition.held for partition in before):
        return before
    time.sleep(HELD_SECONDS)
    ends = {partition.partition: partition.end for partition in before if partition.held}
    lags = asyncio.run(read_lags(settings))
    stuck = [partition for partition in lags if ends.get(partition.partition) == partition.end]
    if why := what_is_held(stuck, Names(settings.namespace).trial_events):
        health.problems.append(why)
    return lags


def _ask_redis(settings: Settings, health: DeploymentHealth) -> None:
    from streamer.client.queries import ReaderError
    from streamer.client.readers import StateReader, reachable
    from streamer.storage.redis import ResponseError, split_url, sync_client

    try:
        with StateReader(settings) as reader:
            health.workers = reader.workers()
        health.redis_answers = True
        options = settings.redis_options()
        with reachable(health.redis), sync_client(settings.redis, options, REDIS_SECONDS) as client:
            problem = client.get(Keys(settings.namespace).stack_problem)
            if isinstance(problem, bytes):
                health.problems.append(problem.decode())
            nodes = {"target_nodes": "primaries"} if split_url(settings.redis)[1] else {}
            with suppress(ResponseError):  # the account may not ask
                told: Any = client.info("memory", "errorstats", **nodes)
                for info in told.values() if nodes else [told]:
                    if full := _what_is_full(info):
                        health.redis_full = True
                        health.problems.append(f"Redis at {health.redis} {full}")
    except ReaderError as error:
        health.problems.append(str(error))


def _what_is_full(info: Mapping[str, Any]) -> str | None:
    """The message on a server that refuses writes because its memory is full; None if it has room.

    A refused write frees its memory again, so a full server may be just below its limit.

    >>> _what_is_full({"used_memory": 95, "maxmemory": 100, "errorstat_OOM": {"count": 1}})[:33]
    'is full: it uses 95 of 100 bytes '
    >>> _what_is_full({"used_memory": 95, "maxmemory": 100})
    >>> _what_is_full({"used_memory": 95, "maxmemory": 0})
    """
    used, limit = info["used_memory"] - info.get("mem_not_counted_for_evict", 0), info["maxmemory"]
    refused = info.get("errorstat_OOM", {}).get("count", 0)
    if not limit or used < (NEARLY_FULL * limit if refused else limit):
        return None
    return (
        f"is full: it uses {used:,} of {limit:,} bytes (maxmemory) and has refused {refused:,} writes. "
        "Boards do not update, and workers' heartbeats are missing. Raise maxmemory, or let runs expire "
        "(redis_expire_seconds). Workers then catch up"
    )


def _topic_problems(counts: Mapping[str, int], names: Names) -> list[str]:
    expected = [names.topic(topic.name) for topic in TOPICS]
    missing = [topic for topic in expected if topic not in counts]
    if len(missing) == len(expected):
        see = "(or see --namespace, and your user's rights)"
        return [f"none of our topics exists: a worker creates them when it starts {see}"]
    wrong = what_differs(ours(counts, names))
    return [
        *(f"topic {one!r} is missing, or hidden from this user: workers create it" for one in missing),
        *([wrong] if wrong else []),
    ]


def _worker_problems(health: DeploymentHealth) -> list[str]:
    live = health.live_workers()
    if not live and health.redis_full:
        return []
    if not live:
        lag = sum(partition.lag for partition in health.partitions)
        waiting = counted(lag, "event waits", "events wait")
        return [f"no worker is running ({waiting}): start one with `streamer worker`"]
    owned = {number for worker in live for number in worker.status.get("partitions", ())}
    orphaned = [p.partition for p in health.partitions if p.partition not in owned]
    problems = [f"no worker owns partitions {orphaned} (yet)"] if orphaned else []
    for worker in live:
        problems += _quarantine_problems(worker)
        if why := worker.status.get("waits"):
            problems.append(f"worker {worker.worker_id} {why}")
        unsent = worker.status.get("unsent")
        if unsent and worker.status.get("held_up", True):  # earlier releases do not say it
            keys = counted(unsent, "key")
            problems.append(f"worker {worker.worker_id} has {keys} that Redis does not have yet")
        if outdated := worker.status.get("outdated"):
            problems.append(
                f"Redis refuses values of worker {worker.worker_id} ({worker.status['refused']:,} so far). "
                f"It holds newer ones for {counted(len(outdated), 'run')}, like {outdated[0]!r}, perhaps "
                "from another log. Stop the workers, run `streamer rebuild --switch`, and start them again"
            )
        problems += worker.status.get("log_faults", ())
    return problems


def _quarantine_problems(worker: WorkerStatus) -> list[str]:
    told = worker.status.get("quarantined", {})
    problems = [
        f"run {run!r} is in quarantine ({reason}): its last good summaries stay; newer events are not "
        "counted. Fold it again with `streamer runs repair RUN`, perhaps after an upgrade, or delete it"
        for run, reason in told.items()
    ]
    if (more := worker.status.get("quarantined_runs", 0) - len(told)) > 0:
        problems.append(f"{counted(more, 'more run')} of worker {worker.worker_id} in quarantine")
    return problems


def _broker_problem(error: Exception, bootstrap: str) -> str:
    if isinstance(error, KafkaError):
        return str(error) if isinstance(error, BrokerRefuses) else broker_problem(error, bootstrap)
    return f"the broker at {bootstrap} does not answer: {said_of(error)}"


# -----------------------------------------------------------------------------
# The positions of the log and the workers at one moment, and events on their way to topics and Redis.


@dataclass(frozen=True, slots=True)
class Flow:
    """The partitions of the event topic, and the last heartbeats of live workers.

    >>> here, there = PartitionLag(0, beginning=0, end=7, committed=7), PartitionLag(1, 0, 5, 5)
    >>> flow = Flow((here, there), ({"partitions": [0], "published_to": {"0": 7}},))
    >>> flow.in_flight, flow.without_owner
    (None, [1])
    """

    partitions: tuple[PartitionLag, ...]
    workers: tuple[Mapping[str, Any], ...]

    @property
    def ends(self) -> list[int]:
        return [partition.end for partition in self.partitions]

    @property
    def without_owner(self) -> list[int]:
        """Partitions that no heartbeat lists: their owner is new, or Redis has lost its heartbeat."""
        return [partition.partition for partition in self.partitions if not self._owners(partition)]

    @property
    def in_flight(self) -> str | None:
        """The events in flight, if any; partitions without an owner are unknown."""
        lag = sum(partition.lag for partition in self.partitions)
        if lag:
            events = counted(lag, "event is", "events are")
            return f"{events} not processed yet: is a worker running? `streamer status` shows"
        busy = sum(bool(status.get("unsent") or status.get("catching_up")) for status in self.workers)
        if busy:
            return f"{counted(busy, 'worker has', 'workers have')} not sent everything to Redis yet"
        unpublished = [str(p.partition) for p in self.partitions if not self._is_published(p)]
        if unpublished:
            return f"workers have not published everything of partitions {', '.join(unpublished)} yet"
        return None

    def _is_published(self, partition: PartitionLag) -> bool:
        owners = self._owners(partition)
        reached = [owner.get("published_to", {}).get(str(partition.partition), -1) for owner in owners]
        return max(reached, default=partition.end) >= partition.end

    def _owners(self, partition: PartitionLag) -> list[Mapping[str, Any]]:
        return [status for status in self.workers if partition.partition in status.get("partitions", ())]


def live_workers(reader: StateReader) -> list[WorkerStatus]:
    return [worker for worker in reader.workers() if not worker.stale()]


# -----------------------------------------------------------------------------
# Records that the workers rejected: read them, and publish them again once they are right.
#
# A rejection has the original bytes. Requeuing publishes the record or its correction again. It goes to the
# event topic with the key of its run and the time of the original, so it counts as if it had been right the
# first time. Requeuing is never automatic, and each requeued record is rejected at most once more, so there
# are no loops.


REQUEUED = "streamer-requeued"
"""Header of a requeued record with its rejection, `partition:offset`."""


class NoSuchRejection(Exception):
    def __init__(self, place: str, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} has no rejection {place}. `streamer rejections list` shows what it holds; "
            "old ones go once the broker's retention time passes"
        )


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The place of a rejection.

    >>> LogPosition.parse("3:17")
    LogPosition(partition=3, offset=17)
    >>> str(LogPosition(3, 17))
    '3:17'
    """

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        partition, colon, offset = text.partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal() and text.isascii()):
            raise ValueError(f"{text!r} is not a rejection; write PARTITION:OFFSET, such as 3:17")
        return cls(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A rejection and its place; `timestamp_ms` is when it was rejected, in Unix milliseconds."""

    place: LogPosition
    timestamp_ms: int
    message: Rejection

    @property
    def original(self) -> bytes | None:
        return _bytes(self.message.source_value_base64)

    @property
    def key(self) -> bytes | None:
        return _bytes(self.message.source_key_base64)

    @property
    def run_id(self) -> str | None:
        if self.message.run_id is not None:
            return self.message.run_id
        try:
            event = orjson.loads(self.original or b"")
        except orjson.JSONDecodeError:
            event = None
        named = event.get("run_id") if isinstance(event, dict) else None
        if isinstance(named, str):
            return named
        return self.key.decode(errors="replace") if self.key else None


@dataclass(frozen=True, slots=True)
class Again:
    rejected: StoredRejection
    value: bytes

    @property
    def wrong(self) -> Reason | None:
        return still_wrong(self.value)

    @property
    def key(self) -> bytes | None:
        """Its run id, or the original's key if it is not an event."""
        event = decode(self.value)
        return self.rejected.key if isinstance(event, Reason) else event.run_id.encode()


def still_wrong(value: bytes) -> Reason | None:
    from streamer.folding.fold import Pipeline  # only this needs the modules for folding

    folded = Pipeline().fold([Record(value, 0)])
    if not folded.rejections:
        return None
    rejection = Rejection.model_validate_json(folded.rejections[0].value)
    return Reason(rejection.code, rejection.message)


def read_rejections(settings: Settings) -> Iterator[StoredRejection]:
    for record in read_topic(settings, Names(settings.namespace).trial_rejections):
        if (rejected := _rejected(record)) is not None:
            yield rejected


def read_rejection(settings: Settings, place: LogPosition) -> StoredRejection:
    """The rejection at a place. Raises NoSuchRejection, and the errors of `read_rejections`."""
    rejection = asyncio.run(_read_one(settings, place))
    if rejection is None:
        raise NoSuchRejection(str(place), Names(settings.namespace).trial_rejections)
    return rejection


def requeue(settings: Settings, records: Iterable[Again]) -> int:
    """Publish records unchanged, each only once; returns their number. Raises NotDelivered."""
    different = {(again.key, again.value): again.rejected for again in records}
    with ThreadedPublisher(settings) as publisher:
        for (key, value), source in different.items():
            headers = [(REQUEUED, str(source.place).encode())]
            publisher.send(Outgoing(key, value, source.message.source_timestamp_ms, headers))
    return len(different)


async def _read_one(settings: Settings, place: LogPosition) -> StoredRejection | None:
    topic = Names(settings.namespace).trial_rejections
    batches: Any = read_batches(settings, topic, [place.partition], start=place.offset)
    async with aclosing(batches) as reading:
        async for batch in reading:
            for record in batch:
                if record.offset >= place.offset:
                    return _rejected(record) if record.offset == place.offset else None
    return None


def _rejected(record: LogRecord) -> StoredRejection | None:
    try:
        message = Rejection.model_validate_json(record.value or b"")
    except ValidationError:
        return None
    return StoredRejection(LogPosition(record.partition, record.offset), record.timestamp, message)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# -----------------------------------------------------------------------------
# Ask the workers to fold one run again from the log.


POLL_SECONDS = 0.2


class NotRepaired(Exception):
    """The run could not be folded again, or no worker confirmed it in time."""


def quarantined(reader: StateReader) -> dict[str, str]:
    told = [worker.status.get("quarantined", {}) for worker in live_workers(reader)]
    return {run: reason for runs in told for run, reason in runs.items()}


def wait_until_deleted(reader: StateReader, run_id: str, *, archived: bool, seconds: float) -> bool:
    """Wait until a run is gone from Redis (if `archived`, except its ledger lines); False: timeout."""
    from streamer.client.queries import UnknownRun

    deadline = time.monotonic() + seconds
    while True:
        try:
            if reader.run(run_id).status == "archived" and archived:
                return True
        except UnknownRun:
            if not archived and run_id not in quarantined(reader):
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)


def repair(settings: Settings, run_id: str, *, wait_seconds: float) -> None:
    """Have a run folded again from the log, and wait until a worker has done it. Raises NotRepaired."""

    from streamer.client.readers import StateReader

    with StateReader(settings) as reader:
        if run_id not in quarantined(reader):
            reader.run(run_id)
        request = uuid.uuid4().hex[:12]
        asyncio.run(_ask(settings, run_id, request))
        deadline = time.monotonic() + wait_seconds
        while (outcome := _outcome(reader, request)) is None:
            if time.monotonic() > deadline:
                raise NotRepaired(
                    f"the request is written, but no worker has done it within {wait_seconds:g} s: "
                    "`streamer status` shows whether one is running and how far it is"
                )
            time.sleep(POLL_SECONDS)
    if outcome:
        raise NotRepaired(
            f"run {run_id!r} cannot be folded again: {outcome}. Its last good summaries stay; see the "
            "worker's log for details, and try again after an upgrade"
        )


def _outcome(reader: StateReader, request: str) -> str | None:
    for worker in reader.workers():
        if request in worker.status.get("repairs", {}):
            return str(worker.status["repairs"][request])
    return None


async def _ask(settings: Settings, run_id: str, request: str) -> None:
    count = len(await read_lags(settings))
    topic = Names(settings.namespace).trials_changelog
    key = repair_key(run_id).encode()
    await store(settings, [ProducerRecord(topic, partition_of(run_id, count), key, request.encode())])


# -----------------------------------------------------------------------------
# The current configuration of a group of workers, and each worker's own.


@dataclass(frozen=True, slots=True)
class Configurations:
    """Fingerprints of prices, profiles and formulas; `current` is None before the first worker."""

    current: str | None
    workers: dict[str, str]


def read_configurations(settings: Settings) -> Configurations:
    from streamer.client.readers import StateReader

    with StateReader(settings) as reader:
        live = live_workers(reader)
    workers = {w.worker_id: str(w.status["made_with"]) for w in live if "made_with" in w.status}
    return Configurations(
        current_configuration(read_topic(settings, Names(settings.namespace).streamer_meta)), workers
    )


async def adopt(settings: Settings, made_with: str) -> None:
    """Make a configuration current: workers with another one end, and those waiting for it begin."""
    topic = Names(settings.namespace).streamer_meta
    await store(settings, [ProducerRecord(topic, 0, CONFIGURATION_KEY, made_with.encode())])
