"""One `streamer tail` from start to end, its watch for lag, and the difficulty of tasks by another run."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from streamer.client.capture import InvalidEvent, NotAccepted
from streamer.client.feeds import scored_trials
from streamer.client.publisher import TrialPublisher
from streamer.client.queries import ReaderError
from streamer.client.readers import StateReader
from streamer.operate.health import PartitionLag, live_workers, read_lags
from streamer.schemas.base import BASELINE_LABELS
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.sources.tail import EventFields, LedgerFile, ledger_path
from streamer.sources.tail.follow import Follower, FollowStatus
from streamer.storage.kafka import KafkaError, TopicMissing

# -----------------------------------------------------------------------------
# Whether a worker takes what is published.


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


# -----------------------------------------------------------------------------
# One `streamer tail`: directory, journal and publisher together.


WAIT_SECONDS = 0.1
CLOSE_SECONDS = 8.0
"""How long the end waits for the broker: after SIGTERM comes SIGKILL, mostly ten seconds later."""

ONCE_SECONDS = 30.0
"""Likewise where the end is not awaited."""


@dataclass(frozen=True, slots=True)
class TailResult:
    """How it ended.

    Attributes:
        status: what was found in the directory.
        pending: events that the broker has not acknowledged; they are on the disk for the next publisher.
    """

    status: FollowStatus
    pending: int


def tail(
    settings: Settings,
    root: Path,
    options: ConvertOptions,
    stop: threading.Event,
    say: Callable[[str], None],
    tick: Callable[[FollowStatus], None],
    *,
    once: bool = False,
    keep_deleted: bool = False,
) -> TailResult:
    """Publish what a directory says, and follow it until `stop` is set; `once`: until it is all read.

    Args:
        settings: where the broker is.
        root: a run directory, or one above some; need not exist yet.
        options: as for `convert`.
        stop: ends it; what is complete by then is published.
        say: takes lines for the user, from any thread.
        tick: called several times a second.
        once: do not wait for more than the files that are being written.
        keep_deleted: a result stays when its file is deleted.

    Raises:
        AlreadyFollowed: another process follows the directory.
        EventsLost: neither the broker nor the disk takes events.
    """
    with (
        _told(say),
        LedgerFile(ledger_path(settings, root, options.run_id), root, options.run_id) as journal,
        TrialPublisher(settings, close_seconds=CLOSE_SECONDS, on_invalid=_is_logged) as publisher,
    ):
        ledger = journal.load()
        if journal.problem:
            say(journal.problem)

        def publish(events: list[EventFields]) -> None:
            for event in events:
                try:
                    _hand_over(publisher, event, stop)
                except InvalidEvent as error:
                    say(f"not published: {error}")

        follower = Follower(root, options, ledger, publish, journal.append, say, keep_deleted=keep_deleted)
        watch = LagWatch(settings, say)
        watch.start()
        try:
            work = follower.run_once if once else follower.follow
            work(stop, lambda: tick(follower.status))
            if once and not stop.is_set():
                publisher.flush(ONCE_SECONDS)
        finally:
            watch.stop()
        return TailResult(follower.status, publisher.close().pending)


def _hand_over(publisher: TrialPublisher, event: EventFields, stop: threading.Event) -> None:
    """Publish an event; wait while the publisher has no room for it."""
    while True:
        try:
            publisher.publish(event)
        except NotAccepted:
            if stop.is_set():
                raise
            time.sleep(WAIT_SECONDS)
        else:
            return


def _is_logged(_: InvalidEvent) -> None:
    """The publisher logs it, and the user sees the log; connectors make no such events anyway."""


class _Saying(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())


@contextmanager
def _told(say: Callable[[str], None]) -> Iterator[None]:
    """The user sees what the publisher logs."""
    log, handler = logging.getLogger("streamer.client"), _Saying(say)
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


# -----------------------------------------------------------------------------
# How difficult tasks are, by the results of another run (inference 5).


def difficulties(settings: Settings, run_id: str) -> dict[str, float]:
    """Task to its difficulty in a run, as the log has its trials now.

    Raises:
        NotInLog, TopicMissing, TopicUnreadable, KafkaError: see `streamer.client.feeds`.
    """
    return shares_of_failures(map(orjson.loads, scored_trials(settings, run_id)))


def shares_of_failures(trials: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Task to the share of its trials that failed, 0 to 1, over all agents but the baselines.

    >>> trials = [("a", True), ("a", False), ("b", False)]
    >>> shares_of_failures({"task_id": task, "agent": "x", "success": passed} for task, passed in trials)
    {'a': 0.5, 'b': 1.0}
    """
    tried, failed = Counter[str](), Counter[str]()
    for trial in trials:
        if trial["agent"] not in BASELINE_LABELS:
            tried[trial["task_id"]] += 1
            failed[trial["task_id"]] += not trial["success"]
    return {task: failed[task] / count for task, count in sorted(tried.items())}
