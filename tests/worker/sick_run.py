"""A run that falls sick among healthy ones, and what topics, Redis and workers say of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import orjson
import redis

from streamer.client.readers import StateReader
from streamer.operate.health import quarantined
from streamer.schemas.base import encode_id
from streamer.storage.entries import HASHES
from tests.support.agreement import Agreement
from tests.support.cli import streamer
from tests.support.worker_process import WorkerProcess
from tests.worker.deployment import KINDS, Deployment, folded, redis_key, trial_events
from tests.worker.poisoned import POISON

SICK = "run 1"
"""One of the six runs of `trial_events`."""

EVERYWHERE = ["score", "cut", "page"]


def sick_trial(task: str = POISON, **fields: Any) -> bytes:
    """A trial of the run that gets sick."""
    event = {"type": "trial_result", "run_id": SICK, "task_id": task, "agent": "a", "model": "m"}
    return orjson.dumps(event | {"resolved": True, "cost_usd": 1.0} | fields)


def of_run(run_id: str, events: list[bytes]) -> list[bytes]:
    """The events of one run."""
    return [event for event in events if orjson.loads(event)["run_id"] == run_id]


def without(run_id: str, result: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Digests of all other runs, by topic and key."""
    mine = encode_id(run_id)
    return {
        topic: {key: digest for key, digest in digests.items() if key.split("|")[0] != mine}
        for topic, digests in result.items()
    }


def poisoned(deployment: Deployment, place: str) -> WorkerProcess:
    """A worker that fails at the poison, at that place."""
    return deployment.worker(module="tests.worker.poisoned", environment={"POISON": place})


def summaries_of(deployment: Deployment, run_id: str) -> list[dict[str, Any]]:
    """The run's summaries in the topics."""
    mine = encode_id(run_id)
    return [
        orjson.loads(value)
        for topic in KINDS
        for key, value in deployment.latest(topic).items()
        if key.split("|")[0] == mine
    ]


def run_cli(
    deployment: Deployment, *arguments: str, environment: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[bytes]:
    """A command against the deployment."""
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    settings = {f"STREAMER_{name.upper()}": str(getattr(deployment.settings, name)) for name in names}
    return streamer(*arguments, environment=settings | dict(environment))


def degraded(deployment: Deployment, run_id: str) -> bool:
    """True if every summary of the run says that it is degraded."""
    result = summaries_of(deployment, run_id)
    return bool(result) and all(summary["degraded"] for summary in result)


def in_quarantine(deployment: Deployment) -> dict[str, str]:
    """Runs in quarantine and why, as the workers' heartbeats say."""
    with StateReader(deployment.settings) as reader:
        return quarantined(reader)


def owners(deployment: Deployment) -> list[str]:
    """Workers that have partitions."""
    with StateReader(deployment.settings) as reader:
        return [worker.worker_id for worker in reader.workers() if worker.status["partitions"]]


def others_are_current(deployment: Deployment) -> bool:
    """True if topics and Redis say of all other runs what a fold says."""
    expected = without(SICK, folded(deployment.published))
    return expected == without(SICK, deployment.in_topics()) == deployment.in_redis(expected)


def wait_until_apart(deployment: Deployment, worker: WorkerProcess) -> None:
    """Wait until the sick run is in quarantine, and nothing else is."""
    worker.wait_until(lambda: SICK in in_quarantine(deployment), "it is set apart")
    worker.wait_until(lambda: others_are_current(deployment), "all other runs are current")
    worker.wait_until(lambda: degraded(deployment, SICK), "its last good summaries stand and say so")


def fall_sick(deployment: Deployment, place: str) -> tuple[WorkerProcess, list[bytes]]:
    """A worker with six runs, one of which fell sick; and that one's events before."""
    worker = poisoned(deployment, place).start()
    events = trial_events(300)
    deployment.publish(events)
    deployment.wait_until_equal(worker)
    deployment.publish([sick_trial(), *trial_events(600)[300:]])
    wait_until_apart(deployment, worker)
    return worker, of_run(SICK, events)


def values(deployment: Deployment, run_id: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The run's summaries in the topics and in Redis, as bytes, by their Redis keys."""
    mine, keys = encode_id(run_id), deployment.keys
    in_topics = {
        redis_key(keys, kind, key): value
        for topic, kind in KINDS.items()
        for key, value in deployment.latest(topic).items()
        if key.split("|")[0] == mine
    }
    with redis.Redis.from_url(deployment.redis_url) as client:
        suffixes = {field.decode() for field in client.hkeys(keys.versions(run_id))}.difference(HASHES)
        result = {key: client.get(key) for key in (keys.of_run(run_id, suffix) for suffix in suffixes)}
    return in_topics, {key: value for key, value in result.items() if value is not None}


def same_bytes(deployment: Deployment, run_id: str) -> Agreement:
    """Whether topics and Redis hold the same summaries of the run, byte for byte."""
    in_topics, in_redis = values(deployment, run_id)
    assert in_topics, "it has been published"
    return Agreement("topics", in_topics, "Redis", in_redis)
