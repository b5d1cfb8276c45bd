"""SIGINT, SIGTERM and SIGHUP as one exception: the end that the user asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
EXIT_FORCED = 130


class Stopped(BaseException):
    """The user, or the system, asked us to end."""


class Signals:
    """The present effect of a signal."""

    def __init__(self) -> None:
        self._forced = False

    def force_from_now_on(self) -> None:
        """We are ending; one more signal ends this process at once (its children then end by themselves)."""
        self._forced = True

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Signal handler."""
        if self._forced:
            os._exit(EXIT_FORCED)
        raise Stopped


@contextmanager
def stopped_by_signals() -> Iterator[Signals]:
    """Raise Stopped in the main thread at the first signal; the old handlers come back afterwards."""
    signals = Signals()
    before = {number: signal.signal(number, signals.handle) for number in NUMBERS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
