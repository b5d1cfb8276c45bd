"""Where the log and the workers stand at one moment, and what is on its way to topics and Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from streamer.client.reader import StateReader
from streamer.client.results import WorkerStatus
from streamer.ops.lag import PartitionLag


@dataclass(frozen=True, slots=True)
class Flow:
    """The partitions of the event topic, and the last heartbeats of the workers that live.

    >>> here, there = PartitionLag(0, beginning=0, end=7, committed=7), PartitionLag(1, 0, 5, 5)
    >>> flow = Flow((here, there), ({"partitions": [0], "published_to": {"0": 7}},))
    >>> flow.in_flight, flow.without_owner
    (None, [1])
    """

    partitions: tuple[PartitionLag, ...]
    workers: tuple[Mapping[str, Any], ...]

    @property
    def ends(self) -> list[int]:
        """The offset after the last record of each partition."""
        return [partition.end for partition in self.partitions]

    @property
    def without_owner(self) -> list[int]:
        """Partitions that no heartbeat names: an owner is about to come, or Redis has lost its heartbeat."""
        return [partition.partition for partition in self.partitions if not self._owners(partition)]

    @property
    def in_flight(self) -> str | None:
        """The events on their way, None without any; nothing is known of partitions without an owner."""
        lag = sum(partition.lag for partition in self.partitions)
        if lag:
            return f"{lag:,} events are not processed yet: is a worker running? `streamer status` shows"
        busy = sum(bool(status.get("unsent") or status.get("catching_up")) for status in self.workers)
        if busy:
            return f"{busy} workers have not sent everything to Redis yet"
        unpublished = [str(p.partition) for p in self.partitions if not self._is_published(p)]
        if unpublished:
            return f"workers have not published everything of partitions {', '.join(unpublished)} yet"
        return None

    def _is_published(self, partition: PartitionLag) -> bool:
        """Whether an owner says so; True without an owner."""
        owners = self._owners(partition)
        reached = [owner.get("published_to", {}).get(str(partition.partition), -1) for owner in owners]
        return max(reached, default=partition.end) >= partition.end

    def _owners(self, partition: PartitionLag) -> list[Mapping[str, Any]]:
        return [status for status in self.workers if partition.partition in status.get("partitions", ())]


def live_workers(reader: StateReader) -> list[WorkerStatus]:
    """The workers with a recent heartbeat; RedisUnavailable where Redis does not answer."""
    now = datetime.now(UTC)
    return [worker for worker in reader.workers() if not worker.stale(now)]
