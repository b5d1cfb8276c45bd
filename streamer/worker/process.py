"""A worker: the Faust app with all its parts, and the life of its process from the topics to the stop."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import selectors
import signal
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from socket import gethostname
from typing import Any

import orjson

from streamer.folding.prices import PriceTableError, price_table
from streamer.folding.score import made_with
from streamer.settings import Settings
from streamer.storage.kafka import (
    MAX_MESSAGE_BYTES,
    KafkaConnectionError,
    KafkaError,
    Names,
    TopicUnreadable,
    administering,
    broker_problem,
    create_topic,
    is_away,
    ours,
    partition_count,
    read_partition_counts,
    read_retention,
    said_of,
    what_differs,
    what_is_finite,
)
from streamer.storage.log import CONFIGURATION_KEY, current_configuration, meta_records
from streamer.storage.outbox import ProducerRecord
from streamer.storage.redis import BadRedisUrl, RedisSink, check_protocol
from streamer.worker.agents import Processor, add_agent
from streamer.worker.metrics import AddressUnusable, Metrics, WorkerMoment, serve_probes
from streamer.worker.partition import PUBLISH_SECONDS, Partition, RecordEncoder
from streamer.worker.publisher import CheckpointWriter, IdleRuns
from streamer.worker.recovery import Fencing, LogIdentity, PartitionRecovery, Repairs
from streamer.worker.tables import (
    StateTable,
    StateUnavailable,
    Tables,
    in_directory,
    locked_directory,
    log_name,
)
from streamer.worker.transport import (
    AsFetched,
    Producer,
    StreamerApp,
    TopicPartition,
    Watchdog,
    app_options,
    batch_transport,
    session_seconds,
)

# -----------------------------------------------------------------------------
# One configuration for the whole group: a worker with other prices, profiles or formulas waits.
#
# The fingerprint of the current configuration is in `streamer-meta`. The first worker of a deployment writes
# its own there. Later an operator can make another one current: `streamer config adopt`.


log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0


class NotCurrent(Exception):
    def __init__(self, own: str, current: str) -> None:
        super().__init__(
            f"its prices, profiles or formulas ({own}) are no longer those of the group ({current}). It "
            "publishes no more with them. After a restart, it waits until they are current"
        )


class Configuration:
    """The configuration of this worker, and whether it is the group's. The producer must be started."""

    def __init__(self, settings: Settings, made_with: str, producer: Producer) -> None:
        self.made_with = made_with
        self._settings = settings
        self._producer = producer

    async def wait_until_current(self, tell: Callable[[str], Awaitable[None]]) -> None:
        """Wait until this configuration is the group's; `tell` repeatedly gets the reason."""
        said = None
        while (current := current_configuration(await meta_records(self._settings))) != self.made_with:
            if current is None or self._settings.adopt_configuration:
                topic = Names(self._settings.namespace).streamer_meta
                await self._producer.write(
                    [ProducerRecord(topic, 0, CONFIGURATION_KEY, self.made_with.encode())]
                )
                continue
            if current != said:
                log.warning("the worker %s", self._waits(current))
            said = current
            await tell(self._waits(current))
            await asyncio.sleep(LOOK_SECONDS)
        if said is not None:
            log.warning("its configuration (%s) is now current: the worker starts", self.made_with)

    def check(self, records: Iterable[Any]) -> None:
        """Raise NotCurrent if the records of `streamer-meta` have another configuration."""
        current = current_configuration(records)
        if current not in (None, self.made_with):
            raise NotCurrent(self.made_with, str(current))

    async def check_now(self) -> None:
        with suppress(KafkaError, TopicUnreadable):
            self.check(await meta_records(self._settings))

    def _waits(self, current: str) -> str:
        return (
            f"waits: its prices, profiles or formulas ({self.made_with}) differ from the group's "
            f"({current}). Change them, or make them current: `streamer config adopt {self.made_with}`"
        )


# -----------------------------------------------------------------------------
# All topics, created before the app starts, because Faust creates only some, without these settings.


REQUEST_MS = 40_000

ROOM = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(24 * 60 * 60 * 1000),
} | ROOM
"""Small segments and a low dirty ratio, without which compaction never reaches a changelog of this size.

Tombstones stay for a day, so that a worker with local rows (`tables.TRUST_SECONDS`) sees them.
"""


