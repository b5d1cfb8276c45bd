"""Rejections in the log, as a worker writes them."""

from __future__ import annotations

import time

import orjson
from aiokafka import AIOKafkaProducer

from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.kafka import Names
from streamer.worker.process import ensure_topics

NOT_JSON = b"not JSON \x1b[31m"

WRONG = b'{"type":"trial_result","run_id":"run-1","task_id":"task-1","resolved":"yes"}'


async def reject(
    settings: Settings, *lines: bytes, at_ms: int | None = None, message: str | None = None
) -> None:
    """What a worker does with lines that are no events; `message`: what it says of each."""
    await ensure_topics(settings)
    folded = Pipeline().fold([Record(line, offset) for offset, line in enumerate(lines)])
    assert len(folded.rejections) == len(lines)
    producer = AIOKafkaProducer(**settings.kafka_options())
    await producer.start()
    for rejected in folded.rejections:
        await producer.send_and_wait(
            Names(settings.namespace).trial_rejections,
            _saying(rejected.value, message),
            key=rejected.key,
            partition=0,
            timestamp_ms=at_ms or int(time.time() * 1000),
        )
    await producer.stop()


def _saying(value: bytes, message: str | None) -> bytes:
    return value if message is None else orjson.dumps(orjson.loads(value) | {"message": message})
