"""Ask the workers to fold one run again from the log."""

from __future__ import annotations

import asyncio
import time
import uuid

from streamer.client.reader import StateReader
from streamer.client.results import ReaderError
from streamer.kafka.clients import producing
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.quarantine import repair_key
from streamer.ops.flow import live_workers
from streamer.ops.lag import read_lags
from streamer.settings import Settings

POLL_SECONDS = 0.2


class NotRepaired(ReaderError):
    """The run could not be folded again, or no worker has said so in time."""


def quarantined(reader: StateReader) -> dict[str, str]:
    """Runs in quarantine with the reason, as far as the heartbeats of live workers name them."""
    told = [worker.status.get("quarantined", {}) for worker in live_workers(reader)]
    return {run: reason for runs in told for run, reason in runs.items()}


def repair(settings: Settings, run_id: str, *, wait_seconds: float) -> None:
    """Have a run folded again from the log, and wait until a worker has done it.

    Raises:
        UnknownRun: Redis has no run of this id, and no run in quarantine has it.
        NotRepaired: it could not be folded again, or not in time.
        KafkaError, TopicMissing, RedisUnavailable: broker or Redis is away.
    """
    with StateReader(settings) as reader:
        if run_id not in quarantined(reader):
            reader.run(run_id)
        request = uuid.uuid4().hex[:12]
        asyncio.run(_ask(settings, run_id, request))
        deadline = time.monotonic() + wait_seconds
        while (outcome := _outcome(reader, request)) is None:
            if time.monotonic() > deadline:
                raise NotRepaired(
                    f"the request is written, but no worker has done it within {wait_seconds:g} s: "
                    "`streamer status` shows whether one is running and how far it is"
                )
            time.sleep(POLL_SECONDS)
    if outcome:
        raise NotRepaired(
            f"run {run_id!r} cannot be folded again: {outcome}. Its last good summaries stand; look at the "
            "worker's log for the place, and try again after an upgrade"
        )


def _outcome(reader: StateReader, request: str) -> str | None:
    for worker in reader.workers():
        if request in worker.status.get("repairs", {}):
            return str(worker.status["repairs"][request])
    return None


async def _ask(settings: Settings, run_id: str, request: str) -> None:
    count = len(await read_lags(settings))
    topic = Names(settings.namespace).trials_changelog
    async with producing(settings) as producer:
        await producer.send_and_wait(
            topic, request.encode(), key=repair_key(run_id).encode(), partition=partition_of(run_id, count)
        )
