"""Between the threads of a harness and the loop that sends: events are taken at once, checked in a thread.

`accept` calls nothing that lets another thread or process come between and hold up the harness. It wakes no
thread, since a woken one may be given the processor at once. Only callers share its lock. The thread that
checks looks every few milliseconds instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson

from streamer.publish.capture import CapturedEvent, named
from streamer.publish.invalid_events import InvalidEvent
from streamer.publish.publisher import Outgoing
from streamer.publish.results import MAX_WAITING_BYTES, NotAccepted
from streamer.publish.validation import validate, whole
from streamer.schemas.decode import Reason

log = logging.getLogger("streamer.client")

LOOK_SECONDS = 0.02
"""How often the thread that checks looks for events: so long one waits at most before it is sent."""

HANDED_ON = 64
"""Checked events are handed on at the latest when there are so many."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An invalid event.

    Attributes:
        value: it, written; without its benchmarks if those cannot be.
    """

    error: InvalidEvent
    value: bytes


Validated = Sequence[Outgoing | Refused]


class Inbox:
    """Takes events from any thread, and hands them on from its own, checked and in order.

    Args:
        hand_on: takes checked events; they have left once it calls `left`. None: it was the last.
        problem: why events do not arrive at the moment.

    Attributes:
        accepted: events taken so far.
        unfit: events that were not taken, since they were invalid at first sight.
    """

    def __init__(
        self, hand_on: Callable[[Validated | None], object], problem: Callable[[], str | None]
    ) -> None:
        self.accepted = self.unfit = 0
        self._hand_on = hand_on
        self._problem = problem
        self._closed = False
        self._lock = threading.Lock()
        self._queue: deque[CapturedEvent] = deque()
        self._hurry = threading.Event()
        self._taken_bytes = self._corrected_bytes = self._left_bytes = self._left = 0
        self._thread = threading.Thread(target=self._check_all, name="streamer-checker", daemon=True)
        self._thread.start()

    def accept(self, taken: CapturedEvent) -> None:
        """Take an event; never waits.

        Raises:
            NotAccepted: memory is full.
            RuntimeError: closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the publisher is closed; events are published before close()")
            waiting = self._taken_bytes + self._corrected_bytes - self._left_bytes
            if waiting + taken.size > MAX_WAITING_BYTES:
                raise NotAccepted(self.waiting, self._problem())
            self._taken_bytes += taken.size
            self.accepted += 1
            self._queue.append(taken)

    def count_unfit(self) -> None:
        """Count an event that is not taken."""
        with self._lock:
            self.unfit += 1

    @property
    def waiting(self) -> int:
        """Events taken that have not left."""
        return self.accepted - self._left

    def left(self, count: int, size: int) -> None:
        """Count events, and their bytes, as elsewhere now; for one thread, the ones handed to it."""
        self._left += count
        self._left_bytes += size

    def close(self) -> None:
        """Take no more; what was taken is handed on yet."""
        with self._lock:
            self._closed = True
        self._hurry.set()

    def hurry(self) -> None:
        """Look now: a caller waits."""
        self._hurry.set()

    def _check_all(self) -> None:
        while True:
            self._hurry.wait(LOOK_SECONDS)
            self._hurry.clear()
            last = self._closed  # nothing is taken after it was set
            while self._queue:
                self._hand_on(self._some_checked())
            if last:
                self._hand_on(None)
                return

    def _some_checked(self) -> list[Outgoing | Refused]:
        ready: list[Outgoing | Refused] = []
        while self._queue and len(ready) < HANDED_ON:
            ready.append(self._checked(self._queue.popleft()))
            _let_others_run()
        return ready

    def _checked(self, taken: CapturedEvent) -> Outgoing | Refused:
        try:
            found = validate(taken, _let_others_run)
            checked = _refused(taken, found) if isinstance(found, Reason) else found
        except Exception as error:  # an odd mapping or a mistake of ours: what comes after it is sent
            log.exception("An event cannot be checked")
            reason = Reason(
                "not_checked", f"It cannot be checked: {type(error).__name__}. Publish plain dicts."
            )
            checked = Refused(InvalidEvent(reason), taken.head if isinstance(taken.head, bytes) else b"{}")
        self._corrected_bytes += len(checked.value) - taken.size
        return checked


def _refused(taken: CapturedEvent, reason: Reason) -> Refused:
    value = whole(taken)
    return Refused(InvalidEvent(reason, *named(orjson.loads(value))), value)


def _let_others_run() -> None:
    """Another thread that waits for Python's lock gets it now, and not after its switch interval of 5 ms."""
    time.sleep(0)
