"""The memory of a worker for one partition of the event topic that it owns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from streamer.aggregate.changes import InFlightChange, SummaryChange, TasksChange
from streamer.aggregate.keys import RUN, SummaryKind
from streamer.kafka.quarantine import Quarantine
from streamer.pipeline import Pipeline
from streamer.worker.processing.changelog_checkpoint import Checkpoint
from streamer.worker.processing.publish_queue import PublishQueue

SummaryKeys = tuple[tuple[SummaryKind, str], ...]
"""Kind and key of each summary of a run that the tables hold."""


class ClosedRun(NamedTuple):
    """The part that stays in memory of a run without events.

    Attributes:
        pages: keys of its state pages.
        summaries: kind and key of each of its summaries; () for a deleted run.
        state_version: as it was.
        last_event_at: likewise, microseconds.
        in_flight: likewise, as `Run.in_flight_taken`.
        tasks: likewise, as `Comparisons.tasks_taken`.
    """

    pages: tuple[str, ...]
    summaries: SummaryKeys
    state_version: int
    last_event_at: int
    in_flight: InFlightChange | None
    tasks: TasksChange | None


class QuarantinedRun(NamedTuple):
    """The part that stays in memory of a run that is set apart.

    Attributes:
        quarantine: why, and what is to be done about it.
        summaries: its last good ones.
    """

    quarantine: Quarantine
    summaries: SummaryKeys


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
        silent_to: rejections of events before this offset, and events to send on, were published already.
        pending_checkpoint: checkpoint to write once the state is whole, None if it is written.
        checkpoint: what the checkpoint among the pages says, or will say.
        refill: every scored trial is published again: their topic has lost some.
        moved: an operator moved the committed offset forward, so that everything is folded again.
        caught_up: true once the summaries of the recovered state are published.
        touched_in_catch_up: runs touched while catching up, until they are published.
        abandoned: true once a publication ended halfway: nothing more is published, no batch is done.
        publish_queue: runs whose summaries are not published yet, and their batches.
        end: end of the log as last seen, for the lag.
        heard: when each open run last got an event, in seconds; the longest ago first.
        closed: runs that are closed (`idle`).
        quarantined: runs that are set apart; their events are held back (`quarantine`).
        repairs: runs that are to be folded again, with the name of the request.
        unpublished: runs in quarantine without any summary, and the offset before which they were well.
        deletions: runs in quarantine that were deleted since, up to which revision; not written down yet.
        held: events held back since this worker has the partition.
        openings: how many runs were opened again, which names them as writers of pages.

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
    touched_in_catch_up: set[str] = field(default_factory=set)
    abandoned: bool = False
    publish_queue: PublishQueue = field(default_factory=PublishQueue)
    end: int = 0
    silent_to: int = 0
    pending_checkpoint: bytes | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    refill: bool = False
    moved: bool = False
    heard: dict[str, float] = field(default_factory=dict)
    closed: dict[str, ClosedRun] = field(default_factory=dict)
    quarantined: dict[str, QuarantinedRun] = field(default_factory=dict)
    repairs: dict[str, str] = field(default_factory=dict)
    unpublished: dict[str, int] = field(default_factory=dict)
    deletions: dict[str, int] = field(default_factory=dict)
    held: int = 0
    openings: int = 0

    @contextmanager
    def guard(self, run_id: str) -> Iterator[None]:
        """An exception while something of this run is computed sets the run apart, and nothing else.

        For computations alone: what writing and reading raise is the infrastructure's, and ends the worker.
        """
        try:
            yield
        except Exception as error:
            self.pipeline.fail(run_id, error)
            self.let_go_of_failed()

    def let_go_of_failed(self) -> None:
        """Take runs that are set apart out of the queue, and expect nothing of them."""
        for run_id in self.pipeline.failed:
            self.publish_queue.discard([run_id])
            self.heard.pop(run_id, None)
            self.closed.pop(run_id, None)
            self.touched_in_catch_up.discard(run_id)

    @property
    def passed(self) -> bool:
        """True if the position has passed everything that was recovered."""
        return self.position >= self.catch_up_to

    @property
    def published(self) -> bool:
        """True if everything that follows from the events before `position` is published."""
        return self.caught_up and not self.touched_in_catch_up and self.publish_queue.empty

    @property
    def lag(self) -> int:
        """Events in the log that are not folded, as far as known; >= 0."""
        return max(self.end, self.catch_up_to, self.position) - self.position

    @property
    def log_faults(self) -> list[str]:
        """A sentence for each thing that happened to the log and still matters."""
        lost = self.checkpoint.what_is_lost(self.number)
        moved = (
            f"partition {self.number}: its committed offset was moved forward, not by a worker. Its log was "
            "folded again from the beginning; this is told until the worker is restarted"
        )
        return [*([lost] if lost else []), *([moved] if self.moved else [])]

    def run_ids(self) -> list[str]:
        """Every run, open, closed or in quarantine."""
        return [*self.pipeline.runs(), *self.closed, *self.quarantined]

    def deleted(self, run_id: str, version: int) -> SummaryChange:
        """Tombstone of a run that was deleted."""
        return SummaryChange.tombstone(run_id, RUN, self.epoch, version)
