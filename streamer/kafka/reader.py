"""The one loop that reads partitions: from an offset to another one, or on and on.

The embedded broker answers ListOffsets(latest) with the base offset of the last record batch plus one, and
readers that believe it stop short. The end in its fetch responses is right. So every end is learned from a
fetch. It is the last stable offset: what a transaction may still abort is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any, Self, TypeAlias

from aiokafka import TopicPartition

from streamer.kafka.constants import (
    END_WAIT_MS,
    FETCH_WAIT_MS,
    MAX_MESSAGE_BYTES,
    PATIENCE_SECONDS,
    REQUEST_MS,
    SHORT_WAIT_MS,
)
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.errors import TopicUnreadable
from streamer.settings import Settings

LogRecord: TypeAlias = Any
"""aiokafka's record: topic, partition, offset, timestamp (Unix ms), key, value (bytes or None), headers."""

PartitionId: TypeAlias = tuple[str, int]
"""Topic and partition. Named tuples of the two, such as Faust's TP, are equal to it."""


def following_wait_ms(settings: Settings) -> int:
    """How long the broker may hold an empty fetch of a reader that goes on without end."""
    return SHORT_WAIT_MS if settings.embedded else FETCH_WAIT_MS


def stable_end(consumer: AIOKafkaConsumer, place: PartitionId) -> int | None:
    """The end that the last fetch saw, open transactions left out; None before a fetch."""
    at = TopicPartition(*place)
    stable: int | None = consumer.last_stable_offset(at)
    end: int | None = consumer.highwater(at)
    return end if stable is None or stable < 0 else stable


class PartitionReader:
    """Reads partitions, beside every consumer group. Use it as an async context manager.

    Use one method at a time.

    Args:
        settings: where the broker is.
        places: the partitions; they must exist.
        wait_ms: how long the broker may hold a fetch that finds nothing.
        group: a group whose committed offsets are asked for or set. The reader does not join it.
    """

    def __init__(
        self,
        settings: Settings,
        places: Iterable[PartitionId],
        *,
        wait_ms: int = END_WAIT_MS,
        group: str | None = None,
    ) -> None:
        self._places = [TopicPartition(*place) for place in places]
        self._wait_ms = wait_ms
        self._consumer = AIOKafkaConsumer(
            **settings.consumer_options(),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=wait_ms,
            max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
            request_timeout_ms=REQUEST_MS,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
            await asyncio.sleep(0)  # aiokafka cannot stop before its tasks have had a turn
        except BaseException:
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def beginnings(self) -> dict[PartitionId, int]:
        """Offset of the first record that is still there, of each partition."""
        return dict(await self._consumer.beginning_offsets(self._places))

    async def ends(self, patience_seconds: float = PATIENCE_SECONDS) -> dict[PartitionId, int]:
        """Where each partition ends now; what transactions hold open is left out. Ask before reading.

        A reader that has fetched before may still have a fetch on its way, whose answer is older than this
        question. So it waits for a second answer.

        Raises:
            TopicUnreadable: the broker answers no fetch for so long.
            KafkaError: it cannot say, or refuses.
        """
        answers = 2 if self._consumer.assignment() else 1
        reported: Mapping[PartitionId, int] = await self._consumer.end_offsets(self._places)
        left, ends = self._assigned(reported), dict[PartitionId, int]()
        heard = {place: {self._consumer.last_poll_timestamp(place)} for place in left}
        clock = asyncio.get_running_loop().time
        deadline = clock() + patience_seconds
        while left:
            if clock() > deadline:
                raise TopicUnreadable(left, patience_seconds)
            await self._fetched(left)
            for place in left:
                heard[place].add(self._consumer.last_poll_timestamp(place))
                end = stable_end(self._consumer, place)
                if end is not None and len(heard[place]) > answers:
                    ends[place] = end
            left = self._without(left, ends)
        return ends

    async def read(
        self,
        start: Mapping[PartitionId, int],
        stop: Mapping[PartitionId, int] | None,
        *,
        patience_seconds: float | None = PATIENCE_SECONDS,
    ) -> AsyncIterator[list[LogRecord]]:
        """Records with `start` <= offset < `stop`, in batches as fetched: each of one partition, not empty.

        Records come in offset order within a partition.

        Args:
            start: first offset of each partition; the first that is there, where it is left out.
            stop: offset after the last record; None: go on without end.
            patience_seconds: give up after so long without news; None: wait, however long.

        Raises:
            TopicUnreadable: nothing new came for `patience_seconds`, before the end.
            KafkaError: the broker cannot be reached, or refuses.
        """
        begin = start if len(start) == len(self._places) else {**await self.beginnings(), **start}
        left = self._assigned(begin)
        if stop is not None:
            left = self._without(left, {at for at in left if begin[at] >= stop[at]})
        clock = asyncio.get_running_loop().time
        heard = clock()
        while left:
            for place, records in (await self._fetched(left)).items():
                heard = clock()
                if wanted := [r for r in records if stop is None or r.offset < stop[place]]:
                    yield wanted
            if stop is None:
                continue
            ended = {at for at in left if await self._position(at) >= stop[at]}
            heard = clock() if ended else heard
            left = self._without(left, ended)
            if left and patience_seconds is not None and clock() - heard > patience_seconds:
                raise TopicUnreadable(left, patience_seconds)

    async def committed(self) -> dict[PartitionId, int | None]:
        """Offset up to which the group is done with each partition; None where it never said."""
        return {place: await self._consumer.committed(place) for place in self._places}

    async def commit(self, offset: int) -> None:
        """Set the group's offset of every partition. The group must be empty."""
        self._assigned(dict.fromkeys(self._places, offset))
        await self._consumer.commit(dict.fromkeys(self._places, offset))

    def _assigned(self, start: Mapping[PartitionId, int]) -> set[TopicPartition]:
        """All partitions, fetched from `start` on.

        They are assigned once, each with its offset at once, and sought from then on. While aiokafka looks
        for an offset, or gives up the fetches of an earlier assignment, a stop is lost and never ends.
        """
        if not self._consumer.assignment():
            self._consumer.assign(self._places)
        self._consumer.resume(*self._places)
        for place in self._places:
            self._consumer.seek(place, start[place])
        return set(self._places)

    async def _fetched(self, left: Collection[TopicPartition]) -> dict[TopicPartition, list[LogRecord]]:
        found: dict[TopicPartition, list[LogRecord]] = await self._consumer.getmany(
            *left, timeout_ms=self._wait_ms
        )
        return found

    async def _position(self, place: TopicPartition) -> int:
        """Offset that is read next; -1 before the first fetch: to ask then would wait."""
        if stable_end(self._consumer, place) is None:
            return -1
        return int(await self._consumer.position(place))

    def _without(self, left: set[TopicPartition], done: Iterable[PartitionId]) -> set[TopicPartition]:
        """The others; what is done is not fetched any more."""
        ended = left.intersection(done)
        if ended:
            self._consumer.pause(*ended)
        return left - ended
