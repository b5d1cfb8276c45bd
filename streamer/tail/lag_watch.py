"""Whether a worker takes what is published."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from streamer.client.reader import StateReader
from streamer.client.results import ReaderError
from streamer.kafka.errors import KafkaError, TopicMissing
from streamer.ops.flow import live_workers
from streamer.ops.lag import PartitionLag, read_lags
from streamer.settings import Settings

IDLE_SECONDS = 10.0
"""After this long without a worker taking any of the waiting events, the user gets a message."""

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class LagState:
    """Reports when no worker takes the waiting events, and when one does again.

    >>> watch = LagState()
    >>> waiting = [PartitionLag(0, beginning=0, end=3, committed=None)]
    >>> [watch.look(waiting, workers, at) for workers, at in ((0, 0.0), (0, 9.0), (0, 10.0), (0, 20.0))]
    [None, None, 'no worker is running: 3 events wait in the log. Start one: streamer worker', None]
    >>> watch.look([PartitionLag(0, beginning=0, end=3, committed=3)], 1, 21.0)
    'a worker takes events again'
    """

    done: int = -1
    since: float = 0.0
    told: bool = False

    def look(self, lags: list[PartitionLag], workers: int, now: float) -> str | None:
        """The message of this moment, if any.

        Args:
            lags: of the event topic.
            workers: how many have said something lately.
            now: seconds that only grow.
        """
        waiting = sum(partition.lag for partition in lags)
        done = sum(partition.committed or 0 for partition in lags)
        if done != self.done or not waiting:
            resumed = self.told
            self.done, self.since, self.told = done, now, False
            return "a worker takes events again" if resumed else None
        if self.told or now - self.since < IDLE_SECONDS:
            return None
        self.told = True
        if workers:
            return (
                f"no worker has taken any of the {waiting:,} events that wait in the log for "
                f"{IDLE_SECONDS:.0f} s, though {workers} of them run: see streamer status"
            )
        return f"no worker is running: {waiting:,} events wait in the log. Start one: streamer worker"


class LagWatch:
    """Looks every few seconds, in a thread of its own; what cannot be asked is left alone."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="consumption", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; does not wait for a look that hangs on a server."""
        self._stop.set()

    def _watch(self) -> None:
        consumption = LagState()
        while not self._stop.wait(LOOK_SECONDS):
            try:
                lags = asyncio.run(read_lags(self._settings))
            except (KafkaError, TopicMissing, OSError, TimeoutError):
                continue
            line = consumption.look(lags, self._workers(), time.monotonic())
            if line and not self._stop.is_set():
                self._say(line)

    def _workers(self) -> int:
        try:
            with StateReader(self._settings) as reader:
                return len(live_workers(reader))
        except ReaderError:
            return 0
