"""A deployment under test: brokers, Redis, workers, and the comparison of everything with a plain fold."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
import redis
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.prices import PriceTable
from streamer.folding.slots import SummaryChange
from streamer.operate.health import quarantined
from streamer.operate.verify import Verification
from streamer.schemas.base import decode_id, digest_of, encode_id
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import HASHES, Keys
from streamer.storage.kafka import Names, administering, partition_of
from streamer.storage.log import CONFIGURATION_KEY, PartitionReader, read_topic
from streamer.worker.partition import PREFIX
from tests.support.agreement import Agreement
from tests.support.cli import found_by, streamer
from tests.support.events import a_trial
from tests.support.eventually import WAIT_SECONDS
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.poisoned import POISON

Digests = dict[str, str]

PATIENT_SESSION = 6.0
"""Longer than a busy machine may keep a worker from running."""


def trial_events(count: int, *, runs: int = 6, seed: int = 1, padding: int = 0) -> list[bytes]:
    """Results with re-runs and corrections, and now and then a retraction; `padding` bytes in each."""
    rng = random.Random(seed)
    events = []
    for number in range(count):
        event: dict[str, Any] = {
            "type": "trial_retracted" if number % 97 == 96 else "trial_result",
            "run_id": f"run {number % runs}",
            "task_id": f"task-{number // runs % 700}",
            "attempt": 1 + rng.randrange(2),
            "agent": f"agent-{rng.randrange(3)}",
            "model": "claude-opus-4-5",
            "tier": f"T{rng.randrange(3)}",
            "revision": rng.randrange(3),
        }
        if event["type"] == "trial_result":
            event |= {
                "resolved": rng.random() < 0.6,
                "score": round(rng.random(), 3),
                "cost_usd": round(rng.random(), 5),
                "input_tokens": rng.randrange(10**6),
                "trial_name": "",
                **({"padding": "x" * padding} if padding else {}),
            }
        events.append(orjson.dumps(event))
    return events


def fold(events: Iterable[bytes]) -> Pipeline:
    """A pipeline that has folded them, at offsets from 0 on."""
    pipeline = Pipeline()
    pipeline.fold(Record(value, offset) for offset, value in enumerate(events))
    return pipeline


def summaries_of_fold(events: Iterable[bytes]) -> list[SummaryChange]:
    pipeline = fold(events)
    return [change for run_id in pipeline.runs() for change in pipeline.run(run_id).summaries()]


def folded(events: Iterable[bytes]) -> dict[str, Digests]:
    """Per topic: key to digest, from a fold without any broker."""
    changes = summaries_of_fold(events)
    result: dict[str, Digests] = {topic: {} for topic in KINDS}
    for topic, kind in KINDS.items():
        result[topic] |= {change.key: change.digest for change in changes if change.kind == kind}
    return result


def folded_tasks(events: Iterable[bytes]) -> dict[str, dict[str, str]]:
    """The tasks of each run, likewise."""
    pipeline = fold(events)
    result = {run_id: pipeline.run(run_id).comparisons.tasks() for run_id in pipeline.runs()}
    return {run_id: tasks for run_id, tasks in result.items() if tasks}


SICK = "run 1"
"""One of the six runs of `trial_events`: where a run falls sick, it is this one."""

WHERE = ["score", "cut", "page"]
"""Places where a worker may be poisoned."""


def sick_trial(task: str = POISON, **fields: Any) -> bytes:
    of_it = {"run_id": SICK, "task_id": task, "agent": "a", "model": "m", "cost_usd": 1.0}
    return orjson.dumps(a_trial(**of_it | fields))


def of_run(run_id: str, events: list[bytes]) -> list[bytes]:
    return [event for event in events if orjson.loads(event)["run_id"] == run_id]


def of_runs(wanted: Callable[[str], bool], result: Mapping[str, Digests]) -> dict[str, Digests]:
    """Digests of some of the runs, by topic and key."""
    mine = {key for digests in result.values() for key in digests if wanted(key.split("|")[0])}
    return {topic: {key: digests[key] for key in digests if key in mine} for topic, digests in result.items()}


KINDS = {
    "agent-model-summaries": "agent_model",
    "tier-summaries": "tier",
    "run-summaries": "run",
    "run-comparisons": "comparison",
}


@dataclass
class Deployment:
    """Where everything is, and what has been published so far."""

    directory: Path
    bootstrap: str
    redis_url: str
    namespace: str
    embedded: bool
    partitions: int = 4
    session: float = 3.0
    published: list[bytes] = field(default_factory=list)
    workers: list[WorkerProcess] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_workers()

    @property
    def names(self) -> Names:
        return Names(self.namespace)

    @property
    def keys(self) -> Keys:
        return Keys(self.namespace)

    @property
    def settings(self) -> Settings:
        return Settings(**self._settings())

    def worker(self, **more: Any) -> WorkerProcess:
        """A worker, not started; killed at the end of the test."""
        worker = WorkerProcess(self.directory, self._settings(), name=f"worker-{len(self.workers)}", **more)
        self.workers.append(worker)
        return worker

    def begun(self, events: list[bytes], **more: Any) -> WorkerProcess:
        """A new worker that has published what follows from these events."""
        return self.go_on(self.worker(**more).start(), events)

    def settled(self, events: list[bytes]) -> WorkerProcess:
        """A worker that has published what follows from these events, committed all of them, and ended."""
        worker = self.begun(events)
        self.wait_until_committed(worker)
        assert worker.stop() == 0
        return worker

    def go_on(self, worker: WorkerProcess, events: list[bytes]) -> WorkerProcess:
        """Publish events, and wait until the worker has published what follows from all of them."""
        self.publish(events)
        self.wait_until_equal(worker)
        return worker

    def publish(self, events: list[bytes], place: Callable[[bytes], int] | None = None) -> None:
        """Publish events, each to the partition of its run (or to `place`), and remember them."""
        self.send([(place or self.place)(event) for event in events], events)
        self.published += events

    def send(self, places: list[int], values: list[bytes]) -> None:
        asyncio.run(self._send(list(zip(places, values, strict=True))))

    def send_to(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record to one of our topics, as somebody else."""
        asyncio.run(self._send_to(self.names.topic(topic), partition, key, value))

    def wait_until_committed(self, worker: WorkerProcess) -> None:
        worker.wait_until(lambda: self.committed() == len(self.published), "all offsets are committed")

    def wait_until_equal(self, worker: WorkerProcess | None = None, seconds: float = WAIT_SECONDS) -> None:
        """Wait until topics and Redis say what a fold says."""
        expected = folded(self.published)
        wait = worker.wait_until if worker else wait_for
        tasks = folded_tasks(self.published)
        in_redis = lambda: Agreement("Redis", self.in_redis(expected), "fold", expected)  # noqa: E731
        in_topics = lambda: Agreement("topics", self.in_topics(), "fold", expected)  # noqa: E731
        tasks_in_redis = lambda: Agreement("Redis", self.tasks_in_redis(), "fold", tasks)  # noqa: E731
        wait(in_redis, "Redis equals the fold", seconds)
        wait(in_topics, "the topics equal the fold", seconds)  # written beside it
        wait(tasks_in_redis, "tasks equal the fold", seconds)

    def in_redis(self, expected: dict[str, Digests]) -> dict[str, Digests]:
        """What Redis says about the groups that a fold knows, digests recomputed."""
        with redis.Redis.from_url(self.redis_url) as client:
            result: dict[str, Digests] = {}
            for topic, kind in KINDS.items():
                keys = list(expected[topic])
                values = client.mget([redis_key(self.keys, kind, key) for key in keys]) if keys else []
                result[topic] = {k: checked_digest(v) for k, v in zip(keys, values, strict=True) if v}
            return result

    def tasks_in_redis(self) -> dict[str, dict[str, str]]:
        """The tasks of every run that is published."""
        with redis.Redis.from_url(self.redis_url, decode_responses=True) as client:
            runs = map(decode_id, client.zrange(self.keys.runs, 0, -1))
            result = {run_id: client.hgetall(self.keys.tasks(run_id)) for run_id in runs}
            return {run_id: tasks for run_id, tasks in result.items() if tasks}

    def in_topics(self) -> dict[str, Digests]:
        """Latest digest of each key in the public topics, recomputed."""
        latest = {topic: self.latest(topic) for topic in KINDS}
        return {topic: {key: checked_digest(v) for key, v in rows.items()} for topic, rows in latest.items()}

    def redis_keys(self, run_id: str) -> set[str]:
        """Suffixes of the keys that Redis has of a run."""
        prefix = self.keys.of_run(run_id, "")
        with redis.Redis.from_url(self.redis_url) as client:
            return {key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*")}

    def latest(self, topic: str) -> dict[str, bytes]:
        """Last value of each key of a topic; tombstoned keys left out.

        A run that moved to another partition has its tombstones in the one and its values in the other, and
        partitions are read in any order.
        """
        result: dict[tuple[int, str], bytes | None] = {}
        for record in self.records(topic):
            result[record.partition, record.key.decode()] = record.value
        return {key: value for (_, key), value in result.items() if value is not None}

    def records(self, topic: str) -> list[Any]:
        """Every record of a topic; of the changelog, those that are pages."""
        records = read_topic(self.settings, self.names.topic(topic))
        return [record for record in records if not (record.key or b"").startswith(PREFIX.encode())]

    def outcomes(self) -> set[str]:
        """What `streamer verify --all --topics` says of the runs."""
        verification = Verification(self.settings, prices=PriceTable.default(), wait_seconds=30, topics=True)
        return {verdict.outcome for verdict in verification.verify(None)}

    def rejections(self) -> list[dict[str, Any]]:
        return [orjson.loads(record.value) for record in self.records("trial-rejections")]

    def cli(self, *arguments: str, environment: Mapping[str, str] = {}) -> subprocess.CompletedProcess[bytes]:
        return streamer(*arguments, environment=found_by(self.settings) | dict(environment))

    def faulty(self, fault: str, **environment: str) -> WorkerProcess:
        """A worker with a fault (see `tests.worker.faulty`)."""
        return self.worker(module="tests.worker.faulty", environment={"FAULT": fault, **environment})

    def poisoned(self, place: str) -> WorkerProcess:
        return self.worker(module="tests.worker.poisoned", environment={"POISON": place})

    def summaries_of(self, run_id: str) -> list[dict[str, Any]]:
        return [orjson.loads(value) for value in self.values_of(run_id)[0].values()]

    def degraded(self, run_id: str) -> bool:
        result = self.summaries_of(run_id)
        return bool(result) and all(summary["degraded"] for summary in result)

    def in_quarantine(self) -> dict[str, str]:
        """Runs in quarantine and why, as the workers' heartbeats say."""
        with StateReader(self.settings) as reader:
            return quarantined(reader)

    def owners(self) -> list[str]:
        with StateReader(self.settings) as reader:
            return [worker.worker_id for worker in reader.workers() if worker.status["partitions"]]

    def others_are_current(self) -> bool:
        """True if topics and Redis say of all runs but the sick one what a fold says."""
        expected = of_runs(SICK.__ne__, folded(self.published))
        return expected == of_runs(SICK.__ne__, self.in_topics()) == self.in_redis(expected)

    def wait_until_apart(self, worker: WorkerProcess) -> None:
        """Wait until the sick run is in quarantine, and nothing else is."""
        worker.wait_until(lambda: SICK in self.in_quarantine(), "it is set apart")
        worker.wait_until(self.others_are_current, "all other runs are current")
        worker.wait_until(lambda: self.degraded(SICK), "its last good summaries stand and say so")

    def fall_sick(self, place: str) -> tuple[WorkerProcess, list[bytes]]:
        """A worker with six runs, one of which fell sick; and that one's events before."""
        events = trial_events(300)
        worker = self.go_on(self.poisoned(place).start(), events)
        self.publish([sick_trial(), *trial_events(600)[300:]])
        self.wait_until_apart(worker)
        return worker, of_run(SICK, events)

    def values_of(self, run_id: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """The run's summaries in the topics and in Redis, as bytes, by their Redis keys."""
        in_topics = {
            redis_key(self.keys, kind, key): value
            for topic, kind in KINDS.items()
            for key, value in self.latest(topic).items()
            if key.split("|")[0] == encode_id(run_id)
        }
        with redis.Redis.from_url(self.redis_url) as client:
            versions = client.hkeys(self.keys.versions(run_id))
            suffixes = {field.decode() for field in versions}.difference(HASHES)
            result = {key: client.get(key) for key in (self.keys.of_run(run_id, one) for one in suffixes)}
        return in_topics, {key: value for key, value in result.items() if value is not None}

    def same_bytes(self, run_id: str) -> Agreement:
        """Whether topics and Redis hold the same summaries of the run, byte for byte."""
        in_topics, in_redis = self.values_of(run_id)
        assert in_topics, "it has been published"
        return Agreement("topics", in_topics, "Redis", in_redis)

    def make_current(self, configuration: str) -> None:
        """Make a configuration the group's, as `streamer config adopt` does."""
        self.send_to("streamer-meta", 0, CONFIGURATION_KEY, configuration.encode())

    def committed(self) -> int:
        """Sum of the group's committed offsets of the event topic."""
        return asyncio.run(self._committed())

    def configure(self, topic: str, **config: object) -> None:
        """Set a topic's configuration, underscores for dots."""
        values = {name.replace("_", "."): str(value) for name, value in config.items()}
        change = ConfigResource(ConfigResourceType.TOPIC, self.names.topic(topic), values)
        self._administer(lambda admin: admin.alter_configs([change]))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of each partition of a topic that lie before an offset; -1 is the end."""
        name = self.names.topic(topic)
        cuts = {TopicPartition(name, number): RecordsToDelete(offset) for number, offset in before.items()}
        self._administer(lambda admin: admin.delete_records(cuts))

    def delete_topics(self, *topics: str) -> None:
        """Delete these topics, or all of the namespace, and wait for that."""
        beginnings = tuple(map(self.names.topic, topics or ("",)))

        async def work(admin: Any) -> None:
            listed = lambda names: [name for name in names if name.startswith(beginnings)]  # noqa: E731
            await admin.delete_topics(listed(await admin.list_topics()))
            async with asyncio.timeout(30):
                while listed(await admin.list_topics()):
                    await asyncio.sleep(0.05)

        self._administer(work)

    def empty_redis(self) -> None:
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()

    def kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

    def place(self, event: bytes) -> int:
        return partition_of(orjson.loads(event)["run_id"], self.partitions)

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap": self.bootstrap,
            "redis": self.redis_url,
            "namespace": self.namespace,
            "embedded": self.embedded,
            "partitions": self.partitions,
            "session_timeout_seconds": self.session,
        }

    async def _send(self, records: list[tuple[int, bytes]]) -> None:
        options: Any = {"bootstrap_servers": self.bootstrap, "max_request_size": 4 * 1024 * 1024}
        async with AIOKafkaProducer(**options) as producer:
            topic = self.names.trial_events
            acks = [await producer.send(topic, value, partition=place) for place, value in records]
            await asyncio.gather(*acks)

    async def _send_to(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            await producer.send_and_wait(topic, value, key=key, partition=partition)

    async def _committed(self) -> int:
        places = [(self.names.trial_events, number) for number in range(self.partitions)]
        async with PartitionReader(self.settings, places, group=self.names.group) as reader:
            return sum(offset or 0 for offset in (await reader.committed()).values())

    def _administer(self, work: Callable[[Any], Awaitable[Any]]) -> None:
        async def administer() -> None:
            async with administering(self.settings) as admin:
                await work(admin)

        asyncio.run(administer())


def checked_digest(value: bytes) -> str:
    """The digest in a summary, which must be the digest of the summary it stands in."""
    summary = orjson.loads(value)
    assert summary["digest"] == digest_of(summary)
    return str(summary["digest"])


def redis_key(keys: Keys, kind: str, key: str) -> str:
    """Redis key of a summary from its topic key: the parts behind the run are encoded alike in both."""
    run, *rest = key.split("|")
    if kind == "comparison":
        return keys.comparisons(decode_id(run))
    return keys.of_run(decode_id(run), ":".join([kind, *rest]))
