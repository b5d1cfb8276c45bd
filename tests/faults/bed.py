"""Everything under test and everything that watches it, put together."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streamer.schemas.base import encode_id
from streamer.settings import Settings
from streamer.storage.entries import Keys
from streamer.storage.kafka import Names, partition_of
from streamer.storage.outbox import LoopThread
from streamer.worker.process import COMPACTED, ensure_topics, plan
from tests.faults.fleet import Fleet
from tests.faults.proxy import Link
from tests.faults.publisher import Publisher
from tests.faults.servers import Embedded, Kafka, LinkedRedis
from tests.faults.stacked import Stacked
from tests.faults.traffic import Message, Traffic
from tests.faults.watch import RedisWatch, TopicWatch
from tests.support.polling import Poller
from tests.support.worker_process import wait_for

ENGINES = ("kafka", "kafka3", "embedded", "up")
PARTITIONS = 4
SESSION_SECONDS = 3.0
"""Of the workers: short, so that being taken for dead is soon."""

EMBEDDED_SESSION_SECONDS = 6.0
ROCKSDB = importlib.util.find_spec("rocksdict") is not None
CURRENT_SECONDS = 150.0
"""Until all summaries have to be current again: generous, the machine may be slow."""

ATOMIC_PAUSE_SECONDS = 0.05
"""Between two runs that the atomic reader looks at: all day long, beside everything else."""

COMPACTED_OFTEN = COMPACTED | {"segment.ms": "15000"}
"""Of all compacted topics: an hour of production's compaction in a minute, so that recoveries stay short."""


class NotCurrent(AssertionError):
    """Summaries did not become current again in time: the message says which and shows the workers' logs."""


