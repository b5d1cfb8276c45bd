"""The content of the compacted topic `streamer-meta`: the epoch, the name of the log, the configuration.

The epoch is an increasing integer that every summary carries. A rebuild from the log, or a new event topic,
starts the next one: its offsets start again, and its summaries must still count as newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from streamer.kafka.log import read_partition
from streamer.kafka.names import Names
from streamer.settings import Settings

FIRST_EPOCH = 1
EPOCH_KEY = b"epoch"
LOG_KEY = b"log"
"""The name under which workers keep rows of this deployment on local disk; another one makes those void."""

CONFIGURATION_KEY = b"made_with"
"""Its value is the fingerprint of the configuration that is current: only workers that have it publish."""


async def meta_records(settings: Settings) -> list[Any]:
    """All records of the topic."""
    return await read_partition(settings, (Names(settings.namespace).streamer_meta, 0))


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


def epoch_by(settings: Settings, records: Iterable[Any]) -> int:
    """The setting if there is one, else the current epoch by the records."""
    return settings.epoch if settings.epoch is not None else greatest_epoch(records)


def current_configuration(records: Iterable[Any]) -> str | None:
    """Fingerprint of the current configuration by the records of the topic; None if the topic has none.

    >>> from types import SimpleNamespace as Record
    >>> current_configuration([Record(key=CONFIGURATION_KEY, value=v) for v in (b"4d3d", b"9a01")])
    '9a01'
    """
    values = [record.value for record in records if record.key == CONFIGURATION_KEY and record.value]
    return values[-1].decode("utf-8", "replace") if values else None
