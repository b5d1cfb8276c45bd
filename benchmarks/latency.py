"""From publishing an event to its summary in Redis, at a steady trickle; and the bytes that it costs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from redis.asyncio import Redis

from benchmarks.common import Scale, events
from benchmarks.machine import WORKERS, cpu_seconds
from benchmarks.rows import Measured, Row, Sites
from benchmarks.site import Deployment, Site, ready_at
from streamer.storage.kafka import partition_of
from tests.support.worker_process import WorkerProcess

P50_MS, P99_MS = 500.0, 1_200.0
WARM_UP_SHARE = 0.2
"""The first events of each turn that do not count."""

ARRIVE_SECONDS = 60.0


@dataclass
class Trickle:
    """Events under way; times are of the monotonic clock, in seconds.

    An event is readable when Redis has announced a summary of its run that has folded its offset: the
    announcement follows the values in the same script.
    """

    sent: dict[tuple[str, int], float] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    taken: list[tuple[float, float]] = field(default_factory=list)
    """When it was sent, how long it took."""

    def acknowledged(self, run_id: str, offset: int, at: float) -> None:
        """The broker has an event that was sent at that time; its summary may be there already."""
        self.sent[run_id, offset] = at
        self.waiting.setdefault(run_id, []).append(offset)
        if run_id in self.seen:
            self._settle(run_id, *self.seen[run_id])

    def announced(self, run_id: str, version: int, at: float) -> None:
        """Redis has a summary of the run with this state_version."""
        self.seen[run_id] = (version, at)
        self._settle(run_id, version, at)

    def _settle(self, run_id: str, version: int, at: float) -> None:
        waiting = self.waiting.get(run_id, [])
        for offset in [offset for offset in waiting if offset <= version]:
            waiting.remove(offset)
            began = self.sent.pop((run_id, offset))
            self.taken.append((began, at - began))

    def milliseconds(self) -> list[float]:
        """Latencies of the events that count, in the order they were sent."""
        taken = [seconds * 1e3 for _, seconds in sorted(self.taken)]
        return taken[int(len(taken) * WARM_UP_SHARE) :]


def latency(scale: Scale, sites: Sites) -> Measured:
    """Rows: p50 and p99 on Apache Kafka and on the embedded broker; bytes written by a trickle."""
    measured = Measured([])
    for engine in ("kafka", "embedded"):
        result = measure(scale, sites, engine)
        measured.rows += result.rows
        measured.details[engine] = result.details
    return measured


def measure(scale: Scale, sites: Sites, engine: str) -> Measured:
    """One engine."""
    p50, p99, turns, written, used = [], [], [], [], []
    with Deployment(sites[engine]) as deployment:
        if engine == "kafka":
            deployment.keep_all_that_is_written()
        worker = deployment.worker(WORKERS)
        try:
            ready_at(worker)
            for turn in range(scale.repeats):
                lines = list(events(scale.trickle, seed=turn + 1))
                before, cpu = sum(deployment.written_by_topic().values()), _cpu(deployment.site, worker)
                taken = asyncio.run(send_slowly(deployment, lines, scale.trickle_rate)).milliseconds()
                after = sum(deployment.written_by_topic().values())
                written.append((after - before) / sum(map(len, lines)))
                used.append([b - a for a, b in zip(cpu, _cpu(deployment.site, worker), strict=True)])
                percentiles = quantiles(taken, n=100)
                p50.append(percentiles[49])
                p99.append(percentiles[98])
                turns.append(sorted(round(ms, 2) for ms in taken))
        finally:
            worker.kill()
    name = f"publish to readable at {scale.trickle_rate:g} events/s"
    broker = "Apache Kafka" if engine == "kafka" else "embedded broker"
    rows = [
        Row(f"{name}, p50, {broker}", p50, "ms", "<=", P50_MS),
        Row(f"{name}, p99, {broker}", p99, "ms", "<=", P99_MS),
    ]
    if engine == "kafka":
        what = f"bytes written to Kafka for each of an event, trickle of {scale.trickle_rate:g}/s"
        rows.append(Row(what, written, "x", "<=", 15.0))
    names = ("worker", "broker", "redis")
    details = {
        f"{name}_cpu_microseconds": [turn[place] / scale.trickle * 1e6 for turn in used]
        for place, name in enumerate(names)
    }
    return Measured(rows, details | {"written": written, "percentiles": _percentiles(turns)})


def _cpu(site: Site, worker: WorkerProcess) -> list[float]:
    return [cpu_seconds(pid) for pid in (worker.process.pid, site.broker_pid, site.redis_pid)]


def _percentiles(turns: list[list[float]]) -> dict[str, float]:
    """Latencies of all turns together, by percentile."""
    cuts = quantiles([ms for turn in turns for ms in turn], n=100)
    return {str(p): cuts[p - 1] for p in (1, 10, 25, 50, 75, 90, 95, 99)}


async def send_slowly(deployment: Deployment, lines: list[bytes], rate: float) -> Trickle:
    """Publish events one by one, so many a second, and wait until all are readable."""
    trickle = Trickle()
    redis = Redis.from_url(deployment.site.redis_url)
    updates = redis.pubsub()
    await updates.subscribe(deployment.keys.updates)
    listening = asyncio.ensure_future(_listen(updates, trickle))
    async with AIOKafkaProducer(bootstrap_servers=deployment.site.bootstrap) as producer:
        began, acks = time.monotonic(), []
        for number, line in enumerate(lines):
            await asyncio.sleep(began + number / rate - time.monotonic())
            acks.append(asyncio.ensure_future(_send(deployment, producer, line, trickle)))
        await asyncio.gather(*acks)
        async with asyncio.timeout(ARRIVE_SECONDS):
            while len(trickle.taken) < len(lines):
                assert not listening.done(), listening.result()
                await asyncio.sleep(0.01)
    listening.cancel()
    await updates.aclose()
    await redis.aclose()
    return trickle


async def _send(deployment: Deployment, producer: AIOKafkaProducer, line: bytes, trickle: Trickle) -> None:
    run_id = orjson.loads(line)["run_id"]
    place, at = partition_of(run_id, deployment.partitions), time.monotonic()
    topic = deployment.names.trial_events
    ack = await producer.send_and_wait(topic, line, key=run_id.encode(), partition=place)
    trickle.acknowledged(run_id, ack.offset, at)


async def _listen(updates: Any, trickle: Trickle) -> None:
    async for message in updates.listen():
        if message["type"] == "message":
            told = orjson.loads(message["data"])
            if told["kind"] == "run":
                trickle.announced(told["run"], told["state_version"], time.monotonic())
