"""Sends notices by apprise (the extra `notify`), out of the way of everything else.

A URL holds secrets. It is never said: services are called by their number and kind, `notification service 2
(slack)`.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
import warnings
from collections.abc import Callable, Sequence

from streamer.notifications.notification import Notification

SEND_PAUSES_SECONDS = (1.0, 5.0, 25.0)
"""Pauses between attempts; after the last one a notice is given up."""

MAX_WAITING = 1000
"""Notices that wait for a service; when there are more, the newest are given up."""


class NotifyMissing(Exception):
    """apprise is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "notices need apprise, which the extra `notify` brings: pip install 'trialstream[notify]'"
        )


class BadNotifyUrl(Exception):
    """Not a URL of a notification service."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"notification URL {number} is none that apprise knows (it is not repeated here: it may hold a "
            "secret). Write for example mailto://..., slack://... or json://HOST/PATH; the documentation of "
            "apprise lists them"
        )


class Service:
    """One notification service, with a thread of its own.

    Args:
        url: as apprise reads it; kept from every message.
        number: its place among those given, from 1.
        say: called once when the service takes nothing, and again when it does.
        retry_seconds: pauses between attempts.

    Raises:
        NotifyMissing, BadNotifyUrl
    """

    def __init__(
        self,
        url: str,
        number: int,
        say: Callable[[str], None],
        retry_seconds: Sequence[float] = SEND_PAUSES_SECONDS,
    ) -> None:
        try:
            import apprise
        except ImportError:
            raise NotifyMissing from None
        logger = logging.getLogger("apprise")
        logger.propagate = False  # it writes URLs down
        logger.setLevel(logging.CRITICAL + 1)
        self._apprise = apprise.Apprise()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what its plugins import is old
            added = self._apprise.add(url)
        if not added:
            raise BadNotifyUrl(number)
        kind = type(self._apprise[0]).__name__.removeprefix("Notify")
        self.name = f"notification service {number} ({kind})"
        self._text = apprise.NotifyFormat.TEXT
        self._say = say
        self._retry_seconds = retry_seconds
        self._waiting: queue.Queue[tuple[Notification, Callable[[], None]] | None] = queue.Queue(MAX_WAITING)
        self._closing = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def send(self, notice: Notification, done: Callable[[], None]) -> None:
        """Send it soon; never waits. `done` is called, in another thread, when it arrived or was given up."""
        try:
            self._waiting.put_nowait((notice, done))
        except queue.Full:
            self._fail()
            done()

    def close(self, seconds: float) -> None:
        """Let what waits be sent, for so long at most; what fails now is not tried again."""
        self._closing.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            notice, done = item
            if self._delivered(notice):
                if self._failing:
                    self._say(f"{self.name} takes notices again")
                self._failing = False
                done()
            elif not self._closing.is_set():
                self._fail()
                done()

    def _delivered(self, notice: Notification) -> bool:
        for pause in (*self._retry_seconds, None):
            try:
                if self._apprise.notify(title=notice.title, body=notice.body, body_format=self._text):
                    return True
            except Exception as error:  # a plugin's mistake must not end the thread
                if not self._failing:
                    self._say(f"{self.name} failed: {type(error).__name__}")
            if pause is None or self._closing.wait(pause):
                return False
        return False

    def _fail(self) -> None:
        if not self._failing:
            self._failing = True
            self._say(f"{self.name} does not take notices; what it misses is given up. Check its URL")


def watch_name(urls: Sequence[str]) -> str:
    """Names a watch by where it sends to, so that each has a memory of its own; tells nothing of the URLs.

    >>> watch_name(["json://a", "json://b"]) == watch_name(["json://b", "json://a"]) != watch_name(["json://a"])
    True
    """
    return hashlib.sha256("\n".join(sorted(urls)).encode()).hexdigest()[:12]
