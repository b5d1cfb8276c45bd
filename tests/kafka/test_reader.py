"""The one loop that reads partitions, on the embedded broker and on a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.storage.kafka import TopicUnreadable
from streamer.storage.log import PartitionReader
from tests.kafka.filling import append, create_and_fill


async def offsets(batches: AsyncIterator[list[Any]]) -> dict[int, list[int]]:
    """Offsets by partition, in the order of reading."""
    found: dict[int, list[int]] = {}
    async for batch in batches:
        assert batch
        for record in batch:
            found.setdefault(record.partition, []).append(record.offset)
    return found


async def test_ends_lie_behind_the_last_record_of_the_last_batch(settings: Settings, namespace: str) -> None:
    await create_and_fill(settings, namespace, [(0, 1), (0, 50), (1, 7)])
    places = [(namespace, number) for number in range(3)]
    async with PartitionReader(settings, places) as reader:
        assert await reader.ends() == dict(zip(places, (51, 7, 0), strict=True))
        assert await reader.beginnings() == dict.fromkeys(places, 0)


async def test_only_what_lies_between_start_and_stop_is_read(settings: Settings, namespace: str) -> None:
    await create_and_fill(settings, namespace, [(0, 10), (1, 10)])
    first, second = (namespace, 0), (namespace, 1)
    async with PartitionReader(settings, [first, second]) as reader:
        found = await offsets(reader.read({first: 4}, {first: 7, second: 2}))
    assert found == {0: [4, 5, 6], 1: [0, 1]}


async def test_nothing_lies_between_an_end_and_itself(settings: Settings, namespace: str) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 3)])
    async with PartitionReader(settings, [place]) as reader:
        assert await offsets(reader.read({place: 3}, {place: 3})) == {}


async def test_a_reader_that_has_nothing_to_read_can_be_closed_at_once(
    settings: Settings, namespace: str
) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 3)])
    for _ in range(20):  # of every one, aiokafka may be in another state
        async with asyncio.timeout(30), PartitionReader(settings, [place]) as reader:
            ends = await reader.ends()
            assert await offsets(reader.read({place: 3}, ends)) == {}


async def test_each_question_for_the_end_is_answered_by_a_fetch_of_its_own(
    settings: Settings, namespace: str
) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 1)])
    async with PartitionReader(settings, [place]) as reader:
        for number in range(1, 20):
            assert await reader.ends() == {place: number}
            await append(settings, namespace, [(0, 1)])


async def test_one_reader_reads_again_and_then_follows(settings: Settings, namespace: str) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 5)])
    async with PartitionReader(settings, [place]) as reader:
        end = (await reader.ends())[place]
        assert await offsets(reader.read({place: 3}, {place: end})) == {0: [3, 4]}
        assert await offsets(reader.read({}, {place: end})) == {0: [0, 1, 2, 3, 4]}
        await append(settings, namespace, [(0, 2)])
        async with asyncio.timeout(30), aclosing(reader.read({place: end}, None)) as following:  # type: ignore[type-var]
            assert next(record.offset for record in await anext(following)) == 5


async def test_a_partition_that_gives_nothing_more_before_its_stop_is_given_up(
    settings: Settings, namespace: str
) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 2)])
    async with PartitionReader(settings, [place]) as reader:
        with pytest.raises(TopicUnreadable, match=rf"'{namespace}': partitions \[0\]: nothing came for"):
            await offsets(reader.read({}, {place: 3}, patience_seconds=0.3))


async def test_the_offsets_of_a_group_are_told_and_set(settings: Settings, namespace: str) -> None:
    place = (namespace, 0)
    await create_and_fill(settings, namespace, [(0, 2)])
    async with PartitionReader(settings, [place], group=f"{namespace}-group") as reader:
        before = await reader.committed()
        await reader.commit(1)
        assert (before, await reader.committed()) == ({place: None}, {place: 1})
