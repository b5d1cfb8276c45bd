"""A worker whose Kafka and Redis are recordings. All else is put together as for `streamer worker`.

Nothing is started or fetched: the agent gets its batches from :meth:`OneWorker.process`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from redis.asyncio import Connection

from streamer.folding.fold import Pipeline
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.partition import PUBLISH_SECONDS, Partition, PublishQueue
from streamer.worker.process import worker
from streamer.worker.transport import FetchedBatch, Watchdog

DEADLINE_SECONDS = 60
"""A worker that fails waits forever for its end; this is how long it may take here."""


class RecordedKafka:
    """A client of Kafka as the worker's producer uses it: takes record batches and acknowledges them."""

    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, Any]]] = []

    def create_batch(self) -> Any:
        records: list[dict[str, Any]] = []

        def append(**record: Any) -> bool:
            records.append(record)
            return True

        return SimpleNamespace(append=append, records=records)

    async def send_batch(self, builder: Any, topic: str, *, partition: int) -> asyncio.Future[Any]:
        acknowledged = asyncio.get_running_loop().create_future()
        acknowledged.set_result(SimpleNamespace(offset=len(self.written)))
        self.written += [(topic, record) for record in builder.records]
        return acknowledged


class RecordedRedis(Connection):
    """A connection that sends nothing, and answers that each command was taken."""

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
        """The script says how many entries it refused, the benchmark before, and which; others a number."""
        return [0, b"", []] if self._unanswered.popleft() == "EVAL" else 1


class OneWorker:
    """A worker that owns one partition, which is empty. Make it where an event loop runs.

    Attributes:
        kafka: what was written.
        sink: the sink of Redis; `away` tells that it failed.
    """

    def __init__(self) -> None:
        self.kafka = RecordedKafka()
        self._seconds, self._offset = 0.0, 0
        settings = Settings(partitions=1)
        self._topic = Names(settings.namespace).trial_events
        with patch.object(Settings, "redis_options", lambda _: {"connection_class": RecordedRedis}):
            made = worker(settings, Watchdog(DEADLINE_SECONDS))
        made.producer.outbox._producer = self.kafka
        self.sink, self._processor = made.sink, made.processor
        made.processor.waiting = lambda *_: 0
        [agent] = made.app.agents.values()
        self._agent: Any = agent.fun
        pipeline, queue = Pipeline(writer="traced"), PublishQueue(lambda: self._seconds)
        self._processor.own({0: Partition(0, 1, pipeline, 0, 0, caught_up=True, publish_queue=queue)})

    async def process(
        self, values: list[bytes], begin: Callable[[str], None], around_last: AbstractContextManager[None]
    ) -> bool:
        """Give the agent these events, one by one; true if the last is done: its offset may be committed.

        Args:
            values: events, each so long after the one before that no run rests.
            begin: gets the name of each step as it begins: `fold`, `save`, `publish`, `finish`.
            around_last: entered while the last event is processed.
        """
        batches = [self._batch(value) for value in values]
        note_steps(self._processor, begin)

        async def arriving() -> AsyncIterator[FetchedBatch]:
            for batch in batches:
                self._seconds += 2 * PUBLISH_SECONDS
                begin("fold")
                with around_last if batch is batches[-1] else nullcontext():
                    yield batch

        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._agent(Arriving(arriving()))
        return batches[-1].done

    def _batch(self, value: bytes) -> FetchedBatch:
        """The next event of the log, as a fetch brings it."""
        place = {"topic": self._topic, "partition": 0, "offset": self._offset, "timestamp": 1_700_000_000_000}
        self._offset += 1
        record = SimpleNamespace(**place, key=None, value=value, headers=())
        return FetchedBatch(self._topic, 0, [record])


class Arriving:
    """A stream of Faust as the agent uses it; only one batch is there at a time."""

    channel = SimpleNamespace(queue=SimpleNamespace(empty=lambda: True))

    def __init__(self, batches: AsyncIterator[FetchedBatch]) -> None:
        self._batches = batches

    def __aiter__(self) -> AsyncIterator[FetchedBatch]:
        return self._batches


def note_steps(processor: Any, begin: Callable[[str], None]) -> None:
    """Say when the agent goes on to its next step."""
    publisher = processor.summary_publisher
    save, finish = publisher.save, publisher.finish

    async def saved(runs: Any) -> Any:
        begin("save")
        replaced = await save(runs)
        begin("publish")
        return replaced

    async def finished(batches: Any, replaced: Any) -> None:
        begin("finish")
        await finish(batches, replaced)
        begin("publish")

    publisher.save, publisher.finish = saved, finished
