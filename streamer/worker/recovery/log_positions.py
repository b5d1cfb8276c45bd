"""Where the log of a partition, its changelog and its scored trials stand when a worker takes it over."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.kafka.names import Names
from streamer.worker.faust.event_consumer import EventConsumer
from streamer.worker.faust.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class LogPositions:
    """Offsets of one partition of the events, and of the topics beside it.

    Attributes:
        start: offset of the first event that is still there.
        committed: offset up to which the group is done, None if it has committed none.
        end: offset after the last event.
        changelog_start: offset of the first record of the changelog that is still there.
        scored_end: offset after the last scored trial in their topic.
        committed_by_others: the committed offset is not one that a worker committed.
    """

    start: int
    committed: int | None
    end: int
    changelog_start: int
    scored_end: int
    committed_by_others: bool


async def read_positions(
    consumer: EventConsumer, names: Names, partitions: list[int]
) -> dict[int, LogPositions]:
    """Ask the broker for the positions of these partitions; {} for no partitions."""
    if not partitions:
        return {}
    events = {number: TopicPartition(names.trial_events, number) for number in partitions}
    scored = {number: TopicPartition(names.scored_trials, number) for number in partitions}
    changelogs = {number: TopicPartition(names.trials_changelog, number) for number in partitions}
    ends = await consumer.highwaters(*events.values(), *scored.values())
    starts = await consumer.earliest_offsets(*events.values(), *changelogs.values())
    committed = {number: await consumer.committed(place) for number, place in events.items()}
    return {
        number: LogPositions(
            start=starts[place],
            committed=committed[number].offset,
            end=ends[place],
            changelog_start=starts[changelogs[number]] or 0,
            scored_end=ends[scored[number]] or 0,
            committed_by_others=committed[number].by_others,
        )
        for number, place in events.items()
    }
