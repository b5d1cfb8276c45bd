"""Follow a public topic: what is published, as it is published.

Delivery is at least once, and several writers may publish around a failure. The guard drops a value that is
older than the last one of the same key, so a reader's values only move forward.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from streamer.kafka.names import Names
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import PartitionReader, following_wait_ms
from streamer.schemas.identity import run_of_key
from streamer.settings import Settings
from streamer.versions import Guard, Version, version_of

FEEDS = {
    "agent-model": "agent-model-summaries",
    "tier": "tier-summaries",
    "run": "run-summaries",
    "comparison": "run-comparisons",
    "grades": "grade-changes",
    "rejections": "trial-rejections",
    "trials": "scored-trials",
}
"""What can be followed -> its topic."""

Feed = Literal["agent-model", "tier", "run", "comparison", "grades", "rejections", "trials"]


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
        return str(named) if named else run_of_key(self.key)

    @property
    def version(self) -> Version | None:
        """(epoch, state_version), None where the message has none."""
        if self.message is None or "state_version" not in self.message:
            return None
        return version_of(self.message)


async def subscribe(
    feed: Feed,
    settings: Settings | None = None,
    *,
    run_id: str | None = None,
    from_beginning: bool = False,
    on_ready: Callable[[], None] = lambda: None,
) -> AsyncIterator[Update]:
    """The messages of a feed, as they are published, without end; needs the broker, not Redis.

    Break out of it under `contextlib.aclosing`, so that it disconnects at once.

    Args:
        feed: which topic; `FEEDS` says which is which.
        settings: where the broker is; None: as every command finds it.
        run_id: only what is about this run; None: all.
        from_beginning: start with everything the topic holds; else with what comes from now on.
        on_ready: called once, when everything that is published from then on will be seen.

    Raises:
        TopicMissing: no worker has created the topics.
        aiokafka.errors.KafkaError: the broker cannot be reached, or refuses.
    """
    settings = settings or Settings()
    topic = Names(settings.namespace).topic(FEEDS[feed])
    versioned, guard = feed not in ("grades", "rejections"), Guard()
    places = [(topic, number) for number in await partitions_of(settings, topic)]
    async with PartitionReader(settings, places, wait_ms=following_wait_ms(settings)) as reader:
        ends = await reader.ends()
        on_ready()
        async for batch in reader.read({} if from_beginning else ends, None):
            for record in batch:
                update = _update(record)
                is_news = not versioned or guard.is_news(update.key, update.version)
                if is_news and (run_id is None or update.run_id == run_id):
                    yield update


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
