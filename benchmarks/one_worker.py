"""A worker's processor with one partition. Kafka and Redis are recordings: what is sent there is noted.

All else is the product: tables, publisher, the sink of Redis. Nothing is fetched, so batches come from here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

from redis.asyncio import Connection

from streamer.folding.fold import Pipeline
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names
from streamer.storage.redis import RedisSink
from streamer.worker.metrics import Metrics
from streamer.worker.partition import REST_SECONDS, Partition, PublishQueue, RecordEncoder
from streamer.worker.process import Watchdog
from streamer.worker.processor import Processor
from streamer.worker.producer import ProducerRecord
from streamer.worker.publisher import CheckpointWriter, IdleRuns
from streamer.worker.tables import Tables
from streamer.worker.transport import FetchedBatch, faust_app


class RecordedKafka:
    """Takes writes as the worker's producer does, acknowledges them at once, and keeps them."""

    def __init__(self, tables: Tables) -> None:
        self.records: list[ProducerRecord] = []
        self._tables = tables

    async def write(self, records: Iterable[ProducerRecord]) -> None:
        for record in records:
            self._tables.written(record.topic, record.partition, len(self.records), [record])
            self.records.append(record)


class RecordedRedis(Connection):
    """A connection that keeps commands, and answers that each was taken."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unanswered: deque[str] = deque()

    async def connect(self) -> None:
        """Nothing to connect to."""

    async def can_read(self, *_: Any, **__: Any) -> bool:
        return False

    can_read_destructive = can_read  # its name in older versions of redis-py

    def pack_commands(self, commands: Iterable[Any]) -> list[bytes]:
        commands = list(commands)
        self._unanswered += [str(command[0]) for command in commands]
        packed: list[bytes] = super().pack_commands(commands)
        return packed

    async def send_packed_command(self, *_: Any, **__: Any) -> None:
        """Nowhere to send it to."""

    async def read_response(self, *_: Any, **__: Any) -> Any:
        """The script says how many entries it refused, and the benchmark before; other commands a number."""
        return [0, b""] if self._unanswered.popleft() == "EVAL" else 1


class OneWorker:
    """Processes one event at a time, each long after the one before: nothing rests or waits.

    Attributes:
        kafka: what was written there.
        sink: the sink of Redis; `away` tells that it failed.
    """

    def __init__(self) -> None:
        settings, names = Settings(), Names()
        tables = Tables(faust_app(settings, names), names, 1)
        for table in tables.all():
            table.rows.apply(0, [], None)
        self._seconds, self._offset = 0.0, 0
        self._topic = names.trial_events
        self.kafka = RecordedKafka(tables)
        producer = cast(Any, self.kafka)
        self.sink = RedisSink(
            settings.redis, keys=Keys(settings.namespace), options={"connection_class": RecordedRedis}
        )
        encoder, watchdog = RecordEncoder(names, tables), Watchdog(60)
        self._processor = Processor(
            self._crash,
            1,
            tables=tables,
            encoder=encoder,
            producer=producer,
            sink=self.sink,
            check_alive=watchdog.check,
            waiting=lambda number, offset: 0,
            idle=IdleRuns(settings, tables, encoder, self._now, self._now),
            measures=Metrics(1),
            checkpoints=CheckpointWriter(tables, producer, names.scored_trials, self._log_start),
        )
        pipeline, queue = Pipeline(writer="traced"), PublishQueue(self._now)
        self._processor.own({0: Partition(0, 1, pipeline, 0, 0, caught_up=True, publish_queue=queue)})

    def batch(self, value: bytes) -> FetchedBatch:
        """The next event of the log, as a fetch brings it; so much time has passed that no run rests."""
        record = SimpleNamespace(
            topic=self._topic,
            partition=0,
            offset=self._offset,
            timestamp=1_700_000_000_000,
            key=None,
            value=value,
            headers=(),
        )
        self._offset += 1
        self._seconds += 2 * REST_SECONDS
        return FetchedBatch(self._topic, 0, [record])

    async def process(self, batch: FetchedBatch, begin: Callable[[str], None]) -> None:
        """Process a batch to its end, and say which step begins: `fold`, `save` or `publish`."""
        processor = cast(Any, self._processor)
        save = processor.save

        async def noted(*arguments: Any) -> Any:
            begin("save")
            saved = await save(*arguments)
            begin("publish")
            return saved

        processor.save = noted
        begin("fold")
        await processor.handle(batch)
        processor.save = save

    def _now(self) -> float:
        return self._seconds

    async def _log_start(self, _partition: int) -> int:
        return 0

    async def _crash(self, error: Exception) -> None:
        raise error
