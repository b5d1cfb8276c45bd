"""The epoch: an increasing integer that every summary carries, kept in the compacted topic `streamer-meta`.

A rebuild from the log, or a new event topic, starts the next one: its offsets start again, and its
summaries must still count as newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamer.kafka.log import read_partition
from streamer.kafka.meta import EPOCH_KEY, epoch_value, greatest_epoch
from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.worker.faust.producer import ProducerRecord


def epoch_by(settings: Settings, records: Iterable[Any]) -> int:
    """The setting if there is one, else the greatest epoch in the records of the topic, else 1."""
    return settings.epoch if settings.epoch is not None else greatest_epoch(records)


async def meta_records(settings: Settings) -> list[Any]:
    """All records of the topic `streamer-meta`."""
    return await read_partition(settings, (Names(settings.namespace).streamer_meta, 0))


def epoch_record(settings: Settings, epoch: int) -> ProducerRecord:
    """The record that makes `epoch` the current one."""
    return ProducerRecord(Names(settings.namespace).streamer_meta, 0, EPOCH_KEY, epoch_value(epoch))
