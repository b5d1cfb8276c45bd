"""Keeps aiokafka's log in a thread of ours off a terminal that belongs to the caller.

It logs every failed attempt, dozens a second while the broker is away. The logger `streamer.client` reports
once what matters of it; set that to DEBUG to see all of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
"""The loggers that a producer writes to; a filter does not reach the loggers below its own."""

_quiet: set[int] = set()


@contextmanager
def quiet_thread() -> Iterator[None]:
    """Nothing is heard of aiokafka from this thread meanwhile."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_is_heard)
    _quiet.add(threading.get_ident())
    try:
        yield
    finally:
        _quiet.discard(threading.get_ident())


def _is_heard(record: logging.LogRecord) -> bool:
    return record.thread not in _quiet or logging.getLogger("streamer.client").isEnabledFor(logging.DEBUG)
