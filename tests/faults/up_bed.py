"""The bed of `streamer up`: one process tree, and the same publisher, watchers and comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.bed import EMBEDDED_SESSION_SECONDS, PARTITIONS, Bed
from tests.faults.stacked import Stacked
from tests.faults.watch import TopicWatch


def a_bed(engine: str, directory: Path, **options: Any) -> Bed:
    """The bed of an engine."""
    return (UpBed if engine == "up" else Bed)(engine, directory, **options)


class UpBed(Bed):
    """`up` with its own broker, Redis and worker; the publisher goes on writing through every end of it.

    Each start has another broker, which has nothing but what the journal brings. So the watcher of the
    topics, and the checker, begin again with each.
    """

    loads_again = True

    def __init__(self, engine: str, directory: Path, *, seed: int, **_: Any) -> None:
        super().__init__(engine, directory, seed=seed, workers=0)

    @property
    def redis_url(self) -> str:
        return self.up.redis_url

    def start_again(self) -> None:
        """Start `up` on the same data directory and ports; returns when its worker is current."""
        self.publisher.log_begins_again()
        self.topics = TopicWatch(self.threads, self.settings)
        self.up.start()
        self.generation += 1
        self.in_redis.since_epoch = self._epoch()
        self.topics.start()

    def _make_servers(self) -> None:
        self.kafka = self.up = Stacked(
            self.directory,
            {
                "namespace": "faults",
                "partitions": PARTITIONS,
                "session_timeout_seconds": EMBEDDED_SESSION_SECONDS,
            },
        )

    def _ends_of_servers(self) -> list[Callable[[], None]]:
        return [self.up.stop]

    def _start_servers(self) -> None:
        self.up.start()

    def _logs(self) -> str:
        log = self.up.stack.data / "logs" / "worker.log"
        return f"{self.up.stack.printed}\n{log.read_text(errors='replace')[-3000:] if log.exists() else ''}"

    def _epoch(self) -> int:
        return int(json.loads((self.up.stack.data / "state.json").read_text())["epoch"])