class Bed:
    """Servers, workers, publisher, watchers.

    Attributes:
        extra: further messages to be published along, real data for example.
        poison: values published that must be rejected.
        generation: of the log; it grows when another broker loads the log from a journal.
        loads_again: whether that can happen here.
        quarantined: runs in quarantine on purpose; nothing is said of them meanwhile.
        atomic: reads every run as one throughout, by its keys and by StateReader.

    Args:
        engine: one of :data:`ENGINES`; "up" is for `tests.faults.stacked`.
        directory: an empty folder.
        workers: how many run when nothing happens to them; the last link is for an added one.
        module: what the workers run.
    """

    loads_again = False

    def __init__(
        self,
        engine: str,
        directory: Path,
        *,
        seed: int,
        workers: int = 2,
        module: str = "streamer.worker",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.engine, self.directory = engine, directory
        self.generation = 0
        self.rng = random.Random(seed)
        self.threads = LoopThread("faults")
        self._make_servers()
        self.names, self.keys = Names("faults"), Keys("faults")
        self.settings = Settings(
            **self._common(), bootstrap=self.kafka.bootstrap, redis=self.redis_url, log_level="INFO"
        )
        self.traffic = Traffic(seed, PARTITIONS)
        self.extra: list[Message] = []
        self.poison_serial = itertools.count(1)
        self.poison: set[bytes] = set()
        self.quarantined: set[str] = set()
        self.publisher = Publisher(self.threads, self.kafka.bootstrap, self.names.trial_events, self._more)
        self.publisher.idempotent = not self.kafka.embedded
        self.topics = TopicWatch(self.threads, self.settings)
        self.in_redis = RedisWatch(self.redis_url, self.keys, self.traffic.runs)
        self.atomic = Poller(
            self.redis_url,
            self.traffic.runs,
            self.names.namespace,
            tiered=False,
            pause_seconds=ATOMIC_PAUSE_SECONDS,
        )
        self.fleet = Fleet(directory, self.settings_of, module, environment)
        self.crew = list(range(workers))

    def __enter__(self) -> Bed:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for end in (
            self.fleet.stop,
            self.publisher.stop,
            self.topics.stop,
            self.in_redis.stop,
            self.atomic.stop,
            *self._ends_of_servers(),
            self.threads.stop,
        ):
            try:
                end()
            except Exception as error:
                print(f"ending: {end.__qualname__}: {type(error).__name__}: {error}", flush=True)

    @property
    def redis_url(self) -> str:
        """Where readers find Redis."""
        return self.redis.server.url

    @property
    def session_seconds(self) -> float:
        """Session timeout of the workers."""
        return EMBEDDED_SESSION_SECONDS if self.kafka.embedded else SESSION_SECONDS

    def settings_of(self, worker: int) -> dict[str, Any]:
        """A worker's settings: its own ways to Kafka and to Redis; every second one keeps tables on disk."""
        where = {"bootstrap": self.kafka.bootstrap_of(worker), "redis": self.redis.url_of(worker)}
        on_disk = {"store": "rocksdb", "data_dir": self.directory / f"data-{worker}"}
        return self._common() | where | (on_disk if worker % 2 and ROCKSDB else {})

    def links(self, worker: int) -> list[Link]:
        """All of a worker's links."""
        return [*self.kafka.links_of(worker), self.redis.links[worker]]

    def burst(self, count: int = 200) -> None:
        """Publish many events at once, so that some are in flight for sure."""
        self.publisher.send([*self.traffic.events(count), *self._some_extra(20)])

    def in_flight(self) -> int:
        """Events that were sent and are in no published summary yet."""
        seen = dict.fromkeys(range(PARTITIONS), -1)
        for run in self.traffic.runs:
            number = partition_of(run, PARTITIONS)
            seen[number] = max(seen[number], self.topics.version(encode_id(run)))
        ends = self.publisher.ends
        behind = sum(max(0, ends.get(number, -1) - version) for number, version in seen.items())
        return behind + self.publisher.unacknowledged

    def wait_for_flight(self, seconds: float = 5.0) -> int:
        """Wait until events are in flight; how many are."""
        try:
            wait_for(lambda: self.in_flight() > 0, "events are in flight", seconds)
        except AssertionError:
            return 0
        return self.in_flight()

    def wait_current(self, what: str, seconds: float = CURRENT_SECONDS) -> None:
        """Publish one more result per run; wait until topics and Redis have seen it, and all before it.

        Runs that are set apart are not waited for.

        Raises:
            NotCurrent: they did not in time.
        """
        probes = self.traffic.probes()
        offsets = dict(zip(probes, self.publisher.send_and_wait(list(probes.values())), strict=True))

        def behind() -> list[str]:
            return [
                f"{run} in {where}"
                for run, offset in offsets.items()
                if run not in self.quarantined
                for where, version in (
                    ("topics", self.topics.version(encode_id(run))),
                    ("Redis", self.in_redis.version(run)),
                )
                if version < offset
            ]

        try:
            wait_for(lambda: not behind(), what, seconds)
        except AssertionError:
            raise NotCurrent(
                f"{what}: not current within {seconds:g} s: {behind()}\n{self._logs()}"
            ) from None

    def end_of(self, topic: str, partition: int) -> int:
        """Offset after the last record of a partition."""
        return asyncio.run(self._end_of(TopicPartition(topic, partition)))

    def admin(self, work: Callable[[AIOKafkaAdminClient], Any]) -> Any:
        """Do something with an admin client."""
        return asyncio.run(self._admin(work))

    def configure(self, topic: str, config: dict[str, str]) -> None:
        """Set a topic's configuration; what is not named goes back to its default."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, config)
        self.admin(lambda client: client.alter_configs([resource]))

    async def _end_of(self, place: TopicPartition) -> int:
        async with AIOKafkaConsumer(bootstrap_servers=self.kafka.bootstrap.split(",")) as consumer:
            return int((await consumer.end_offsets([place]))[place])

    async def _admin(self, work: Callable[[AIOKafkaAdminClient], Any]) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka.bootstrap.split(","))
        try:
            await admin.start()
            return await work(admin)
        finally:
            await admin.close()

    def _start(self) -> None:
        self._start_servers()
        self.topics.start()
        self.in_redis.start()
        self.atomic.start()
        self.publisher.start()
        self.burst()
        self.wait_current("at the start")

    def _make_servers(self) -> None:
        self.kafka: Kafka | Embedded | Stacked
        if self.engine == "embedded":
            self.kafka = Embedded(self.directory)
        else:
            self.kafka = Kafka(self.directory, self.threads, 3 if self.engine == "kafka3" else 1)
        (self.directory / "redis").mkdir()
        self.redis = LinkedRedis(self.directory / "redis", self.threads)

    def _ends_of_servers(self) -> list[Callable[[], None]]:
        return [self.kafka.stop, self.redis.stop]

    def _start_servers(self) -> None:
        self.kafka.start()
        self.redis.server.start()
        asyncio.run(ensure_topics(self.settings))
        for topic in () if self.kafka.embedded else plan(self.settings):
            if "compact" in topic.config.values():
                self.configure(topic.name, COMPACTED_OFTEN)
        for number in self.crew:
            self.fleet.start(number)
        self.fleet.supervise()

    def _logs(self) -> str:
        return "\n".join(f"worker {n}:\n{self.fleet.log(n)[-1500:]}" for n in self.fleet.numbers())

    def _more(self, count: int) -> list[Message]:
        return self.traffic.events(count)

    def _some_extra(self, count: int) -> list[Message]:
        taken, self.extra = self.extra[:count], self.extra[count:]
        return taken

    def _common(self) -> dict[str, Any]:
        return {
            "namespace": "faults",
            "embedded": self.kafka.embedded,
            "partitions": PARTITIONS,
            "replication": self.kafka.replication,
            "session_timeout_seconds": self.session_seconds,
        }
