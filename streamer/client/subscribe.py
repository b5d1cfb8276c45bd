"""Follow a public topic: what is published, as it is published.

Delivery is at least once and by several writers around a failure; the guard drops what is older than what
was seen already of the same key, so that what a reader holds only ever moves forward.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import TopicPartition

from schemas.identity import decode_id
from streamer.client.log import partitions_of
from streamer.kafka.consumer import AIOKafkaConsumer
from streamer.kafka.ends import stable_end
from streamer.kafka.names import Names
from streamer.settings import Settings

FEEDS = {
    "agent-model": "agent-model-summaries",
    "tier": "tier-summaries",
    "run": "run-summaries",
    "grades": "grade-changes",
    "rejections": "trial-rejections",
    "trials": "scored-trials",
}
"""What can be followed -> its topic."""

FETCH_WAIT_MS = 500
"""How long the broker may hold a fetch that finds nothing. Apache Kafka answers at once when data come."""

EMBEDDED_FETCH_WAIT_MS = 20
"""The embedded broker holds such a fetch that long whatever comes: this is the latency."""

FETCH_BYTES = 4 * 1024 * 1024
Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Update:
    """One published message.

    Attributes:
        key: record key as text, "" if it has none.
        value: the published bytes; None: the key was deleted.
        message: what they say; None: deleted, or no JSON object.
        timestamp_ms: when it was published, Unix milliseconds.
    """

    key: str
    value: bytes | None
    message: dict[str, Any] | None
    timestamp_ms: int

    @property
    def run_id(self) -> str:
        """The run that it is about, as the message says, else by its key."""
        named = self.message.get("run_id") if self.message else None
        return str(named) if named else decode_id(self.key.partition("|")[0])

    @property
    def version(self) -> Version | None:
        """(epoch, state_version), None where the message has none."""
        if self.message is None or "state_version" not in self.message:
            return None
        return self.message["epoch"], self.message["state_version"]


class Guard:
    """Remembers the newest (epoch, state_version) of each key; what is lower is older.

    >>> guard = Guard()
    >>> [guard.is_news("k", version) for version in ((1, 5), (1, 4), (1, 5), (2, 0), None)]
    [True, False, True, True, True]
    >>> guard.is_news("k", (1, 9))
    False
    """

    def __init__(self) -> None:
        self._newest: dict[str, Version] = {}

    def is_news(self, key: str, version: Version | None) -> bool:
        """False if something newer of the key was seen; an equal version replaces, a deletion has none."""
        if version is None:
            return True
        if version < self._newest.get(key, version):
            return False
        self._newest[key] = version
        return True


async def follow(
    settings: Settings,
    feed: str,
    *,
    from_beginning: bool = False,
    on_ready: Callable[[], None] = lambda: None,
) -> AsyncIterator[Update]:
    """What is published on a feed, without end.

    Args:
        settings: where the broker is.
        feed: a key of FEEDS.
        from_beginning: start with everything the topic holds; else with what comes from now on.
        on_ready: called once, when everything that is published from then on will be seen.

    Raises:
        TopicMissing: no worker has created the topics.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    topic = Names(settings.namespace).topic(FEEDS[feed])
    consumer = AIOKafkaConsumer(
        **settings.consumer_options(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest" if from_beginning else "latest",
        fetch_max_wait_ms=EMBEDDED_FETCH_WAIT_MS if settings.embedded else FETCH_WAIT_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    versioned, guard = feed not in ("grades", "rejections"), Guard()
    try:
        places = [TopicPartition(topic, number) for number in await partitions_of(settings, topic)]
        await consumer.start()
        consumer.assign(places)
        start = _Start(places, from_beginning, on_ready)
        while True:
            fetched = await consumer.getmany(timeout_ms=FETCH_WAIT_MS)
            start.note(consumer)
            for record in start.wanted(fetched):
                update = _update(record)
                if not versioned or guard.is_news(update.key, update.version):
                    yield update
    finally:
        await consumer.stop()


class _Start:
    """Where following begins.

    ListOffsets(latest) of the embedded broker lies before the last record batch; the high watermark in the
    first fetch response is right, and what lies before it was there already.
    """

    def __init__(
        self, partitions: list[TopicPartition], from_beginning: bool, on_ready: Callable[[], None]
    ) -> None:
        self._offsets = dict.fromkeys(partitions, 0) if from_beginning else {}
        self._unknown = set(partitions) - self._offsets.keys()
        self._on_ready = on_ready
        self._ready = False

    def note(self, consumer: AIOKafkaConsumer) -> None:
        """Learn from what has been fetched."""
        if self._ready:
            return
        for partition in list(self._unknown):
            end = stable_end(consumer, partition)
            if end is not None:
                self._offsets[partition] = end
                self._unknown.discard(partition)
        if not self._unknown:
            self._ready = True
            self._on_ready()

    def wanted(self, fetched: dict[TopicPartition, list[Any]]) -> Iterator[Any]:
        """The records that lie after the start."""
        for partition, records in fetched.items():
            yield from (record for record in records if record.offset >= self._offsets[partition])


def _update(record: Any) -> Update:
    message = None
    if record.value is not None:
        try:
            message = orjson.loads(record.value)
        except orjson.JSONDecodeError:
            message = None
    return Update(
        key=(record.key or b"").decode(errors="replace"),
        value=record.value,
        message=message if isinstance(message, dict) else None,
        timestamp_ms=record.timestamp,
    )
