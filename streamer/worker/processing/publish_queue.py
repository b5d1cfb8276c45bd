"""Runs of a partition that wait for publication, and the batches that are done once they are published."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from streamer.worker.clock import clock
from streamer.worker.faust.batches import FetchedBatch
from streamer.worker.faust.producer import ProducerRecord

REST_SECONDS = 1.0
"""How often summaries are published because of starts alone, and how often a run's agents are compared."""

BACKLOG_REST_SECONDS = 10.0
"""The same while events wait to be folded: what they say replaces both before anybody has read them."""


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

    Runs in which trials have only started rest apart, and join it once a second. So do runs whose agents were
    compared less than a second ago. With a backlog both rest for ten seconds. No batch waits for them: the
    events are saved, and a recovered worker publishes whatever the summaries lack.

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
    >>> seconds = iter([0.0, 5.0, 5.0, 5.5, 6.0])
    >>> queue = PublishQueue(now=lambda: next(seconds))
    >>> queue.add_started(["a"])
    >>> queue.next_runs(9), queue.discard(["a"]), queue.add_started(["a"])
    (['a'], None, None)
    >>> queue.empty, bool(queue), bool(queue)
    (False, False, True)
    >>> seconds = iter([0.0, 5.0, 5.5, 6.0])
    >>> queue = PublishQueue(now=lambda: next(seconds))
    >>> queue.may_compare("a"), queue.may_compare("a"), queue.may_compare("a")
    (True, False, True)
    >>> seconds = iter([0.0, 5.0, 6.0, 15.0, 15.5, 16.0])
    >>> queue = PublishQueue(now=lambda: next(seconds))
    >>> queue.rest(backlog=True)
    >>> queue.may_compare("a"), queue.may_compare("a"), queue.may_compare("a")
    (True, False, True)
    >>> queue.rest(backlog=False)
    >>> queue.may_compare("a"), queue.may_compare("a")
    (False, True)
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self._now = now
        self._current, self._later = Pending(), Pending()
        self._began_at = now()
        self._resting: dict[str, None] = {}
        self._rest_seconds = REST_SECONDS
        self._woke_at = -inf
        self._over = False
        self._compared: dict[str, float] = {}

    def __bool__(self) -> bool:
        """True if anything waits, even if only a batch has to be marked as done."""
        self._wake()
        return bool(self._current or self._later)

    @property
    def empty(self) -> bool:
        """True if nothing waits or rests: all that follows from the events so far is published."""
        return not (self._current or self._later or self._resting)

    @property
    def runs(self) -> set[str]:
        """Every run that waits."""
        return {*self._current.runs, *self._later.runs, *self._resting}

    @property
    def pending_seconds(self) -> float:
        """Seconds since publication of the current part began; 0.0 if nothing is in it."""
        return self._now() - self._began_at if self._current else 0.0

    def add_runs(self, runs: Iterable[str]) -> None:
        """Queue these runs for publication."""
        for run_id in runs:
            self._later.runs[run_id] = None
            self._resting.pop(run_id, None)

    def add_started(self, runs: Iterable[str]) -> None:
        """Queue these runs, in which trials have started and nothing else happened, once they have rested."""
        waiting = self._current.runs.keys() | self._later.runs.keys()
        self._resting.update(dict.fromkeys(run_id for run_id in runs if run_id not in waiting))

    def end_rest(self) -> None:
        """Let no run rest from now on, and every comparison be made at once: no later chance comes."""
        self._rest_seconds, self._over = 0.0, True

    def rest(self, *, backlog: bool) -> None:
        """Let runs rest for as long as is right with or without a backlog, those that rest now among them."""
        if not self._over:
            self._rest_seconds = BACKLOG_REST_SECONDS if backlog else REST_SECONDS

    def may_compare(self, run_id: str) -> bool:
        """Whether the agents of a run have rested since they were compared; if so, they count as compared."""
        moment = self._now()
        while self._compared and next(iter(self._compared.values())) + self._rest_seconds <= moment:
            del self._compared[next(iter(self._compared))]
        if run_id in self._compared:
            return False
        self._compared[run_id] = moment
        return True

    def add_batch(self, batch: FetchedBatch) -> None:
        """Queue this batch: it is done when everything that waits now is published."""
        self._later.batches.append(batch)

    def add_replaced(self, tombstones: Iterable[ProducerRecord]) -> None:
        """Queue these tombstones: they are sent when everything that waits now is published."""
        self._later.replaced += tombstones

    def next_runs(self, most: int) -> list[str]:
        """The runs to publish next, at most `most`: those that have waited for the longest time."""
        self._wake()
        if not self._current:
            self._current, self._later = self._later, Pending()
            self._began_at = self._now()
        return list(islice(self._current.runs, most))

    def discard(self, runs: Iterable[str]) -> None:
        """Take these runs off the queue: they are published, or set apart."""
        for run_id in runs:
            self._current.runs.pop(run_id, None)
            self._later.runs.pop(run_id, None)
            self._resting.pop(run_id, None)

    def take_finished(self) -> Pending | None:
        """Take the current part out of the queue if all its runs are published; None if some wait."""
        if self._current.runs or not self._current:
            return None
        finished, self._current = self._current, Pending()
        return finished

    def drain(self) -> Pending:
        """Take everything out of the queue: it was published otherwise."""
        current, later = self._current, self._later
        later.runs.update(self._resting)
        self._current, self._later, self._resting = Pending(), Pending(), {}
        return Pending(
            current.runs | later.runs, current.batches + later.batches, current.replaced + later.replaced
        )

    def _wake(self) -> None:
        """Let the runs that rest join the queue, if the last ones did so long enough ago."""
        if self._resting and (now := self._now()) >= self._woke_at + self._rest_seconds:
            self._later.runs.update(self._resting)
            self._resting, self._woke_at = {}, now
