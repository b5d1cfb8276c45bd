"""Records that the workers rejected: read them, and publish them again once they are right.

A rejection holds the original bytes. To requeue is to publish again, the record or its correction. It goes to
the event topic with the key of its run and the time of the original. So it counts as if it had come right the
first time. Nothing is requeued by itself, and each requeued record is rejected once
more at most: so nothing goes round.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Self

import orjson
from pydantic import ValidationError

from streamer.kafka.log import read_batches, read_topic
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of_key
from streamer.kafka.reader import LogRecord
from streamer.publish.publisher import Publisher
from streamer.records import Record
from streamer.schemas.decode import Reason, decode
from streamer.schemas.news import Rejection
from streamer.settings import Settings

REQUEUED = "streamer-requeued"
"""Header of a requeued record: the rejection it comes from, `partition:offset`."""


class NoSuchRejection(Exception):
    """The rejection topic holds no rejection there."""

    def __init__(self, place: str, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} holds no rejection {place}. `streamer rejections list` shows what it holds; "
            "old ones go when the broker's retention time has passed"
        )


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a rejection lies.

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
        """Inverse of `str`; ValueError for anything else."""
        partition, colon, offset = text.partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal() and text.isascii()):
            raise ValueError(f"{text!r} is no rejection; one is named PARTITION:OFFSET, as 3:17")
        return cls(int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A rejection where it lies.

    Attributes:
        place: its id.
        timestamp_ms: when it was rejected, Unix milliseconds.
        message: what it says.
    """

    place: LogPosition
    timestamp_ms: int
    message: Rejection

    @property
    def original(self) -> bytes | None:
        """The bytes of the rejected record; None: it had none, or they were too many to repeat."""
        return _bytes(self.message.source_value_base64)

    @property
    def key(self) -> bytes | None:
        """The key of the rejected record."""
        return _bytes(self.message.source_key_base64)

    @property
    def run_id(self) -> str | None:
        """The run that it is about, as far as anybody can tell: by the record itself, else by its key."""
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
    """The record to publish in place of a rejected one."""

    rejected: StoredRejection
    value: bytes

    @property
    def wrong(self) -> Reason | None:
        """Why a worker of this version would reject it (again); None: it would count."""
        return still_wrong(self.value)

    @property
    def key(self) -> bytes | None:
        """Its run id; for what is no event, the original's key."""
        event = decode(self.value)
        return self.rejected.key if isinstance(event, Reason) else event.run_id.encode()


def still_wrong(value: bytes) -> Reason | None:
    """Why the pipeline rejects a record; None: it does not."""

    from streamer.pipeline import Pipeline  # only this needs what folding needs

    folded = Pipeline().fold([Record(value, 0)])
    if not folded.rejections:
        return None
    rejection = Rejection.model_validate_json(folded.rejections[0].value)
    return Reason(rejection.code, rejection.message)


def read_rejections(settings: Settings) -> Iterator[StoredRejection]:
    """Every rejection up to the present end of the topic; other records are left out.

    Raises:
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
    """
    for record in read_topic(settings, Names(settings.namespace).trial_rejections):
        if (rejected := _rejected(record)) is not None:
            yield rejected


def read_rejection(settings: Settings, place: LogPosition) -> StoredRejection:
    """One rejection.

    Raises:
        NoSuchRejection: there is none.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
    """
    found = asyncio.run(_read_one(settings, place))
    if found is None:
        raise NoSuchRejection(str(place), Names(settings.namespace).trial_rejections)
    return found


def requeue(settings: Settings, records: Iterable[Again]) -> int:
    """Publish records again, as they are; the same bytes once, however often they were rejected.

    Returns:
        How many were published; all of them are acknowledged.

    Raises:
        NotDelivered: some were not.
        TopicMissing, aiokafka.errors.KafkaError: see `streamer.publish.publisher`.
    """
    different = {(again.key, again.value): again for again in records}
    return asyncio.run(_publish(settings, list(different.values())))


async def _publish(settings: Settings, records: list[Again]) -> int:
    async with _Requeuer(settings) as publisher:
        for again in records:
            await publisher.send_again(again)
    return len(records)


class _Requeuer(Publisher):
    """A publisher that keeps the original's time."""

    async def send_again(self, again: Again) -> None:
        """Hand over one record; `flush` tells what arrived."""
        key, source = again.key, again.rejected
        future = await self._producer.send(
            self._topic,
            key=key,
            value=again.value,
            partition=partition_of_key(key or again.value, self._partitions),
            timestamp_ms=source.message.source_timestamp_ms,
            headers=[(REQUEUED, str(source.place).encode())],
        )
        self._in_flight.add(future)
        future.add_done_callback(self._done)


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
