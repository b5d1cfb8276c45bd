"""Build the state again from the event log: the next epoch, and no state page of the old one left.

The workers do the folding. Where the checkpoint of a partition's pages is missing (see docs/architecture.md),
they fold it again from the beginning of the log. Their summaries under the next epoch replace all older
values. Every step may be repeated; a switch that broke off is simply done again.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import orjson

from streamer.aggregate.changes import RunUpdate, SummaryChange
from streamer.aggregate.keys import RUN
from streamer.client.reader import StateReader
from streamer.kafka.clients import administering, producing
from streamer.kafka.log import read_topic
from streamer.kafka.meta import EPOCH_KEY, LOG_KEY, epoch_value, greatest_epoch
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import add_partitions, ours, read_partition_counts
from streamer.kafka.reader import PartitionReader
from streamer.ops.flow import live_workers
from streamer.ops.published import SCORED, TOPICS, TopicKey, latest_of
from streamer.ops.verify import REDIS_TIMEOUT_SECONDS
from streamer.redis.connect import sync_client
from streamer.redis.entry import parse_version
from streamer.redis.keys import Keys
from streamer.redis.sink import RedisSink
from streamer.settings import Settings

POLL_SECONDS = 0.2
WRITES_AT_ONCE = KEYS_AT_ONCE = 1_000
PAGES = "trials-changelog"


class CannotSwitch(Exception):
    """The state cannot be replaced now; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Switched:
    """The result of a switch.

    Attributes:
        epoch: the one that is current now.
        pages: state pages removed.
        unknown: records removed from the topics because the log does not know them.
        runs: runs removed because of that.
    """

    epoch: int
    pages: int
    unknown: int
    runs: int


class Switch:
    """Replaces the state of a deployment whose workers are stopped.

    Args:
        settings: where the broker and Redis are.
        wait_seconds: how long to wait for workers that are about to leave.
    """

    def __init__(self, settings: Settings, *, wait_seconds: float) -> None:
        if settings.epoch is not None:
            raise CannotSwitch(
                f"the setting epoch ({settings.epoch}) overrides the one that a rebuild would make current: "
                "take it away, here and for the workers. Under `streamer up` nothing needs to be rebuilt: "
                "end it and start it again, it folds everything anew each time"
            )
        self._settings = settings
        self._names = Names(settings.namespace)
        self._keys = Keys(settings.namespace)
        self._wait_seconds = wait_seconds

    def check(self) -> None:
        """Wait until no worker is left.

        Raises:
            CannotSwitch: some are.
        """
        deadline = time.monotonic() + self._wait_seconds
        while workers := self._workers():
            if time.monotonic() >= deadline:
                raise CannotSwitch(
                    f"{workers} workers are running: stop them, rebuild, then start them again. One that was "
                    "killed counts until its session ends, some seconds later"
                )
            time.sleep(POLL_SECONDS)

    def switch(self, places: Collection[TopicKey], ghosts: Collection[str]) -> Switched:
        """Begin the next epoch without state pages, and remove what the log knows nothing of.

        Args:
            places: where the topics should hold summaries by the log.
            ghosts: runs that topics or Redis know and the log does not.

        Raises:
            CannotSwitch: workers are running.
            KafkaError, RedisError: what is away; do it again.
        """
        self.check()
        count = asyncio.run(self._even_out())
        epochs = latest_of(self._settings, TOPICS.values(), _epoch_of)
        unknown = epochs.keys() - set(places)
        for place in self._keys_of(SCORED):
            if place.run_id in ghosts or place.partition != partition_of(place.run_id, count):
                unknown.add(place)
        pages = self._keys_of(PAGES)
        epoch = 1 + max(self._epochs(epochs.values()))
        asyncio.run(self._write(epoch, [*pages, *unknown]))
        asyncio.run(self._remove_from_redis(ghosts, epoch))
        if self._workers() or self._keys_of(PAGES):
            raise CannotSwitch(
                "a worker started meanwhile and goes on with the old state: stop it, then rebuild again"
            )
        return Switched(epoch, len(pages), len(unknown), len(ghosts))

    def _workers(self) -> int:
        """Members of the group; on the embedded broker, which never forgets one, live heartbeats."""
        if not self._settings.embedded:
            return asyncio.run(self._members())
        with StateReader(self._settings) as reader:
            return len(live_workers(reader))

    async def _members(self) -> int:
        async with administering(self._settings) as admin:
            [described] = await admin.describe_consumer_groups([self._names.group])
        return sum(len(members) for *_, members in (group[:6] for group in described.groups))

    async def _even_out(self) -> int:
        """Give every topic as many partitions as the one that has most; how many.

        Runs change their partitions then. So the offsets of the workers are set back: they say which events
        need not be sent to another partition any more.
        """
        counts = ours(await read_partition_counts(self._settings), self._names)
        most = max(counts.values())
        lacking = {topic: most for topic, count in counts.items() if count < most}
        if not lacking:
            return most
        await add_partitions(self._settings, lacking)
        await self._forget_offsets(most)
        return most

    async def _forget_offsets(self, partitions: int) -> None:
        places = [(self._names.trial_events, number) for number in range(partitions)]
        async with PartitionReader(self._settings, places, group=self._names.group) as reader:
            await reader.commit(0)

    def _keys_of(self, topic: str) -> Collection[TopicKey]:
        """The keys of a topic that have a value; the values are not kept."""
        return latest_of(self._settings, [topic], lambda _: None).keys()

    def _epochs(self, of_summaries: Iterable[int]) -> Iterator[int]:
        """Every epoch that a reader may have seen."""
        yield greatest_epoch(read_topic(self._settings, self._names.streamer_meta))
        yield from of_summaries
        options = self._settings.redis_options()
        with sync_client(self._settings.redis, options, REDIS_TIMEOUT_SECONDS) as client:
            for key in client.scan_iter(match=self._keys.versions("*"), count=KEYS_AT_ONCE):
                for version in cast("list[bytes]", client.hvals(key)):
                    with suppress(ValueError):
                        yield parse_version(version)[0]

    async def _write(self, epoch: int, places: Sequence[TopicKey]) -> None:
        """The epoch first: if this breaks off, everything published from then on stands above the old."""
        async with producing(self._settings) as producer:
            for key, value in ((EPOCH_KEY, epoch_value(epoch)), (LOG_KEY, uuid.uuid4().hex[:12].encode())):
                await producer.send_and_wait(self._names.streamer_meta, value, key=key, partition=0)
            for start in range(0, len(places), WRITES_AT_ONCE):
                acks = [
                    await producer.send(
                        self._names.topic(place.topic), None, key=place.key, partition=place.partition
                    )
                    for place in places[start : start + WRITES_AT_ONCE]
                ]
                await asyncio.gather(*acks)

    async def _remove_from_redis(self, runs: Iterable[str], epoch: int) -> None:
        """As a worker would, with the news that they are gone."""
        sink = RedisSink.from_settings(self._settings)
        await sink.write([RunUpdate(run_id, summaries=[_deletion(run_id, epoch)]) for run_id in runs])
        await sink.close()
        if sink.unsent:
            raise CannotSwitch("Redis does not take writes: see to it, then rebuild again")


def _deletion(run_id: str, epoch: int) -> SummaryChange:
    return SummaryChange.tombstone(run_id, RUN, epoch, -1)


def _epoch_of(summary: bytes) -> int:
    """The epoch that a summary names; 0 if the value is not a summary."""
    try:
        return int(orjson.loads(summary)["epoch"])
    except (ValueError, KeyError, TypeError):
        return 0
