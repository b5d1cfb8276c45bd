"""One `streamer tail`: directory, journal and publisher together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamer.publish.invalid_events import InvalidEvent
from streamer.publish.results import NotAccepted
from streamer.publish.trial_publisher import TrialPublisher
from streamer.settings import Settings
from streamer.sources.base import ConvertOptions
from streamer.tail.follow import Follower, FollowStatus
from streamer.tail.lag_watch import LagWatch
from streamer.tail.ledger import EventFields
from streamer.tail.ledger_file import LedgerFile, ledger_path

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
