"""Whether a deployment is well: broker, topics, Redis, workers, lag; and what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from streamer.client.reader import StateReader
from streamer.client.results import ReaderError, WorkerStatus
from streamer.kafka.errors import KafkaError, TopicMissing, broker_problem, is_away
from streamer.kafka.names import Names
from streamer.kafka.partitions import ours, read_partition_counts, what_differs
from streamer.kafka.retention import read_retention, what_is_finite
from streamer.ops.lag import PartitionLag, read_lags
from streamer.redis.connect import address, sync_client
from streamer.redis.keys import Keys
from streamer.schemas.topics import TOPICS
from streamer.settings import Settings

REDIS_SECONDS = 5.0

BROKER_AWAY = (KafkaError, OSError, TimeoutError)


@dataclass(slots=True)
class DeploymentHealth:
    """The findings about a deployment.

    Attributes:
        broker: address of the broker.
        broker_answers: whether it did.
        topics: partition count of each of our topics that exists.
        redis: host and port of Redis.
        redis_answers: whether it did.
        workers: last heartbeat of each, the dead included until Redis forgets them.
        partitions: of the event topic.
        problems: a sentence for each thing that is wrong.
    """

    broker: str
    redis: str
    broker_answers: bool = False
    redis_answers: bool = False
    topics: dict[str, int] = field(default_factory=dict)
    workers: list[WorkerStatus] = field(default_factory=list)
    partitions: list[PartitionLag] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def live_workers(self, now: datetime) -> list[WorkerStatus]:
        """The workers with a recent heartbeat."""
        return [worker for worker in self.workers if not worker.stale(now)]

    def as_json(self, now: datetime) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "broker": {"address": self.broker, "answers": self.broker_answers, "topics": self.topics},
            "redis": {"address": self.redis, "answers": self.redis_answers},
            "workers": [
                {"id": w.worker_id, "at": w.at.isoformat(), "live": not w.stale(now), **w.status}
                for w in self.workers
            ],
            "partitions": [asdict(p) | {"lag": p.lag} for p in self.partitions],
            "problems": self.problems,
        }


def read_health(settings: Settings, now: datetime | None = None) -> DeploymentHealth:
    """Ask everybody; never raises for what is away: that is a problem in the answer."""
    now = now or datetime.now(UTC)
    health = DeploymentHealth(settings.bootstrap, address(settings.redis))
    _ask_broker(settings, health)
    _ask_redis(settings, health)
    if health.redis_answers and health.partitions:
        health.problems += _worker_problems(health, now)
    return health


def _ask_broker(settings: Settings, health: DeploymentHealth) -> None:
    names = Names(settings.namespace)
    try:
        existing = asyncio.run(read_partition_counts(settings))
        health.broker_answers = True
        health.topics = {n: existing[n] for t in TOPICS if (n := names.topic(t.name)) in existing}
        health.problems += _topic_problems(health.topics, names)
        health.partitions = asyncio.run(read_lags(settings))
        finite = what_is_finite(names.trial_events, asyncio.run(read_retention(settings)))
        health.problems += [finite] if finite else []
    except TopicMissing:
        pass  # is among the problems already
    except BROKER_AWAY as error:
        health.problems.append(_broker_problem(error, settings.bootstrap))


def _ask_redis(settings: Settings, health: DeploymentHealth) -> None:
    try:
        with StateReader(settings) as reader:
            health.workers = reader.workers()
        health.redis_answers = True
        with sync_client(settings.redis, settings.redis_options(), REDIS_SECONDS) as client:
            problem = client.get(Keys(settings.namespace).stack_problem)
        if isinstance(problem, bytes):
            health.problems.append(problem.decode())
    except ReaderError as error:
        health.problems.append(str(error))


def _topic_problems(found: Mapping[str, int], names: Names) -> list[str]:
    wanted = [names.topic(topic.name) for topic in TOPICS]
    missing = [topic for topic in wanted if topic not in found]
    if len(missing) == len(wanted):
        return ["none of our topics exists: a worker creates them when it starts (or see --namespace)"]
    wrong = what_differs(ours(found, names))
    return [
        *(f"topic {topic!r} is missing: a worker creates it when it starts" for topic in missing),
        *([wrong] if wrong else []),
    ]


def _worker_problems(health: DeploymentHealth, now: datetime) -> list[str]:
    live = health.live_workers(now)
    if not live:
        lag = sum(partition.lag for partition in health.partitions)
        return [f"no worker is running ({lag:,} events wait): start one with `streamer worker`"]
    owned = {number for worker in live for number in worker.status.get("partitions", ())}
    orphaned = [p.partition for p in health.partitions if p.partition not in owned]
    problems = [f"no worker owns partitions {orphaned} (yet)"] if orphaned else []
    for worker in live:
        problems += _quarantine_problems(worker)
        if why := worker.status.get("waits"):
            problems.append(f"worker {worker.worker_id} {why}")
        if unsent := worker.status.get("unsent"):
            problems.append(f"worker {worker.worker_id} has {unsent:,} keys that Redis does not have yet")
        problems += worker.status.get("log_faults", ())
    return problems


def _quarantine_problems(worker: WorkerStatus) -> list[str]:
    told = worker.status.get("quarantined", {})
    problems = [
        f"run {run!r} is in quarantine ({reason}): its last good summaries stand, its newer events are not "
        "counted. Fold it again with `streamer runs repair RUN`, after an upgrade perhaps, or delete it"
        for run, reason in told.items()
    ]
    if (more := worker.status.get("quarantined_runs", 0) - len(told)) > 0:
        problems.append(f"{more:,} more runs of worker {worker.worker_id} are in quarantine")
    return problems


def _broker_problem(error: Exception, bootstrap: str) -> str:
    if is_away(error):
        return broker_problem(error, bootstrap)
    return f"the broker at {bootstrap} does not answer: {_said(error)}"


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
