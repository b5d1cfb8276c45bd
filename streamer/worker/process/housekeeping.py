"""The regular work of a worker: heartbeat, lag, and the end of a catch-up that no event brings about."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any

from streamer.redis.sink import RedisSink
from streamer.worker.faust.app import StreamerApp
from streamer.worker.faust.topic_partition import TopicPartition
from streamer.worker.process.configuration import Configuration
from streamer.worker.process.metrics import Metrics, WorkerMoment
from streamer.worker.process.topic_watch import TopicWatch
from streamer.worker.processing.checkpoint_writer import CheckpointWriter
from streamer.worker.processing.partition import Partition
from streamer.worker.processing.processor import Processor
from streamer.worker.recovery.fencing import Fencing
from streamer.worker.recovery.repair import Repairs

log = logging.getLogger(__name__)

HOUSEKEEPING_TICK_SECONDS = 0.5
TICKS_PER_HEARTBEAT = 4
TICKS_PER_CHECK = 10
TICKS_PER_NOTE = 40
MOST_QUARANTINED_TOLD = 100
"""Runs in quarantine that a heartbeat names, with the reason: 30 KB; the others are counted."""


class Housekeeping:
    """Runs beside the processor, in the same loop."""

    def __init__(
        self,
        app: StreamerApp,
        event_topic: str,
        *,
        processor: Processor,
        sink: RedisSink,
        fencing: Fencing,
        repairs: Repairs,
        configuration: Configuration,
        worker_id: str,
        metrics: Metrics,
        topics: TopicWatch,
        checkpoints: CheckpointWriter,
    ) -> None:
        self._app = app
        self._topic = event_topic
        self._processor = processor
        self._sink = sink
        self._fencing = fencing
        self._repairs = repairs
        self._configuration = configuration
        self._worker_id = worker_id
        self._metrics = metrics
        self._topics = topics
        self._checkpoints = checkpoints
        self._positions: dict[int, int] = {}
        self._told: tuple[Any, ...] = ()
        self._hurry = asyncio.Event()

    async def run(self) -> None:
        """Tick, and watch the topics, until cancelled; an exception ends the worker."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._topics.watch())
                tasks.create_task(self._tick_on())
        except ExceptionGroup as errors:
            await self._processor.give_up(errors.exceptions[0])
        finally:
            self._repairs.stop()

    def hurry(self) -> None:
        """Let the next tick come at once: partitions are ready, and somebody may wait for that."""
        self._hurry.set()

    async def tell_of_waiting(self, why: str) -> None:
        """Say in the heartbeat, and to probes, that the worker has not begun."""
        status = self.status() | {"waits": why}
        self._metrics.status = WorkerMoment(time.monotonic(), status, False, self._sink.away)
        await self._sink.heartbeat(self._worker_id, status, at=datetime.now(UTC))

    async def _tick_on(self) -> None:
        for ticks in count():
            await self._tick(ticks)
            status = self.status()
            self._metrics.status = WorkerMoment(
                time.monotonic(), status, self._is_ready(status), self._sink.away, self._app.unrecovered
            )
            if ticks % TICKS_PER_HEARTBEAT == 0 or self._is_news(status):
                await self._sink.heartbeat(self._worker_id, status, at=datetime.now(UTC))
            if ticks % TICKS_PER_CHECK == 0 and self._app.is_settled:
                await self._fencing.republish_overwritten()
                await self._configuration.check_now()
            await self._rest()

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HOUSEKEEPING_TICK_SECONDS):
                await self._hurry.wait()
        self._hurry.clear()

    def _is_news(self, status: dict[str, Any]) -> bool:
        """True if partitions came or went, a catch-up or a backlog ended, a run was set apart or repaired."""
        standing = (
            status["partitions"],
            status["catching_up"],
            not any(status["lag"].values()),
            status["published_to"].keys(),
            status["quarantined_runs"],
            status["repairs"],
        )
        news = standing != self._told
        self._told = standing
        return news

    def status(self) -> dict[str, Any]:
        """Assigned partitions, lag per partition in events, keys that Redis lacks, runs in memory and not.

        Per partition, up to which offset the events are folded, and up to which all that follows from them is
        published. While anything waits to be published, or Redis lacks something, `published_to` leaves the
        partition out.

        Also the first runs in quarantine with the reason, and the outcome of the latest repairs. Then the
        fingerprint of the configuration, and why the worker waits, if it does.
        """
        partitions = self._processor.partitions
        quarantined = {
            run_id: run.quarantine.reason
            for partition in partitions.values()
            for run_id, run in partition.quarantined.items()
        }
        return {
            "partitions": sorted(partitions),
            "lag": {str(number): partition.lag for number, partition in sorted(partitions.items())},
            "catching_up": sorted(n for n, partition in partitions.items() if not partition.caught_up),
            "folded_to": {
                str(number): partition.position for number, partition in sorted(partitions.items())
            },
            "published_to": self._published_to(),
            "unsent": self._sink.unsent,
            "open_runs": sum(len(partition.pipeline.runs()) for partition in partitions.values()),
            "closed_runs": sum(len(partition.closed) for partition in partitions.values()),
            "quarantined_runs": len(quarantined),
            "quarantined": dict(islice(quarantined.items(), MOST_QUARANTINED_TOLD)),
            "held_events": sum(partition.held for partition in partitions.values()),
            "repairs": self._repairs.outcomes,
            "made_with": self._configuration.made_with,
            "waits": None,
            "log_faults": [fault for _, p in sorted(partitions.items()) for fault in p.log_faults],
            "events_lost": sum(partition.checkpoint.events_lost for partition in partitions.values()),
            "offsets_moved": sorted(n for n, partition in partitions.items() if partition.moved),
            "retention": self._topics.finite,
        }

    def _published_to(self) -> dict[str, int]:
        if not self._sink.settled:
            return {}
        partitions = sorted(self._processor.partitions.items())
        return {str(number): partition.position for number, partition in partitions if partition.published}

    def _is_ready(self, status: dict[str, Any]) -> bool:
        return self._app.is_settled and bool(status["partitions"]) and not status["catching_up"]

    async def _tick(self, ticks: int) -> None:
        if not self._app.is_settled:
            return
        self._repairs.start_due()
        for partition in list(self._processor.partitions.values()):
            place = TopicPartition(self._topic, partition.number)
            if place in self._app.event_consumer.assignment():
                partition.end = max(partition.end, self._app.known_end(place))
                await self._pass_what_is_gone(place, partition)
                if not partition.caught_up:
                    continue
                self._app.event_consumer.refolded.discard(place)
                if partition.publish_queue and self._processor.is_due():
                    await self._flush(partition)
                await self._close_idle(partition)
                if ticks % TICKS_PER_NOTE == 0 or partition.checkpoint.scored_to == 0:
                    await self._note_scored(partition)

    async def _flush(self, partition: Partition) -> None:
        """Publish what a backlog left in the queue, even if no further batch comes."""
        async with self._processor.lock:
            if self._processor.partitions.get(partition.number) is partition:
                await self._processor.flush()

    async def _note_scored(self, partition: Partition) -> None:
        if not self._checkpoints.can_note_scored(partition):
            return
        async with self._processor.lock:
            if self._processor.partitions.get(partition.number) is partition:
                await self._checkpoints.note_scored(partition)

    async def _close_idle(self, partition: Partition) -> None:
        if not self._processor.idle.any_due(partition):
            return
        async with self._processor.lock:
            if self._processor.partitions.get(partition.number) is partition:
                self._processor.idle.close_due(partition)

    async def _pass_what_is_gone(self, place: TopicPartition, partition: Partition) -> None:
        """The last offsets of a log may hold no event (removed, markers): only the consumer passes them."""
        consumer = self._app.event_consumer
        position = await consumer.position(place)
        if position is None or consumer.pending(place):
            self._positions.pop(place.partition, None)
        elif position != self._positions.get(place.partition):
            self._positions[place.partition] = position
        elif position > partition.position or (not partition.caught_up and position >= partition.catch_up_to):
            async with self._processor.lock:
                if self._processor.partitions.get(place.partition) is partition:
                    if consumer.pending(place):
                        return
                    await self._checkpoints.note_deleted(partition, partition.position, position)
                    partition.position = max(partition.position, position)
                    consumer.handed.note_gap(place, position)
                    await self._processor.publish_passed()