class TopicMismatch(Exception):
    """Topics with other partition counts than the settings; the message says what to do."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    name: str
    partitions: int
    config: dict[str, str] = field(default_factory=dict)


def plan(settings: Settings) -> list[TopicPlan]:
    names, count = Names(settings.namespace), settings.partitions
    compacted = (
        names.trials_changelog,
        names.agent_model_summaries,
        names.tier_summaries,
        names.run_summaries,
        names.run_comparisons,
        names.scored_trials,
    )
    return [
        TopicPlan(names.trial_events, count, {"retention.ms": "-1"} | ROOM),
        TopicPlan(names.trial_rejections, count, ROOM),
        TopicPlan(names.grade_changes, count, ROOM),
        *(TopicPlan(name, count, COMPACTED) for name in compacted),
        TopicPlan(names.streamer_meta, 1, COMPACTED),
    ]


async def ensure_topics(settings: Settings) -> bool:
    """Create missing topics. True if the log is new: only its own topic was missing.

    Raises TopicMismatch, BrokerRefuses for wrong credentials or a certificate, and other KafkaErrors.
    """
    async with administering(settings, REQUEST_MS) as admin:
        expected = plan(settings)
        existing, names, created = set(await admin.list_topics()), Names(settings.namespace), set()
        for topic in expected:
            if topic.name not in existing and await create_topic(
                admin, topic.name, topic.partitions, settings.replication, topic.config
            ):
                created.add(topic.name)
        result = {topic.name: await partition_count(admin, topic.name) for topic in expected}
    check_counts(result, settings)
    return names.trial_events in created and names.streamer_meta in existing


async def check_topics(settings: Settings) -> None:
    check_counts(await read_partition_counts(settings), settings)


def check_counts(counts: Mapping[str, int], settings: Settings) -> None:
    if wrong := what_differs(ours(counts, Names(settings.namespace)), settings.partitions):
        raise TopicMismatch(wrong)


# -----------------------------------------------------------------------------
# Watches the topics of a running worker: deleted, extended, or with a retention that deletes events.
#
# If topics are deleted or extended, the worker ends. At its next start it creates them, fills them, or says
# what to do about them.


CHECK_SECONDS = 15.0


class TopicDeleted(RuntimeError):
    def __init__(self, topics: list[str]) -> None:
        super().__init__(
            f"topics {', '.join(topics)} were deleted. The worker ends; the next recreates and fills them"
        )


class TopicWatch:
    """A check of the topics every 15 seconds, except on the embedded broker, which is only ours."""

    def __init__(self, settings: Settings) -> None:
        self.finite: str | None = None
        self._settings = settings
        self._events = Names(settings.namespace).trial_events

    async def watch(self) -> None:
        """Check until cancelled, and wait while the broker is away; raises TopicDeleted and TopicMismatch."""
        while not self._settings.embedded:
            try:
                await self._check()
            except (KafkaError, OSError, TimeoutError) as error:
                log.debug("cannot check the topics: %s", error)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        counts = await read_partition_counts(self._settings)
        if missing := [topic.name for topic in plan(self._settings) if topic.name not in counts]:
            raise TopicDeleted(missing)
        check_counts(counts, self._settings)
        finite = what_is_finite(self._events, await read_retention(self._settings))
        if finite and finite != self.finite:
            log.error("%s", finite)
        self.finite = finite


# -----------------------------------------------------------------------------
# The periodic work of a worker: heartbeat, lag, and the end of a catch-up without events.


HOUSEKEEPING_TICK_SECONDS = 0.5
TICKS_PER_HEARTBEAT = 4
TICKS_PER_CHECK = 10
TICKS_PER_NOTE = 40
MOST_QUARANTINED_TOLD = 100
"""The most runs that a heartbeat names (in quarantine, or newer in Redis): 30 KB."""


@dataclass(eq=False, repr=False)
class Housekeeping:
    """The periodic tasks beside the processor, in the same loop."""

    app: StreamerApp
    event_topic: str
    processor: Processor
    sink: RedisSink
    fencing: Fencing
    repairs: Repairs
    configuration: Configuration
    identity: LogIdentity
    worker_id: str
    metrics: Metrics
    topics: TopicWatch
    checkpoints: CheckpointWriter

    def __post_init__(self) -> None:
        self._positions: dict[int, int] = {}
        self._told: tuple[Any, ...] = ()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.topics.watch())
                tasks.create_task(self._tick_on())
                tasks.create_task(self._publish_on())
        except ExceptionGroup as errors:
            await self.processor.give_up(errors.exceptions[0])
        finally:
            self.repairs.stop()

    def hurry(self) -> None:
        self._hurry.set()

    async def tell_of_waiting(self, why: str) -> None:
        status = self.status() | {"waits": why}
        self.metrics.status = WorkerMoment(time.monotonic(), status, False, self.sink.away)
        await self.sink.heartbeat(self.worker_id, status, at=datetime.now(UTC))

    async def _tick_on(self) -> None:
        for ticks in count():
            await self._tick(ticks)
            status = self.status()
            self.metrics.status = WorkerMoment(
                time.monotonic(), status, self._is_ready(status), self.sink.away, self.app.unrecovered
            )
            if ticks % TICKS_PER_HEARTBEAT == 0 or self._has_changed(status):
                await self.sink.heartbeat(self.worker_id, status, at=datetime.now(UTC))
            if ticks % TICKS_PER_CHECK == 0 and self.app.is_settled:
                await self.fencing.republish_overwritten()
                await self.configuration.check_now()
                await self.identity.check_now()
            await self._rest()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HOUSEKEEPING_TICK_SECONDS):
                await self._hurry.wait()
        self._hurry.clear()

    def _has_changed(self, status: dict[str, Any]) -> bool:
        """Whether partitions came or went, a catch-up or a backlog ended, or a run failed or was repaired."""
        current = (
            status["partitions"],
            status["catching_up"],
            not any(status["lag"].values()),
            status["published_to"].keys(),
            status["quarantined_runs"],
            status["repairs"],
            status["outdated"],
        )
        changes = current != self._told
        self._told = current
        return changes

    def status(self) -> dict[str, Any]:
        """The content of a heartbeat: partitions, lag in events, keys missing in Redis, runs, quarantine.

        `published_to` is the offset up to which all results of a partition's events are published. It leaves
        out a partition with unpublished results, or with values that Redis lacks.
        """
        partitions = self.processor.partitions
        quarantined = {
            run_id: run.quarantine.reason
            for partition in partitions.values()
            for run_id, run in partition.registry.in_quarantine().items()
        }
        return {
            "partitions": sorted(partitions),
            "lag": {str(number): partition.lag for number, partition in sorted(partitions.items())},
            "catching_up": sorted(n for n, partition in partitions.items() if not partition.caught_up),
            "folded_to": {
                str(number): partition.position for number, partition in sorted(partitions.items())
            },
            "published_to": self._published_to(),
            "unsent": self.sink.unsent,
            "held_up": self.sink.held_up,
            "refused": self.sink.refusals,
            "outdated": self.sink.outdated[:MOST_QUARANTINED_TOLD],
            "open_runs": sum(len(partition.registry.open) for partition in partitions.values()),
            "closed_runs": sum(len(partition.registry.closed) for partition in partitions.values()),
            "quarantined_runs": len(quarantined),
            "quarantined": dict(islice(quarantined.items(), MOST_QUARANTINED_TOLD)),
            "held_events": sum(partition.quarantined_events for partition in partitions.values()),
            "repairs": self.repairs.outcomes,
            "made_with": self.configuration.made_with,
            "waits": None,
            "log_faults": [
                *([self.identity.problem] if self.identity.problem else []),
                *(fault for _, p in sorted(partitions.items()) for fault in p.log_faults),
            ],
            "events_lost": sum(partition.checkpoint.events_lost for partition in partitions.values()),
            "offsets_moved": sorted(n for n, partition in partitions.items() if partition.moved),
            "retention": self.topics.finite,
        }

    def _published_to(self) -> dict[str, int]:
        if not self.sink.settled:
            return {}
        partitions = sorted(self.processor.partitions.items())
        return {str(number): partition.position for number, partition in partitions if partition.published}

    def _is_ready(self, status: dict[str, Any]) -> bool:
        return self.app.is_settled and bool(status["partitions"]) and not status["catching_up"]

    async def _tick(self, ticks: int) -> None:
        if not self.app.is_settled:
            return
        self.repairs.start_due()
        for partition in list(self.processor.partitions.values()):
            place = TopicPartition(self.event_topic, partition.number)
            if place in self.app.event_consumer.assignment():
                partition.end = max(partition.end, self.app.known_end(place))
                await self._skip_missing(place, partition)
                if not partition.caught_up:
                    continue
                self.app.event_consumer.refolded.discard(place)
                note = ticks % TICKS_PER_NOTE == 0 or partition.checkpoint.scored_to == 0
                await self._work_off(partition, note=note)

    async def _work_off(self, partition: Partition, *, note: bool) -> None:
        processor, checkpoints = self.processor, self.checkpoints
        notes = note and checkpoints.can_note_scored(partition)
        if not (notes or processor.idle.any_due(partition)):
            return
        async with processor.lock:  # a rebalance may have replaced the partition while this waited
            if processor.partitions.get(partition.number) is partition:
                processor.idle.close_due(partition)
                if note:
                    await checkpoints.note_scored(partition)

    async def _publish_on(self) -> None:
        while True:
            await self.processor.until_due()
            if not self.app.is_settled:
                await asyncio.sleep(PUBLISH_SECONDS)
                continue
            async with self.processor.whole():  # a rebalance may begin while this waits, or at any write
                await self.processor.publish_due(lambda: self.app.is_settled)

    async def _skip_missing(self, place: TopicPartition, partition: Partition) -> None:
        """Skip offsets without events at the end of a log (removed, markers); only the consumer sees them."""
        consumer = self.app.event_consumer
        position = await consumer.position(place)
        if position is None or consumer.pending(place):
            self._positions.pop(place.partition, None)
        elif position != self._positions.get(place.partition):
            self._positions[place.partition] = position
        elif position > partition.position or (not partition.caught_up and position >= partition.catch_up_to):
            async with self.processor.lock:
                # While this waited, a rebalance may have replaced the partition, or a batch may have come.
                if self.processor.partitions.get(place.partition) is partition:
                    if consumer.pending(place):
                        return
                    await self.checkpoints.note_deleted(partition, partition.position, position)
                    partition.position = max(partition.position, position)
                    consumer.handed.note_gap(place, position)
                    await self.processor.publish_passed()


class CheckedSelector(selectors.DefaultSelector):
    """Event loop selector that checks the watchdog whenever the loop wakes, before any callback."""

    def __init__(self, watchdog: Watchdog) -> None:
        super().__init__()
        self._watchdog = watchdog

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        ready = super().select(timeout)
        self._watchdog.check()
        return ready


# -----------------------------------------------------------------------------
# A worker's log: readable lines, or JSON for programs.


TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object per entry, on one line: `at` (UTC), `level`, `logger`, `message`; `exception` if any.

    >>> record = logging.LogRecord("a", logging.INFO, "f", 1, "two\\n%s", ("lines",), None)
    >>> orjson.loads(JsonLines().format(record))["message"].splitlines()
    ['two', 'lines']
    """

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        readable = {name: text.encode("utf-8", "backslashreplace").decode() for name, text in entry.items()}
        return orjson.dumps(readable).decode()


