"""A thread that does what a hook hands over, with a publisher of its own."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from streamer.publish.invalid_events import InvalidEvent
from streamer.publish.results import NotAccepted
from streamer.publish.trial_publisher import TrialPublisher

CLOSE_SECONDS = 10.0
"""The time that a harness waits at its end for the broker. The next publisher sends what is left."""

WORK_SECONDS = 300.0
"""The time that a harness waits at its end for work that was handed over, such as reading the log of an eval.
Its events are on no disk yet."""

log = logging.getLogger("streamer.hooks")

Event = dict[str, Any]
Publish = Callable[[Event], None]
Work = Callable[[Publish], None]
"""Makes events, and gives each to the function that it gets."""


class Background:
    """Does work in the order in which it is handed over. No method raises, and only `close` waits.

    Args:
        name: of the hook, for the log.
        publisher: takes the events, and is closed at the end; None: one with settings as commands find them.

    Raises:
        ValidationError: the settings are wrong.
    """

    def __init__(self, name: str, publisher: TrialPublisher | None = None) -> None:
        self._name = name
        # The publisher comes first: it closes itself at exit, and what is registered last is called first.
        self._publisher = publisher or TrialPublisher(close_seconds=CLOSE_SECONDS, on_invalid=_is_logged)
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"streamer-{name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def hand_over(self, work: Work) -> None:
        """Have it done soon; returns at once."""
        self._waiting.put(work)

    def close(self) -> None:
        """Wait until all is done (at most 5 min) and acknowledged (at most 10 s); no work is taken later."""
        atexit.unregister(self.close)
        self._waiting.put(None)
        self._thread.join(WORK_SECONDS)
        if self._thread.is_alive():
            log.warning(
                "%s: not everything was published within %g s. Publish the rest from the harness's files: "
                "streamer convert DIR | streamer publish",
                self._name,
                WORK_SECONDS,
            )

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            try:
                work(self._publish)
            except Exception:
                log.exception("%s: an event was not published; the harness goes on", self._name)
        try:
            self._publisher.close()
        except Exception:
            log.exception("%s: the publisher did not close well", self._name)

    def _publish(self, event: Event) -> None:
        try:
            self._publisher.publish(event)
        except (InvalidEvent, NotAccepted) as error:
            log.warning("%s: an event was not published: %s", self._name, error)


def _is_logged(_: InvalidEvent) -> None:
    """The publisher logs it, and the harness goes on."""
