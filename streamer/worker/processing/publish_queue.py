"""Runs of a partition that wait for publication, and the batches that are done once they are published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from streamer.worker.clock import clock
from streamer.worker.faust.batches import FetchedBatch
from streamer.worker.faust.producer import ProducerRecord


@dataclass(slots=True)
class Pending:
    """Some batches, and what has to be published before they are done.

    Attributes:
        runs: those to be published, in the order in which they joined the queue.
        batches: done when the runs are published.
        replaced: tombstones of state pages that others replaced, sent when the runs are published.
    """

    runs: dict[str, None] = field(default_factory=dict)
    batches: list[FetchedBatch] = field(default_factory=list)
    replaced: list[ProducerRecord] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.batches or self.replaced)


class PublishQueue:
    """The queue for publication, in two parts: the current one, and the additions since it began.

    With two parts each batch is done at some time, however many runs the batches after it touch. A run that
    is published leaves both.

    >>> queue, first, second = PublishQueue(), *(FetchedBatch("t", 0, []) for _ in range(2))
    >>> queue.add_runs(["a", "b"])
    >>> queue.add_batch(first)
    >>> queue.next_runs(1)
    ['a']
    >>> queue.add_runs(["a", "c"])
    >>> queue.add_batch(second)
    >>> queue.discard(["a"]), queue.take_finished(), queue.next_runs(9)
    (None, None, ['b'])
    >>> queue.discard(["b"]), queue.take_finished().batches == [first], queue.next_runs(9)
    (None, True, ['c'])
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self._now = now
        self._current, self._later = Pending(), Pending()
        self._began_at = now()

    def __bool__(self) -> bool:
        """True if anything waits, even if only a batch has to be marked as done."""
        return bool(self._current or self._later)

    @property
    def runs(self) -> set[str]:
        """Every run that waits."""
        return {*self._current.runs, *self._later.runs}

    @property
    def pending_seconds(self) -> float:
        """Seconds since publication of the current part began; 0.0 if nothing is in it."""
        return self._now() - self._began_at if self._current else 0.0

    def add_runs(self, runs: Iterable[str]) -> None:
        """Queue these runs for publication."""
        self._later.runs.update(dict.fromkeys(runs))

    def add_batch(self, batch: FetchedBatch) -> None:
        """Queue this batch: it is done when everything that waits now is published."""
        self._later.batches.append(batch)

    def add_replaced(self, tombstones: Iterable[ProducerRecord]) -> None:
        """Queue these tombstones: they are sent when everything that waits now is published."""
        self._later.replaced += tombstones

    def next_runs(self, most: int) -> list[str]:
        """The runs to publish next, at most `most`: those that have waited for the longest time."""
        if not self._current:
            self._current, self._later = self._later, Pending()
            self._began_at = self._now()
        return list(islice(self._current.runs, most))

    def discard(self, runs: Iterable[str]) -> None:
        """Take these runs off the queue: they are published, or set apart."""
        for run_id in runs:
            self._current.runs.pop(run_id, None)
            self._later.runs.pop(run_id, None)

    def take_finished(self) -> Pending | None:
        """Take the current part out of the queue if all its runs are published; None if some wait."""
        if self._current.runs or not self._current:
            return None
        finished, self._current = self._current, Pending()
        return finished

    def drain(self) -> Pending:
        """Take everything out of the queue: it was published otherwise."""
        current, later = self._current, self._later
        self._current, self._later = Pending(), Pending()
        return Pending(
            current.runs | later.runs, current.batches + later.batches, current.replaced + later.replaced
        )
