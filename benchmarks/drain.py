"""Draining a backlog with a real worker, Kafka to Kafka and Redis: the one measurement most rows rest on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.machine import WORKERS, cpu_seconds
from benchmarks.site import Deployment, Wanted, ready_at
from tests.support.worker_process import WorkerProcess

SETTLED_SECONDS = 10.0
"""After the workers came, until the group has shared its partitions among them."""


@dataclass(frozen=True)
class Drained:
    """One drain.

    Attributes:
        events: how many.
        seconds: from the worker's first fetch to the last summary readable in Redis; the start of the
            process, its join and its recovery do not count.
        worker_cpu_seconds: of the workers, meanwhile.
        broker_cpu_seconds: of the broker, meanwhile.
        redis_cpu_seconds: of Redis, meanwhile.
    """

    events: int
    seconds: float
    worker_cpu_seconds: float
    broker_cpu_seconds: float
    redis_cpu_seconds: float
    fullest_share: float
    """Share of all workers' processor time that one of them took; the most."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cpu_microseconds(self) -> float:
        """Worker CPU of an event."""
        return self.worker_cpu_seconds / self.events * 1e6

    @property
    def broker_share(self) -> float:
        """Broker CPU for each second of worker CPU."""
        return self.broker_cpu_seconds / self.worker_cpu_seconds


def drain(
    deployment: Deployment,
    expected: Wanted,
    events: int,
    *,
    on: tuple[tuple[int, ...], ...] = ((WORKERS,),),
    look: Callable[[WorkerProcess], None] | None = None,
    release: Callable[[], None] | None = None,
) -> Drained:
    """Drain what is loaded, one worker for each entry of `on` (its cores); then forget all but the events.

    Args:
        look: called with the first worker as soon as it is ready.
        release: makes the events readable, once all workers have their partitions; then the time begins.
    """
    site = deployment.site
    name = f"{time.monotonic_ns():x}"
    workers = [deployment.worker(*cores, name=f"{name}-{number}") for number, cores in enumerate(on)]
    try:
        began = min(ready_at(worker) for worker in workers)
        if release:
            time.sleep(SETTLED_SECONDS)
        before = cpu_seconds(site.broker_pid), cpu_seconds(site.redis_pid)
        used = [-cpu_seconds(worker.process.pid) for worker in workers]
        if look:
            look(workers[0])
        if release:
            began = time.time()
            release()
        ended = deployment.wait_until_current(expected, *workers)
        used = [taken + cpu_seconds(worker.process.pid) for taken, worker in zip(used, workers, strict=True)]
        after = cpu_seconds(site.broker_pid), cpu_seconds(site.redis_pid)
        for worker in workers:
            worker.stop()
    finally:
        for worker in workers:
            worker.kill()
    deployment.forget()
    share = max(used) / sum(used) if any(used) else 1 / len(used)  # less than a tick of the clock
    return Drained(events, ended - began, sum(used), after[0] - before[0], after[1] - before[1], share)
