"""The questions that other rooms may ask the group's consumer; `transport.Consumer` answers them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from streamer.worker.faust.batches import HandedBatches
from streamer.worker.faust.topic_partition import TopicPartition


class Committed(NamedTuple):
    """A committed offset, None if there is none; `by_others`: it was not set by a worker."""

    offset: int | None
    by_others: bool


class EventConsumer(Protocol):
    """The consumer of the group: it reads the events and the changelogs.

    Attributes:
        handed: the batches that were handed on.
        refolded: partitions that are read from their beginning, whatever offset is committed.
    """

    handed: HandedBatches
    refolded: set[TopicPartition]

    def assignment(self) -> AbstractSet[TopicPartition]:
        """The partitions assigned now, changelogs included."""

    def highwater(self, place: TopicPartition, /) -> int | None:
        """Where a partition ends, as of the last fetch; None before one."""

    def pending(self, place: TopicPartition, /) -> bool:
        """True if events of the partition are fetched and not folded."""

    async def position(self, place: TopicPartition, /) -> int | None:
        """Offset of the next record to fetch; None where the partition is not ours any more."""

    async def committed(self, place: TopicPartition, /) -> Committed:
        """The group's committed offset of a partition, and who committed it."""

    async def highwaters(self, *places: TopicPartition) -> Mapping[TopicPartition, int]:
        """The offset after the last record of each partition, asked of the broker."""

    async def earliest_offsets(self, *places: TopicPartition) -> Mapping[TopicPartition, int]:
        """Offset of the first record that each partition still has."""
