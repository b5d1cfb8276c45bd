"""Real servers to measure on, and deployments on them: topics, a backlog, workers; when all is current."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import redis
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from benchmarks.embedded_server import NAMESPACE, EmbeddedServer
from benchmarks.machine import SERVERS, on_cores
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.worker.process import ensure_topics, plan
from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import WorkerProcess

PARTITIONS = 8
LOAD_BATCH_BYTES = 256 * 1024
"""Events of a backlog travel in record batches of this size, as the peers' loader sends them."""

POLL_SECONDS = 0.01
READY_SECONDS = 120.0
CURRENT_SECONDS = 1_800.0
LEFT_SECONDS = 60.0
HELD_MS = 600_000

Wanted = dict[str, int]
"""Run to the `state_version` at which it is current: the offset of its last event."""


@dataclass(frozen=True)
class Site:
    """A broker and a Redis, both on the first core."""

    directory: Path
    bootstrap: str
    redis_url: str
    embedded: bool
    broker_pid: int
    redis_pid: int


@contextmanager
def a_site(engine: str = "kafka") -> Iterator[Site]:
    """Start the broker (`kafka` or `embedded`) and a Redis; they end with the block.

    Raises:
        SystemExit: Apache Kafka cannot be started here; says what is missing.
    """
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if engine == "kafka" and missing:
        sys.exit(
            f"Apache Kafka is needed and cannot be started: no {' and no '.join(missing)} on PATH. "
            "Install Java 17 or newer and Maven, or leave the rows out that need it (--only)"
        )
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        directory = Path(folder)
        server = RedisServer(directory)
        kafka = engine == "kafka"
        broker: Any = KafkaServer(directory) if kafka else EmbeddedServer(directory, PARTITIONS)
        try:
            with on_cores(SERVERS):
                server.start()
                broker.start()
            yield Site(directory, broker.bootstrap, server.url, not kafka, broker.child.pid, server.child.pid)
        finally:
            broker.stop()
            server.stop()


