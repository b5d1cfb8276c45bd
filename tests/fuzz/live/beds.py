"""Real brokers and workers to publish to: a worker on a broker, and the whole of `streamer up`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from streamer.operate.local.broker import Broker
from streamer.settings import Settings
from streamer.storage.kafka import MAX_MESSAGE_BYTES
from streamer.worker.process import ensure_topics
from tests.faults.kinds_workers import faketime, wrong_clock
from tests.operate.stack import Stack, descendants, launch
from tests.support.servers import KafkaServer, RedisServer
from tests.support.worker_process import WorkerProcess, wait_for
from tests.worker.deployment import Deployment

PARTITIONS = 4
SESSION_SECONDS = 6.0
START_SECONDS = 300.0
"""Until a worker has read back all state; much, as every summary may have changed thousands of times."""

IDLE_SECONDS = 3.0
"""Runs without events for so long leave memory, and come back when one arrives."""

ANY_TIMESTAMP = {
    "message_timestamp_after_max_ms": 2**63 - 1,
    "segment_ms": 2**63 - 1,
    "retention_ms": -1,
    "max_message_bytes": MAX_MESSAGE_BYTES,
}
"""With this configuration Apache Kafka takes records of any timestamp; all else is as the worker wants it."""


class OnBroker:
    """A worker of a deployment; private topics outlive its restart, for `meanwhile`."""

    keeps_topics = True

    def __init__(
        self,
        deployment: Deployment,
        *,
        module: str = "streamer.worker",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._deployment = deployment
        deployment.session = SESSION_SECONDS
        idle = {"STREAMER_RUN_IDLE_SECONDS": str(IDLE_SECONDS)}
        self._module, self._environment = module, idle | (environment or {})
        self.settings = deployment.settings
        asyncio.run(ensure_topics(self.settings))
        if not deployment.embedded:
            deployment.configure("trial-events", **ANY_TIMESTAMP)
        self._worker = self._started()

    def processes(self) -> dict[str, int]:
        return {"worker": self._worker.process.pid} if self._worker.alive else {}

    def restart(self, meanwhile: Callable[[], None] = lambda: None, clock: str = "+0") -> None:
        """SIGKILL, and another worker, whose clock is as libfaketime says, where that is here."""
        self._worker.kill()
        meanwhile()
        if faketime():
            self._environment |= wrong_clock(FAKETIME=clock)
        self._worker = self._started()

    def log(self) -> str:
        return self._worker.output[-3_000:]

    def _started(self) -> WorkerProcess:
        worker = self._deployment.worker(module=self._module, environment=self._environment)
        worker.start(ready=False)
        worker.wait_until(lambda: " ready: " in worker.output, "the worker is ready", START_SECONDS)
        return worker


PARTS = {"broker": "tansu", "Redis": "valkey-server", "worker": "streamer.worker"}
"""Processes below `up`, and what their command lines hold."""


class OnUp:
    """`streamer up` with its own broker, Redis and worker, in a directory."""

    keeps_topics = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = self._started()

    @property
    def settings(self) -> Settings:
        """Where broker and Redis are now."""
        result = self._stack.addresses
        where = {name: result[name] for name in ("bootstrap", "redis", "namespace", "partitions")}
        return Settings(**where, embedded=True)

    def processes(self) -> dict[str, int]:
        """`up` and everything below it, while it runs."""
        if self._stack.process.poll() is not None:
            return {}
        below = descendants(self._stack.process.pid)
        result = {name: pid for name, part in PARTS.items() for pid, line in below.items() if part in line}
        return {"up": self._stack.process.pid} | result

    def restart(self, meanwhile: Callable[[], None] = lambda: None, clock: str = "+0") -> None:
        """SIGTERM to `up`, and another `up` on the same journal."""
        assert self._stack.end(signal.SIGTERM) == 0
        self._stack = self._started()

    def log(self) -> str:
        worker = self._stack.data / "logs" / "worker.log"
        of_worker = worker.read_text(errors="replace")[-3_000:] if worker.exists() else ""
        return f"{of_worker}\n`up` said:\n{self._stack.printed[-1_000:]}"  # how a process ended, too

    def end(self) -> None:
        if self._stack.process.poll() is None:
            self._stack.end(signal.SIGTERM)

    def _started(self) -> Stack:
        stack = launch(
            self._directory,
            worker=[],
            partitions=PARTITIONS,
            session_timeout_seconds=SESSION_SECONDS,
            run_idle_seconds=IDLE_SECONDS,
        )
        wait_for(
            lambda: stack.discovery.exists() or stack.process.poll() is not None,
            "the start of `up`",
            START_SECONDS,
        )
        assert stack.process.poll() is None, stack.printed
        return stack


Bed = OnBroker | OnUp
"""What an episode publishes to."""


@contextmanager
def up(directory: Path) -> Iterator[Bed]:
    """`streamer up`; ended in any case."""
    bed = OnUp(directory)
    try:
        yield bed
    finally:
        bed.end()


@contextmanager
def kafka(directory: Path, **worker: Any) -> Iterator[Bed]:
    """A worker on an Apache Kafka and a Redis of its own, all ended in any case; `worker`: see `OnBroker`."""
    (directory / "kafka").mkdir()
    server = KafkaServer(directory / "kafka")
    try:
        server.start()
        with _on_broker(directory, server.bootstrap, embedded=False, worker=worker) as bed:
            yield bed
    finally:
        server.stop()


@contextmanager
def embedded(directory: Path, **worker: Any) -> Iterator[Bed]:
    """Likewise on an embedded broker, without `up`."""
    with (
        Broker(log=directory / "broker.log") as broker,
        _on_broker(directory, broker.bootstrap, embedded=True, worker=worker) as bed,
    ):
        yield bed


@contextmanager
def _on_broker(directory: Path, bootstrap: str, *, embedded: bool, worker: Any) -> Iterator[Bed]:
    (directory / "redis").mkdir()
    redis = RedisServer(directory / "redis")
    redis.start()
    deployment = Deployment(directory, bootstrap, redis.url, "fuzz", embedded, PARTITIONS)
    try:
        yield OnBroker(deployment, **worker)
    finally:
        deployment.kill_workers()
        redis.stop()


BEDS: dict[str, Callable[[Path], AbstractContextManager[Bed]]] = {"up": up, "kafka": kafka}
