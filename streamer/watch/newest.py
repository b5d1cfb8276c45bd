"""The newest scored trials of a run, from the log: Redis has none."""

from __future__ import annotations

from collections.abc import AsyncIterator

from streamer.client.scored_trial_reader import ScoredTrialReader
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import partitions_of
from streamer.kafka.reader import LogRecord, PartitionId, PartitionReader, following_wait_ms
from streamer.settings import Settings
from streamer.versions import Version, version_of
from streamer.views.models import TrialRow

KEPT = 200
"""So many trials are kept."""

ENOUGH = 50
"""So many are looked for in what the log holds already."""

FIRST_LOOK = 2_000
"""Records before the end of the partition that are read first; other runs may have written them."""

FURTHER = 8
"""The next look goes so many times as far back."""


class Newest:
    """The newest trials of one run, oldest first.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self._reader = ScoredTrialReader(run_id)
        self._held: dict[str, tuple[Version, int, TrialRow]] = {}

    @property
    def rows(self) -> list[TrialRow]:
        """Newest first; what was folded at once by revision, which mostly is the time of writing."""
        by_age = sorted(self._held.values(), key=lambda held: held[:2], reverse=True)
        return [row for _, _, row in by_age]

    def take(self, record: LogRecord) -> bool:
        """Take a record; False if it is about another run, or older than what is held."""
        change = self._reader.change(record)
        if change is None:
            return False
        key = change.key.decode()
        if change.trial is None:
            return self._held.pop(key, None) is not None
        version = version_of(change.trial)
        self._held.pop(key, None)
        self._held[key] = version, change.trial["revision"], TrialRow.of(key, change.trial)
        if len(self._held) > KEPT:
            del self._held[next(iter(self._held))]
        return True


async def newest_trials(settings: Settings, run_id: str) -> AsyncIterator[list[TrialRow]]:
    """The newest trials, newest first: once as the log has them, then whenever some come; without end.

    Only as much of the log is read as it takes to find `ENOUGH`.

    Raises:
        TopicMissing: no worker has created the topics.
        TopicUnreadable: the broker fell silent.
        KafkaError: the broker cannot be reached, or refuses.
    """
    topic = Names(settings.namespace).scored_trials
    numbers = await partitions_of(settings, topic)
    place = (topic, partition_of(run_id, len(numbers)))
    async with PartitionReader(settings, [place], wait_ms=following_wait_ms(settings)) as reader:
        end = (await reader.ends())[place]
        newest = await _as_it_stands(reader, place, end, run_id)
        yield newest.rows
        async for batch in reader.read({place: end}, None):
            if [record for record in batch if newest.take(record)]:
                yield newest.rows


async def _as_it_stands(reader: PartitionReader, place: PartitionId, end: int, run_id: str) -> Newest:
    """Go back further and further, until there are enough, or all has been read."""
    begin = (await reader.beginnings())[place]
    back = FIRST_LOOK
    while True:
        newest, start = Newest(run_id), max(begin, end - back)
        async for batch in reader.read({place: start}, {place: end}):
            for record in batch:
                newest.take(record)
        if start == begin or len(newest.rows) >= ENOUGH:
            return newest
        back *= FURTHER
