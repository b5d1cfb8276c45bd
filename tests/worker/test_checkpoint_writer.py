"""Checkpoints are written when something in them has changed, and wait until the pages are whole."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.worker.partition import Checkpoint, Partition, checkpoint_key
from streamer.worker.publisher import CheckpointWriter
from tests.worker.processor_bench import Bench


class Producing:
    """Takes writes, and says how far the scored trials were published."""

    def __init__(self) -> None:
        self.written: list[Checkpoint] = []
        self.scored_end = 0

    async def write(self, records: list[Any]) -> None:
        assert [record.key for record in records] == [checkpoint_key(0).encode()]
        self.written += [Checkpoint.decoded(record.value) for record in records]

    def written_to(self, topic: str, partition: int) -> int:
        return self.scored_end


class Given:
    """A writer of checkpoints, for a partition whose log begins at 10."""

    def __init__(self) -> None:
        self.bench, self.producer, self.asked = Bench(), Producing(), 0
        self.partition: Partition = self.bench.partition
        self.partition.checkpoint = Checkpoint(complete_from=0)
        self.writer = CheckpointWriter(
            self.bench.tables,
            self.producer,
            "scored-trials",
            self._log_start,  # type: ignore[arg-type]
        )

    async def _log_start(self, _: int) -> int:
        self.asked += 1
        return 10


@pytest.fixture
def given() -> Given:
    return Given()


async def test_events_that_were_deleted_before_they_were_folded_are_noted(given: Given) -> None:
    await given.writer.note_deleted(given.partition, 4, 12)
    assert [checkpoint.lost for checkpoint in given.producer.written] == [((4, 10),)]


@pytest.mark.parametrize(("expected", "offset", "asked"), [(4, 4, 0), (10, 12, 1)])
async def test_a_gap_behind_the_start_of_the_log_loses_nothing(
    given: Given, expected: int, offset: int, asked: int
) -> None:
    """The broker is asked at a gap only: a transaction's marker is one, too."""
    await given.writer.note_deleted(given.partition, expected, offset)
    assert (given.producer.written, given.asked) == ([], asked)


async def test_the_end_of_the_scored_trials_is_written_when_it_has_moved(given: Given) -> None:
    await given.writer.note_scored(given.partition)
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    await given.writer.note_scored(given.partition)
    assert [checkpoint.scored_to for checkpoint in given.producer.written] == [7]


async def test_while_a_partition_catches_up_its_checkpoint_waits(given: Given) -> None:
    given.partition.caught_up = False
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    assert given.producer.written == []
    assert not given.writer.can_note_scored(given.partition)
    await given.writer.write_pending(given.partition)
    await given.writer.write_pending(given.partition)
    assert [checkpoint.scored_to for checkpoint in given.producer.written] == [7]


async def test_pages_that_are_not_complete_have_no_checkpoint(given: Given) -> None:
    given.partition.checkpoint = Checkpoint()
    given.producer.scored_end = 7
    await given.writer.note_scored(given.partition)
    assert (given.producer.written, given.partition.pending_checkpoint) == ([], None)