@dataclass
class Deployment:
    """A namespace of its own on a site; `more` are further settings of its workers.

    The embedded broker keeps the events of one namespace alone.
    """

    site: Site
    partitions: int = PARTITIONS
    more: dict[str, Any] = field(default_factory=dict)
    namespace: str = ""

    def __post_init__(self) -> None:
        self.namespace = NAMESPACE if self.site.embedded else f"b{uuid.uuid4().hex[:8]}"
        asyncio.run(ensure_topics(self.settings))

    @property
    def names(self) -> Names:
        """Names of the namespace."""
        return Names(self.namespace)

    @property
    def keys(self) -> Keys:
        """Redis keys of the namespace."""
        return Keys(self.namespace)

    @property
    def given(self) -> dict[str, Any]:
        """Settings of the workers."""
        return {
            "bootstrap": self.site.bootstrap,
            "redis": self.site.redis_url,
            "namespace": self.namespace,
            "embedded": self.site.embedded,
            "partitions": self.partitions,
            "session_timeout_seconds": 6,
            **self.more,
        }

    @property
    def settings(self) -> Settings:
        """The same, validated."""
        return Settings.model_validate(self.given)

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.site.embedded:
            asyncio.run(self._delete([topic.name for topic in plan(self.settings)]))

    def load(self, lines: Iterable[bytes]) -> Wanted:
        """Publish events as a backlog, each to the partition of its run."""
        return asyncio.run(self._load(lines))

    @contextmanager
    def holding(self, lines: Iterable[bytes]) -> Iterator[tuple[Wanted, Callable[[], None]]]:
        """Publish a backlog in a transaction: no worker reads it until the function is called."""
        options = {"transactional_id": self.namespace, "transaction_timeout_ms": HELD_MS}
        with asyncio.Runner() as runner:
            producer = runner.run(self._producer(**options))
            runner.run(producer.begin_transaction())
            yield runner.run(self._send(producer, lines)), lambda: runner.run(producer.commit_transaction())
            runner.run(producer.stop())

    def worker(self, *on: int, name: str = "worker") -> WorkerProcess:
        """Start a worker on these cores; it may not be ready yet. The caller ends it."""
        process = WorkerProcess(self.site.directory, self.given, name=f"{self.namespace}-{name}")
        with on_cores(*on):
            return process.start(ready=False)

    def wait_until_current(self, expected: Wanted, *workers: WorkerProcess) -> float:
        """Wait until the summaries of all these runs are in Redis; when that was, Unix seconds."""
        left = list(expected.items())
        deadline = time.monotonic() + CURRENT_SECONDS
        with redis.Redis.from_url(self.site.redis_url) as client:
            while True:
                while left and self._are_current(client, left[-100:]):
                    del left[-100:]
                if not left:
                    return time.time()
                for worker in workers:
                    assert worker.alive, f"a worker ended:\n{worker.output[-4000:]}"
                assert time.monotonic() < deadline, f"{len(left)} runs are not current in {CURRENT_SECONDS} s"
                time.sleep(POLL_SECONDS)

    def forget(self) -> None:
        """Everything but the events is gone, and they are unread again. No worker may run."""
        with redis.Redis.from_url(self.site.redis_url) as client:
            client.flushall()
        asyncio.run(self._forget())

    def _are_current(self, client: Any, runs: list[tuple[str, int]]) -> bool:
        pipe = client.pipeline(transaction=False)
        for run_id, _ in runs:
            pipe.hget(self.keys.versions(run_id), "run")
        result = pipe.execute()
        return all(
            version and int(version.split(b":")[1]) >= expected
            for version, (_, expected) in zip(result, runs, strict=True)
        )

    def keep_all_that_is_written(self) -> None:
        """Compaction off, so that the size of the logs is what was written."""
        asyncio.run(self._configure({"cleanup.policy": "delete", "retention.ms": "-1"}))

    def written_by_topic(self) -> dict[str, int]:
        """Size of the log of each topic but the events', as the broker has it on disk, without namespace."""
        sizes: dict[str, int] = {}
        for log in (self.site.directory / "data").glob(f"{self.namespace}.*/*.log"):
            topic = log.parent.name.rpartition("-")[0]
            if topic != self.names.trial_events:
                short = topic.removeprefix(f"{self.namespace}.")
                sizes[short] = sizes.get(short, 0) + log.stat().st_size
        return sizes

    async def _load(self, lines: Iterable[bytes]) -> Wanted:
        producer = await self._producer()
        wanted = await self._send(producer, lines)
        await producer.stop()
        return wanted

    async def _producer(self, **options: Any) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.site.bootstrap, max_batch_size=LOAD_BATCH_BYTES, linger_ms=0, **options
        )
        await producer.start()
        return producer

    async def _send(self, producer: AIOKafkaProducer, lines: Iterable[bytes]) -> Wanted:
        builders: dict[int, Any] = {}
        acks: dict[int, list[Any]] = {}
        places: dict[str, tuple[int, int]] = {}
        counts = dict.fromkeys(range(self.partitions), 0)
        topic = self.names.trial_events
        for line in lines:
            run_id = orjson.loads(line)["run_id"]
            place, key = partition_of(run_id, self.partitions), run_id.encode()
            builder = builders.get(place) or producer.create_batch()
            if builder.append(key=key, value=line, timestamp=None) is None:
                acks.setdefault(place, []).append(await producer.send_batch(builder, topic, partition=place))
                builder = producer.create_batch()
                builder.append(key=key, value=line, timestamp=None)
            builders[place] = builder
            places[run_id] = (place, counts[place])
            counts[place] += 1
        for place, builder in builders.items():
            acks.setdefault(place, []).append(await producer.send_batch(builder, topic, partition=place))
        first = {p: min([(await ack).offset for ack in sent]) for p, sent in acks.items()}
        return {run_id: first[place] + offset for run_id, (place, offset) in places.items()}

    async def _forget(self) -> None:
        topics = [topic.name for topic in plan(self.settings)]
        await self._delete([topic for topic in topics if topic != self.names.trial_events])
        await ensure_topics(self.settings)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.site.bootstrap, group_id=self.names.group, enable_auto_commit=False
        )
        await consumer.start()
        places = [TopicPartition(self.names.trial_events, number) for number in range(self.partitions)]
        consumer.assign(places)
        deadline = time.monotonic() + LEFT_SECONDS
        while True:
            try:
                await consumer.commit(dict.fromkeys(places, 0))
                break
            except KafkaError:  # until the workers have left the group
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(POLL_SECONDS)
        await consumer.stop()

    async def _delete(self, topics: list[str]) -> None:
        """Delete topics, and wait until the broker lists none of them: it would not create those again."""
        async with _admin(self.site) as admin, asyncio.timeout(30):
            await admin.delete_topics(topics)
            while True:
                if not set(topics) & set(await admin.list_topics()):
                    return
                await asyncio.sleep(0.05)

    async def _configure(self, config: dict[str, str]) -> None:
        async with _admin(self.site) as admin:
            for topic in plan(self.settings):
                resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, topic.config | config)
                await admin.alter_configs([resource])


@asynccontextmanager
async def _admin(site: Site) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def make_topics(site: Site, partitions: int, *topics: str) -> None:
    """Create plain topics."""

    async def make() -> None:
        async with _admin(site) as admin:
            await admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])

    asyncio.run(make())


def ready_at(worker: WorkerProcess) -> float:
    """Wait until the worker has its partitions; when that was, Unix seconds, by its own log."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        for line in worker.output.splitlines():
            if " ready: " in line:
                return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        assert worker.alive, f"the worker ended:\n{worker.output[-4000:]}"
        assert time.monotonic() < deadline, f"not ready within {READY_SECONDS} s:\n{worker.output[-4000:]}"
        time.sleep(POLL_SECONDS)
