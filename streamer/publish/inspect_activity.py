"""Whether the hook of inspect_ai publishes anything; cheap to import and to ask, as it is always asked."""

from __future__ import annotations

import logging
import os
import time

from streamer.discovery import read_discovery

VARIABLE = "STREAMER_INSPECT"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

LOOK_SECONDS = 5.0
"""How long an answer holds: inspect_ai asks before every call of a hook."""

log = logging.getLogger("streamer.inspect")


class Activity:
    """Whether results are to be published: STREAMER_INSPECT says so, else whether a stack runs here."""

    def __init__(self) -> None:
        self._answer = False
        self._until = 0.0

    def is_on(self) -> bool:
        """As of the last few seconds."""
        now = time.monotonic()
        if now >= self._until:
            self._answer, self._until = self._decide(), now + LOOK_SECONDS
        return self._answer

    def _decide(self) -> bool:
        said = os.environ.get(VARIABLE, "").strip().lower()
        if not said:
            return read_discovery() is not None
        if said not in (*YES, *NO) and not self._until:
            log.warning("%s=%s is unknown, so nothing is published; set it to 1 or 0", VARIABLE, said)
        return said in YES
