"""The whole flow on one page: records are decoded, and each event joins its run. Pure.

One pipeline folds one partition of the event topic in a worker, or a whole file in `streamer fold`.
Records may come in any order, any number of times: the answer is the same. What follows from an event
is the run's (:mod:`streamer.aggregate.run`): which result stands, its score, the counts, the summaries.

An exception while one run is folded stays with that run: what is in memory of it is dropped, its further
records are held back and counted, and every other run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamer.aggregate.page_format import PageFromTheFuture, run_of_page
from streamer.aggregate.run import Run
from streamer.decoding import Folded, decoded
from streamer.records import Failure, LogRecord
from streamer.schemas.events import AnyEvent, RunDeleted
from streamer.schemas.plain import PlainEvent
from streamer.score import PriceTable, made_with


class Pipeline:
    """Folds records into runs, and keeps the runs.

    Args:
        epoch: the one that every summary is published under; it grows with each new beginning of the log.
        writer: name of this worker process in page keys; None where no pages are kept.
        prices: price table (R2), the default one if None.
        owns: tells whether a run belongs to this partition; records of other runs are handed back
            as misplaced. None: every run does.
        takes_changes: whether the runs' changes are taken again and again; if not, scored trials that
            changed are not noted, and those of all slots are taken.

    Attributes:
        as_of: greatest offset folded, -1 for none.
        failed: runs that an exception set apart; a worker takes them out once it has written that down.
    """

    def __init__(
        self,
        *,
        epoch: int = 1,
        writer: str | None = None,
        prices: PriceTable | None = None,
        owns: Callable[[str], bool] | None = None,
        takes_changes: bool = True,
    ) -> None:
        self.as_of = -1
        self.failed: dict[str, Failure] = {}
        self._epoch = epoch
        self._writer = writer
        self._prices = prices or PriceTable.default()
        self._made_with = made_with(self._prices)
        self._owns = owns
        self._takes_changes = takes_changes
        self._runs: dict[str, Run] = {}
        self._closed: set[str] = set()
        self._held: set[str] = set()

    def fold(self, records: Iterable[LogRecord]) -> Folded:
        """Fold a batch. Never raises: bad input becomes a rejection, an exception sets its run apart."""
        folded = Folded()
        for record in records:
            folded.records += 1
            self.as_of = max(self.as_of, record.offset)
            event = decoded(record, folded)
            if event is None:
                continue
            run = self._runs.get(event.run_id) or self._run_of(event, record, folded)
            if run is None:
                continue
            try:
                effect = run.join(event, record.value or b"", record.offset, record.timestamp)
            except Exception as error:
                self.fail(event.run_id, error, record)
                folded.touched.discard(event.run_id)
            else:
                folded.joined(event.run_id, effect)
        return folded

    def load_page(self, key: str, value: bytes, *, settled_to: int = 0) -> None:
        """Join a state page of any writer, in any order, any number of times; see :meth:`Run.load_page`.

        An exception sets the run of the page apart.

        Raises:
            PageFromTheFuture: a newer version wrote it.
        """
        run_id = run_of_page(key)
        if run_id in self._held:
            return
        run = self._begun(run_id)
        try:
            run.load_page(key, value, settled_to=settled_to)
            self.as_of = max(self.as_of, run.state.state_version)
        except PageFromTheFuture:
            raise
        except Exception as error:
            self.fail(run_id, error)

    def loaded(self) -> None:
        """All pages are loaded: they are saved already, so nothing of them is out of date."""
        for run_id, run in list(self._runs.items()):
            try:
                run.loaded()
            except Exception as error:
                self.fail(run_id, error)

    def runs(self) -> list[str]:
        """Ids of the runs that this pipeline knows, deleted ones included, closed ones not."""
        return list(self._runs)

    def knows(self, run_id: str) -> bool:
        """True for the runs that `runs` names."""
        return run_id in self._runs

    def run(self, run_id: str) -> Run:
        """A run that this pipeline knows."""
        return self._runs[run_id]

    def fail(self, run_id: str, error: Exception, record: LogRecord | None = None) -> None:
        """Set a run apart: something was raised while it was folded, summarised or saved.

        Nothing that is in memory of it can be trusted any more.
        """
        run = self._runs.get(run_id)
        self.adopt(Failure.of(run_id, error, record, -1 if run is None else run.state.state_version))

    def adopt(self, failure: Failure) -> None:
        """Set a run apart for a reason that is known already; the first one counts."""
        self.failed.setdefault(failure.run_id, failure)
        self.hold(failure.run_id)

    def hold(self, run_id: str) -> None:
        """Drop what is in memory of a run; its records are counted and not folded from now on."""
        self._runs.pop(run_id, None)
        self._closed.discard(run_id)
        self._held.add(run_id)

    def holds(self, run_id: str) -> bool:
        """True for a run that is set apart."""
        return run_id in self._held

    def delete(self, run_id: str, revision: int) -> None:
        """Begin a run as deleted: its events up to that revision are ignored, without a look at them."""
        self._begun(run_id).state.delete(revision)

    def close(self, run_id: str) -> list[str]:
        """Forget a run that is saved and published; its records are handed back. The keys of its pages."""
        self._closed.add(run_id)
        return self._runs.pop(run_id).page_keys()

    def empty_copy(self, name: str, owns: Callable[[str], bool]) -> Pipeline:
        """An empty pipeline like this one; as a writer of pages it has that name behind this one's."""
        return Pipeline(epoch=self._epoch, writer=f"{self._writer}.{name}", prices=self._prices, owns=owns)

    def adopt_run(self, run_id: str, other: Pipeline) -> None:
        """Take a closed run over from another pipeline; a new one begins if that does not know it."""
        self._closed.discard(run_id)
        self._held.discard(run_id)
        if run_id in other._runs:
            self._runs[run_id] = other._runs[run_id]

    def _run_of(self, event: AnyEvent | PlainEvent, record: LogRecord, folded: Folded) -> Run | None:
        """The run of the first event of a run, begun; None, and why is noted, if it is not to be folded."""
        run_id = event.run_id
        if self._owns is not None and not self._owns(run_id):
            folded.misplaced.append((record, run_id))
        elif run_id in self._closed:
            folded.of_closed.append((record, run_id))
        elif run_id in self._held:
            folded.held += 1
            if isinstance(event, RunDeleted):
                folded.deletions[run_id] = max(event.revision, folded.deletions.get(run_id, event.revision))
        else:
            return self._begun(run_id)
        return None

    def _begun(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = Run(
                run_id,
                prices=self._prices,
                epoch=self._epoch,
                made_with=self._made_with,
                writer=self._writer,
                takes_changes=self._takes_changes,
            )
        return run
