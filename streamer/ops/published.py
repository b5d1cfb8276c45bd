"""The latest summaries in the compacted topics, as any subscriber sees them."""

from __future__ import annotations

from typing import NamedTuple

from streamer.aggregate.keys import SummaryKind
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.schemas.identity import run_of_key
from streamer.settings import Settings

TOPICS: dict[SummaryKind, str] = {
    "agent_model": "agent-model-summaries",
    "tier": "tier-summaries",
    "run": "run-summaries",
    "comparison": "run-comparisons",
}
"""Kind of summary -> topic, without the namespace."""

SCORED = "scored-trials"
"""Topic of the scored trials, likewise."""


class TopicKey(NamedTuple):
    """Where a value lies: topic without the namespace, partition, key as it stands there."""

    topic: str
    partition: int
    key: bytes

    @property
    def run_id(self) -> str:
        """The run that the key names.

        >>> TopicKey("run-summaries", 0, b"a%7Cb|agent:model").run_id
        'a|b'
        """
        return run_of_key(self.text)

    @property
    def text(self) -> str:
        """The key as text for people, even if its bytes are not UTF-8."""
        return self.key.decode("utf-8", "backslashreplace")


def latest_of(settings: Settings, topic: str, *, run_id: str | None = None) -> dict[TopicKey, bytes]:
    """The last value of each key of a topic; tombstoned keys left out.

    Args:
        topic: without the namespace.
        run_id: only the partition of this run.

    Raises:
        TopicMissing, TopicUnreadable, KafkaError: see `read_topic`.
    """
    found: dict[TopicKey, bytes] = {}
    for record in read_topic(settings, Names(settings.namespace).topic(topic), run_id=run_id):
        place = TopicKey(topic, record.partition, record.key or b"")
        if record.value is None:
            found.pop(place, None)
        else:
            found[place] = record.value
    return found


def live_keys(settings: Settings, topic: str) -> set[TopicKey]:
    """The keys of a topic that have a value; the values are not kept."""
    found: set[TopicKey] = set()
    for record in read_topic(settings, Names(settings.namespace).topic(topic)):
        place = TopicKey(topic, record.partition, record.key or b"")
        if record.value is None:
            found.discard(place)
        else:
            found.add(place)
    return found


def summaries_by_run(settings: Settings, run_id: str | None = None) -> dict[str, dict[TopicKey, bytes]]:
    """The latest summaries by run, of all runs or of those in the partition of one."""
    found: dict[str, dict[TopicKey, bytes]] = {}
    for topic in TOPICS.values():
        for place, value in latest_of(settings, topic, run_id=run_id).items():
            found.setdefault(place.run_id, {})[place] = value
    return found
