"""Readers that watch everything throughout: all topics, and every run in Redis.

They do what readers are told to do: a value with a lower (epoch, state_version) than one seen is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from typing import Any

import orjson
import redis
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import MAX_MESSAGE_BYTES, Names
from streamer.storage.log import AIOKafkaConsumer
from streamer.storage.outbox import LoopThread

POLL_MS = 100
REDIS_POLL_SECONDS = 0.1
RETRY_SECONDS = 0.3

Version = tuple[int, int]


def version_of(value: bytes) -> Version:
    """(epoch, state_version) of a summary."""
    summary = orjson.loads(value)
    return int(summary["epoch"]), int(summary["state_version"])


class TopicWatch:
    """Reads all topics from their beginning for as long as it runs.

    Attributes:
        events: records of the event topic that nobody has taken yet.
        rejected: (partition, offset) of each source record -> how often it was rejected.
        quarantined: likewise of events that set their run apart: these are no rejections of the fold.
        latest: topic -> key -> last value; tombstoned keys are left out.
        versions: greatest version seen of each summary, by topic and key.
        positions: offset after the last record read, by topic and partition.
        older: summaries that came with a lower version than one before them, for readers to drop.
    """

    def __init__(self, threads: LoopThread, settings: Settings) -> None:
        self._threads, self._settings = threads, settings
        self._names = names = Names(settings.namespace)
        self._summaries = {names.agent_model_summaries, names.tier_summaries, names.run_summaries}
        self._kept = {*self._summaries, names.scored_trials}
        self.events: list[Any] = []
        self.rejected: Counter[tuple[int, int]] = Counter()
        self.quarantined: Counter[tuple[int, int]] = Counter()
        self.latest: dict[str, dict[str, bytes]] = {topic: {} for topic in self._kept}
        self.versions: dict[tuple[str, str], Version] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.older = 0
        self._stopped = False

    def start(self) -> None:
        """Begin."""
        self._running = self._threads.submit(self._run())

    def stop(self) -> None:
        """End."""
        self._stopped = True
        self._running.result(60)

    def version(self, run_key: str) -> int:
        """Greatest state_version seen of a run's summary, -1 if none."""
        return self.versions.get((self._names.run_summaries, run_key), (0, -1))[1]

    async def _run(self) -> None:
        while not self._stopped:
            consumer = AIOKafkaConsumer(
                **self._settings.kafka_options(),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=POLL_MS,
                max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
            )
            try:
                await consumer.start()
                await self._read(consumer)
            except (KafkaError, OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(consumer.stop(), 10)

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        topics = [self._names.trial_events, self._names.trial_rejections, *self._kept]
        places = [TopicPartition(topic, n) for topic in topics for n in range(self._settings.partitions)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, self.positions.get((place.topic, place.partition), 0))
        while not self._stopped:
            for place, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                for record in records:
                    self._take(record)
                self.positions[place.topic, place.partition] = records[-1].offset + 1

    def _take(self, record: Any) -> None:
        if record.topic == self._names.trial_events:
            self.events.append(record)
        elif record.topic == self._names.trial_rejections:
            rejection = orjson.loads(record.value)
            quarantined = rejection["code"] == "quarantined"
            counted = self.quarantined if quarantined else self.rejected
            counted[rejection["source_partition"], rejection["source_offset"]] += 1
        else:
            self._keep(record.topic, record.key.decode(), record.value)

    def _keep(self, topic: str, key: str, value: bytes | None) -> None:
        if value is None:
            self.latest[topic].pop(key, None)
            return
        self.latest[topic][key] = value
        if topic in self._summaries:
            version = version_of(value)
            if version < self.versions.get((topic, key), version):
                self.older += 1
            else:
                self.versions[topic, key] = version


class RedisWatch:
    """Polls the summary of every run, as a reader without any memory would.

    Attributes:
        versions: greatest version seen of each run.
        backwards: what went down: run, from, to.
        forgiving: true while an older copy of Redis' data is brought back on purpose.
        since_epoch: summaries of earlier epochs are as good as none.
    """

    def __init__(self, url: str, keys: Keys, runs: list[str]) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
        self._keys = {run: keys.run(run) for run in runs}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-watch", daemon=True)
        self._last: dict[str, Version] = {}
        self.versions: dict[str, Version] = {}
        self.backwards: list[tuple[str, Version, Version]] = []
        self.forgiving = False
        self.since_epoch = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self._thread.join(10)
        self._client.close()

    def version(self, run: str) -> int:
        """Greatest state_version seen of a run, -1 if none."""
        epoch, version = self.versions.get(run, (0, -1))
        return version if epoch >= self.since_epoch else -1

    def _run(self) -> None:
        while not self._stopped.wait(REDIS_POLL_SECONDS):
            forgiving = self.forgiving
            try:
                values: Any = self._client.mget(list(self._keys.values()))
            except redis.RedisError:
                continue
            for run, value in zip(self._keys, values, strict=True):
                if value is not None:
                    self._see(run, version_of(value), forgiving)

    def _see(self, run: str, version: Version, forgiving: bool) -> None:
        seen = self.versions.get(run, version)
        if version < seen and version != self._last.get(run) and not forgiving:
            self.backwards.append((run, seen, version))
        self._last[run] = version
        self.versions[run] = version if forgiving else max(seen, version)