def configure_logging(settings: Settings) -> None:
    """Log to stderr by the settings; libraries log only warnings and errors, except at DEBUG."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("streamer").setLevel(settings.log_level)
    logging.getLogger("mode.timers").setLevel(logging.ERROR)  # a long batch delays a commit, which is fine
    for noisy in ("faust", "mode", "aiokafka"):
        logging.getLogger(noisy).setLevel(logging.DEBUG if settings.log_level == "DEBUG" else logging.WARNING)


# -----------------------------------------------------------------------------
# Runs a worker in this process until SIGTERM, SIGINT or a crash.


CONNECT_SECONDS = 60.0

CONNECT_RETRY_SECONDS = 1.0
STOP_SECONDS = 30.0
"""How long a stop may take before the process ends anyway, without harm."""

FLUSH_SECONDS = 10.0

CLOSE_SECONDS = 5.0

GARBAGE_THRESHOLDS = (50_000, 20, 100)
"""Python's own thresholds take a twelfth of a loaded worker's time: state is long-lived, without cycles."""

OK, FAILED, USAGE_ERROR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Worker:
    app: StreamerApp
    producer: Producer
    sink: RedisSink
    processor: Processor
    housekeeping: Housekeeping
    metrics: Metrics
    configuration: Configuration


def run_worker(settings: Settings) -> int:
    """Run a worker; blocks. The exit code: 0 after a signal, 1 after a crash, 2 for wrong settings."""
    configure_logging(settings)
    faulthandler.enable()  # an end in compiled code would leave no line in the log
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    watchdog = Watchdog(session_seconds(settings))
    watchdog.start()
    loop = asyncio.SelectorEventLoop(CheckedSelector(watchdog))
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_run(settings, watchdog))
    except (TopicMismatch, StateUnavailable, BadRedisUrl, PriceTableError, AddressUnusable) as error:
        log.critical("%s", error)
        return USAGE_ERROR
    except (KafkaError, OSError) as error:
        said = broker_problem(error, settings.bootstrap) if is_away(error) else said_of(error)
        log.critical("cannot start with Kafka at %s: %s", settings.bootstrap, said)
        return FAILED
    finally:
        _close(loop)
        watchdog.stop()
        gc.freeze()  # Python would look for garbage in the whole state, and free it object by object


async def _run(settings: Settings, watchdog: Watchdog) -> int:
    stop = _stop_signal()
    await check_protocol(settings.redis, settings.redis_options())
    if not await _until(stop, _ensure_topics(settings)):
        return OK
    with ExitStack() as stack:
        state = None
        if settings.store == "rocksdb":
            state = stack.enter_context(locked_directory(settings, await log_name(settings)))
        built = worker(settings, watchdog, state)
        stack.enter_context(serve_probes(built.metrics, settings.metrics_address))
        return await _work(built, stop)


async def _work(worker: Worker, stop: asyncio.Event) -> int:
    await worker.producer.start()
    waiting = worker.configuration.wait_until_current(worker.housekeeping.tell_of_waiting)
    if not await _until(stop, waiting):
        await worker.producer.stop()
        await worker.sink.close()
        return OK
    starting = asyncio.ensure_future(worker.app.start())
    housekeeping = asyncio.ensure_future(worker.housekeeping.run())
    crashed = await _wait_for_end(worker, stop, starting)
    hurry = _end_anyway(FAILED if crashed else OK)
    log.info("stopping")
    if crashed:
        housekeeping.cancel()
    else:
        async with worker.processor.lock:  # not in the middle of a publication
            housekeeping.cancel()
        await _flush(worker)
    await _stop(worker, starting)
    hurry.cancel()
    return FAILED if crashed else OK


async def _wait_for_end(worker: Worker, stop: asyncio.Event, starting: asyncio.Future[None]) -> bool:
    crash: asyncio.Future[Any] = asyncio.ensure_future(worker.app.wait_for_crash())
    ends = [asyncio.ensure_future(stop.wait()), crash]
    await asyncio.wait([*ends, starting], return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is None:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    elif starting.done():
        log.critical("the worker could not start: %s", starting.exception())
    crashed = not stop.is_set()
    for end in ends:
        end.cancel()
    return crashed


async def _flush(worker: Worker) -> None:
    try:
        async with worker.processor.lock:
            await worker.processor.publish_last(FLUSH_SECONDS)
    except (KafkaError, OSError) as error:
        log.warning("could not publish the last summaries: %s; the next worker will", error)


async def _stop(worker: Worker, starting: asyncio.Future[None]) -> None:
    """Stop Faust first, because it finishes and commits the present batch."""
    worker.app.leave_group_at_the_end()
    await worker.app.stop()
    starting.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await starting
    await worker.producer.stop()
    await worker.sink.close()


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    return False


async def _ensure_topics(settings: Settings) -> None:
    deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
    while True:
        try:
            await log_name(settings, begins=await ensure_topics(settings))
            return
        except KafkaConnectionError as error:
            if asyncio.get_running_loop().time() > deadline:
                raise
            log.warning("waiting for Kafka: %s", broker_problem(error, settings.bootstrap))
        await asyncio.sleep(CONNECT_RETRY_SECONDS)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_SECONDS))
    asyncio.set_event_loop(None)
    loop.close()


def _end_anyway(code: int) -> threading.Timer:
    timer = threading.Timer(STOP_SECONDS, os._exit, [code])
    timer.daemon = True
    timer.start()
    return timer


# -----------------------------------------------------------------------------
# The worker as a Faust app: its topic, its tables with their changelogs, its agent, and the work beside.
#
# Faust provides the life cycle, sensors, recovery of tables, standby replicas, and a consumer group that
# assigns a partition of the events together with the same partition of every table.


BYTES: dict[str, Any] = {"key_type": bytes, "value_type": bytes}
CHANGELOG: dict[str, Any] = {
    "key_serializer": "raw",
    "value_serializer": "raw",
    "allow_empty": True,
    "acks": False,
    "internal": True,
}


def worker(settings: Settings, watchdog: Watchdog, state: Path | None = None) -> Worker:
    """A worker, not yet started. `state` is the directory of its tables; None keeps them in memory."""
    prices = price_table(settings.prices_file)
    names = Names(settings.namespace)
    host = gethostname().encode("ascii", "replace").decode()[:40]  # a container's id, or a pod
    worker_id = f"{host}-{uuid.uuid4().hex[:6]}"

    # The app, and the topic of the events.
    app = StreamerApp(names.group, **app_options(settings, state))
    app.finalize()
    app.transport = batch_transport(app, settings, names.trial_events)
    events = app.topic(names.trial_events, schema=AsFetched(), partitions=settings.partitions)

    # The tables. The changelogs of the summaries are the topics that users subscribe to.
    producer = Producer(settings, watchdog.check)

    def table(name: str, topic: str) -> StateTable:
        changelog = app.topic(topic, partitions=settings.partitions, **BYTES, **CHANGELOG)
        rows = app.Table(name, partitions=settings.partitions, changelog_topic=changelog, **BYTES)
        return StateTable(rows, in_directory(state), producer.write)

    trials = table("trials", names.trials_changelog)
    agent_models = table("agent_model_summaries", names.agent_model_summaries)
    tiers = table("tier_summaries", names.tier_summaries)
    runs = table("run_summaries", names.run_summaries)
    comparisons = table("run_comparisons", names.run_comparisons)
    tables = Tables(
        trials, {"agent_model": agent_models, "tier": tiers, "run": runs, "comparison": comparisons}
    )
    producer.written = tables.written

    # The processor, and the producers that it writes with.
    sink, metrics = RedisSink.from_settings(settings), Metrics(settings.partitions)
    if settings.metrics_address is not None:
        app.report_to(metrics.registry)
    encoder = RecordEncoder(names, tables)
    checkpoints = CheckpointWriter(tables, producer, names.scored_trials, partial(_log_start, app, settings))
    processor = Processor(
        app.crash,
        settings.partitions,
        tables=tables,
        encoder=encoder,
        producer=producer,
        sink=sink,
        check_alive=watchdog.check,
        waiting=partial(app.waiting, names.trial_events),
        idle=IdleRuns(settings, tables, encoder),
        measures=metrics,
        checkpoints=checkpoints,
    )
    sink.serve(processor)
    add_agent(app, events, processor)

    # Work before the first event of a partition, and alongside all events.
    configuration = Configuration(settings, made_with(prices), producer)

    def on_ready(mine: list[int]) -> None:
        log.info("ready: worker %s owns partitions %s", worker_id, mine)
        housekeeping.hurry()

    identity = LogIdentity(settings, sink, producer)
    recovery = PartitionRecovery(
        app,
        settings,
        tables=tables,
        processor=processor,
        producer=producer,
        prices=prices,
        identity=identity,
        check_topics=partial(check_topics, settings),
        check_configuration=configuration.check,
        writer=worker_id,
        on_ready=on_ready,
    )
    tables.on_recovered(recovery.recover)
    housekeeping = Housekeeping(
        app,
        names.trial_events,
        processor=processor,
        sink=sink,
        fencing=Fencing(app, settings, tables, processor, producer),
        repairs=Repairs(settings, processor, tables),
        configuration=configuration,
        identity=identity,
        worker_id=worker_id,
        metrics=metrics,
        topics=TopicWatch(settings),
        checkpoints=checkpoints,
    )
    return Worker(app, producer, sink, processor, housekeeping, metrics, configuration)


async def _log_start(app: StreamerApp, settings: Settings, number: int) -> int:
    """Offset of the first event in a partition's log; 0 on the embedded broker, which deletes no events."""
    if settings.embedded:
        return 0
    place = TopicPartition(Names(settings.namespace).trial_events, number)
    return (await app.event_consumer.earliest_offsets(place))[place] or 0
