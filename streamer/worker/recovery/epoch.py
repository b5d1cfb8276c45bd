"""The epoch: an increasing integer that every summary carries, kept in the compacted topic `streamer-meta`.

A rebuild from the log, or a new event topic, starts the next one: its offsets start again, and its
summaries must still count as newer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka import TopicPartition

from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.meta import EPOCH_KEY, epoch_value, greatest_epoch
from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.worker.faust.high_watermarks import high_watermarks
from streamer.worker.faust.producer import ProducerRecord


def epoch_by(settings: Settings, records: Iterable[Any]) -> int:
    """The setting if there is one, else the greatest epoch in the records of the topic, else 1."""
    return settings.epoch if settings.epoch is not None else greatest_epoch(records)


async def meta_records(settings: Settings) -> list[Any]:
    """All records of the topic `streamer-meta`."""
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",  # seeking there would race against a reset to the end
    )
    await consumer.start()
    try:
        place = TopicPartition(Names(settings.namespace).streamer_meta, 0)
        consumer.assign([place])
        ends = await consumer.end_offsets([place])
        end = (await high_watermarks(settings, ends))[place] if settings.embedded else ends[place]
        return await _up_to(consumer, place, end)
    finally:
        await consumer.stop()


def epoch_record(settings: Settings, epoch: int) -> ProducerRecord:
    """The record that makes `epoch` the current one."""
    return ProducerRecord(Names(settings.namespace).streamer_meta, 0, EPOCH_KEY, epoch_value(epoch))


async def _up_to(consumer: AIOKafkaConsumer, place: TopicPartition, end: int) -> list[Any]:
    found: list[Any] = []
    while await consumer.position(place) < end:
        found += (await consumer.getmany(timeout_ms=200)).get(place, [])
    return found
