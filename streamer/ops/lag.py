"""How far the workers are behind the event topic."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.kafka.names import Names
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import PartitionReader
from streamer.settings import Settings

ANSWER_SECONDS = 15.0
"""How long the broker may take to say where the partitions end: the user waits."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of the event topic.

    Attributes:
        beginning: offset of the first record that is still there; above 0: the log was truncated.
        end: offset after the last record; transactions that are open left out.
        committed: offset up to which the workers are done, None if they never said.

    >>> PartitionLag(0, beginning=0, end=7, committed=5).lag, PartitionLag(0, 3, 7, None).lag
    (2, 4)
    """

    partition: int
    beginning: int
    end: int
    committed: int | None

    @property
    def lag(self) -> int:
        """Records that are in the log and not done; >= 0."""
        return max(0, self.end - max(self.beginning, self.committed or 0))


async def read_lags(settings: Settings) -> list[PartitionLag]:
    """Every partition of the event topic, by number.

    Raises:
        TopicMissing: there is no event topic.
        TopicUnreadable: the broker does not answer.
        KafkaError: the broker cannot be reached, or refuses.
    """
    names = Names(settings.namespace)
    numbers = sorted(await partitions_of(settings, names.trial_events))
    places = [(names.trial_events, number) for number in numbers]
    async with PartitionReader(settings, places, group=names.group) as reader:
        beginnings, committed = await reader.beginnings(), await reader.committed()
        ends = await reader.ends(ANSWER_SECONDS)
    return [PartitionLag(place[1], beginnings[place], ends[place], committed[place]) for place in places]
