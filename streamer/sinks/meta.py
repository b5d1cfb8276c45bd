"""What the compacted topic `streamer-meta` holds: the epoch, and the name of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

FIRST_EPOCH = 1
EPOCH_KEY = b"epoch"
LOG_KEY = b"log"
"""The name under which workers keep rows of this deployment on local disk; another one makes those void."""


def epoch_value(epoch: int) -> bytes:
    """The value of the record that makes `epoch` the current one.

    >>> epoch_value(3)
    b'{"epoch":3}'
    """
    return orjson.dumps({"epoch": epoch})


def greatest_epoch(records: Iterable[Any]) -> int:
    """The current epoch by the records of the topic (anything with key and value); 1 if none says one.

    >>> from types import SimpleNamespace as Record
    >>> greatest_epoch([Record(key=EPOCH_KEY, value=epoch_value(n)) for n in (2, 3, 2)]), greatest_epoch([])
    (3, 1)
    """
    values = (record.value for record in records if record.key == EPOCH_KEY and record.value)
    return max((int(orjson.loads(value)["epoch"]) for value in values), default=FIRST_EPOCH)
