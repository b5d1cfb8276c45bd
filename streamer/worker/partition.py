"""What a worker keeps in memory for one partition of the event topic that it owns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.identity import encode_id
from streamer.aggregate.changes import SummaryChange
from streamer.pipeline import Pipeline
from streamer.worker.batches import Batch
from streamer.worker.pace import Pace


@dataclass(slots=True)
class Partition:
    """One assigned partition.

    Until the position passes everything that the recovered pages have seen, the state is a mixture of old
    and new and nothing of it is published: the partition catches up.

    Attributes:
        number: the partition.
        epoch: what its summaries are published under.
        pipeline: its runs.
        position: offset of the next event to fold.
        catch_up_to: position at which the state is consistent again.
        silent_to: rejections of events before this offset, and events to send on, are out already.
        mark: what to write once the state is whole (`coverage`), None if that stands there.
        caught_up: true once `publish` has been done for the recovered state.
        marked: runs touched while catching up.
        owed: runs whose state is saved and whose summaries are not published yet.
        unfinished: the batches that this is owed to, done when it is paid.
        pace: how often to publish while there is a backlog.
        end: end of the log as last seen, for the lag.

    >>> partition = Partition(0, 1, Pipeline(), position=5, catch_up_to=9)
    >>> partition.passed, partition.lag
    (False, 4)
    """

    number: int
    epoch: int
    pipeline: Pipeline
    position: int
    catch_up_to: int
    caught_up: bool = False
    marked: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)
    unfinished: list[Batch] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    end: int = 0
    silent_to: int = 0
    mark: bytes | None = None

    @property
    def passed(self) -> bool:
        """True if the position has passed everything that was recovered."""
        return self.position >= self.catch_up_to

    @property
    def lag(self) -> int:
        """Events in the log that are not folded, as far as known; >= 0."""
        return max(self.end, self.catch_up_to, self.position) - self.position

    def summaries(self) -> Iterator[SummaryChange]:
        """Everything as it stands, runs together; a tombstone for each run that was deleted."""
        for run_id in self.pipeline.runs():
            standing = self.pipeline.all_summaries(run_id)
            yield from standing or [self._deleted(run_id)]

    def _deleted(self, run_id: str) -> SummaryChange:
        version = self.pipeline.run(run_id).state_version
        return SummaryChange(
            "run", run_id, None, None, None, encode_id(run_id), None, None, self.epoch, version, ""
        )
