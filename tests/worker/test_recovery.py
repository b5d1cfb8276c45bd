"""Where a partition's log, changelog and scored trials stand when a worker takes it over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamer.storage.kafka import Names
from streamer.worker.recovery import LogPositions, read_positions

NAMES = Names()


class Consumer:
    """Answers for each topic; a topic that nobody has written to has no offsets."""

    def __init__(self, starts: dict[str, int | None], ends: dict[str, int | None]) -> None:
        self._starts, self._ends = starts, ends

    async def highwaters(self, *places: Any) -> dict[Any, int | None]:
        return {place: self._ends.get(place.topic) for place in places}

    async def earliest_offsets(self, *places: Any) -> dict[Any, int | None]:
        return {place: self._starts.get(place.topic) for place in places}

    async def committed(self, place: Any) -> Any:
        return SimpleNamespace(offset=7 if place.partition else None, by_others=bool(place.partition))


async def test_each_partition_has_the_offsets_of_its_own_topics() -> None:
    consumer: Any = Consumer(
        {NAMES.trial_events: 2, NAMES.trials_changelog: 3}, {NAMES.trial_events: 9, NAMES.scored_trials: 5}
    )
    assert await read_positions(consumer, NAMES, [0, 1]) == {
        0: LogPositions(2, None, 9, 3, 5, False),
        1: LogPositions(2, 7, 9, 3, 5, True),
    }


async def test_a_topic_without_records_stands_at_0() -> None:
    consumer: Any = Consumer({NAMES.trial_events: 0}, {NAMES.trial_events: 0})
    [position] = (await read_positions(consumer, NAMES, [0])).values()
    assert (position.changelog_start, position.scored_end) == (0, 0)


async def test_for_no_partitions_nobody_is_asked() -> None:
    nobody: Any = None
    assert await read_positions(nobody, NAMES, []) == {}
