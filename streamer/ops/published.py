"""The latest summaries in the compacted topics, as any subscriber sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from streamer.aggregate.keys import SummaryKind
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.schemas.identity import run_of_key
from streamer.settings import Settings

T = TypeVar("T")

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


def latest_of(
    settings: Settings, topics: Iterable[str], keep: Callable[[bytes], T], *, run_id: str | None = None
) -> dict[TopicKey, T]:
    """The last value of each key of these topics, reduced by `keep`; tombstoned keys left out.

    Args:
        settings: where the broker is.
        topics: without the namespace.
        keep: reduces a value to the part that is needed.
        run_id: only the partition of this run.

    Raises:
        TopicMissing, TopicUnreadable, KafkaError: see `read_topic`.
    """
    found: dict[TopicKey, T] = {}
    for topic in topics:
        for record in read_topic(settings, Names(settings.namespace).topic(topic), run_id=run_id):
            place = TopicKey(topic, record.partition, record.key or b"")
            if record.value is None:
                found.pop(place, None)
            else:
                found[place] = keep(record.value)
    return found


def by_run(found: Mapping[TopicKey, T]) -> dict[str, dict[TopicKey, T]]:
    """The same for each run that a key names."""
    runs: dict[str, dict[TopicKey, T]] = {}
    for place, value in found.items():
        runs.setdefault(place.run_id, {})[place] = value
    return runs
