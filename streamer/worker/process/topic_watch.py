"""Watches the topics of a running worker: deleted, extended, or with a retention that deletes events.

If topics are deleted or extended, the worker ends. At its next start it creates them, fills them, or says
what to do.
"""

from __future__ import annotations

import asyncio
import logging

from streamer.kafka.errors import KafkaError
from streamer.kafka.names import Names
from streamer.kafka.partitions import read_partition_counts
from streamer.kafka.retention import read_retention, what_is_finite
from streamer.settings import Settings
from streamer.worker.process.topics import check_counts, plan

log = logging.getLogger(__name__)

CHECK_SECONDS = 15.0


class TopicDeleted(RuntimeError):
    """A topic of ours does not exist any more."""

    def __init__(self, topics: list[str]) -> None:
        super().__init__(
            f"topics {', '.join(topics)} were deleted. The worker ends; the next one creates and fills them"
        )


class TopicWatch:
    """Checks the topics every 15 seconds; not on the embedded broker, which has no other administrator.

    Attributes:
        finite: a sentence about the retention of the event topic, None if it keeps its events.
    """

    def __init__(self, settings: Settings) -> None:
        self.finite: str | None = None
        self._settings = settings
        self._events = Names(settings.namespace).trial_events

    async def watch(self) -> None:
        """Check until cancelled; wait while the broker is away.

        Raises:
            TopicDeleted, TopicMismatch: the worker cannot go on.
        """
        while not self._settings.embedded:
            try:
                await self._check()
            except (KafkaError, OSError, TimeoutError) as error:
                log.debug("cannot check the topics: %s", error)
            await asyncio.sleep(CHECK_SECONDS)

    async def _check(self) -> None:
        counts = await read_partition_counts(self._settings)
        if missing := [topic.name for topic in plan(self._settings) if topic.name not in counts]:
            raise TopicDeleted(missing)
        check_counts(counts, self._settings)
        finite = what_is_finite(self._events, await read_retention(self._settings))
        if finite and finite != self.finite:
            log.error("%s", finite)
        self.finite = finite
