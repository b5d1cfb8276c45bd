"""The whole flow on one page: bytes -> events -> run state -> what changed. Pure.

One pipeline folds one partition of the event topic in a worker, or a whole file in `streamer fold`.
Records may come in any order, any number of times: the answer is the same.

An exception while one run is folded stays with that run: what is in memory of it is dropped, its further
records are held back and counted, and every other run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from schemas.decode import Reason, decode
from schemas.events import AnyEvent, RunDeleted, RunStarted, missing_times
from schemas.limits import LATEST_MICROSECONDS
from schemas.plain import PlainTrial, plain_trial
from streamer.aggregate.changes import Cut, PageWrite, ScoredChange, SummaryChange, SummaryKind
from streamer.aggregate.cut import Cutter
from streamer.aggregate.page_format import PageFromTheFuture, is_run_page, run_of_page, seen_by, slots_on
from streamer.aggregate.pages import PageBook, join_page
from streamer.aggregate.run_state import Effect, RunState
from streamer.aggregate.slots import SlotKey
from streamer.records import (
    MAX_KEPT_BYTES,
    NO_TIMESTAMP,
    Failure,
    LogRecord,
    Record,
    Rejected,
    reject,
    unreadable,
)
from streamer.score import PriceTable, UnknownProfile, grading_profile, made_with

__all__ = [
    "MAX_KEPT_BYTES",
    "NO_TIMESTAMP",
    "Failure",
    "Folded",
    "LogRecord",
    "Pipeline",
    "Record",
    "Rejected",
    "reject",
]

_LATEST_TIMESTAMP = LATEST_MICROSECONDS // 1000
"""Later ones are microseconds, say, and no time of an event."""


@dataclass(slots=True)
class Folded:
    """What a batch of records did.

    Attributes:
        touched: runs that records were folded into.
        rejections: for the records that are no events.
        misplaced: records of runs that this pipeline does not own, with the run.
        of_closed: likewise of runs that are closed.
        deletions: run to the greatest revision up to which a held run is to be deleted.
        records: how many there were.
        held: records of runs that are set apart; they stay in the log and are not folded.
        missing_times: times of events and of records that lie outside 2000 to 2200 and count as missing.
    """

    touched: set[str] = field(default_factory=set)
    rejections: list[Rejected] = field(default_factory=list)
    misplaced: list[tuple[LogRecord, str]] = field(default_factory=list)
    of_closed: list[tuple[LogRecord, str]] = field(default_factory=list)
    deletions: dict[str, int] = field(default_factory=dict)
    records: int = 0
    held: int = 0
    counted: int = 0
    duplicates: int = 0
    superseded: int = 0
    ignored: int = 0
    unknown_fields: int = 0
    missing_times: int = 0


class Pipeline:
    """Folds records into run states; cuts what changed.

    Args:
        epoch: see DESIGN.md, State; the one that every summary is published under.
        writer: name of this worker process in page keys; None where no pages are kept.
        prices: price table (R2), the default one if None.
        owns: tells whether a run belongs to this partition; records of other runs are handed back
            as misplaced. None: every run does.
        cuts: whether `cut` will be called again and again; if not, scored trials that changed are not
            noted, and a cut has those of all slots.

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
        cuts: bool = True,
    ) -> None:
        self.as_of = -1
        self.failed: dict[str, Failure] = {}
        self._epoch = epoch
        self._writer = writer
        self._prices = prices or PriceTable.default()
        self._made_with = made_with(self._prices)
        self._owns = owns
        self._cuts = cuts
        self._runs: dict[str, RunState] = {}
        self._cutters: dict[str, Cutter] = {}
        self._books: dict[str, PageBook] = {}
        self._closed: set[str] = set()
        self._held: set[str] = set()
        self._unsettled: dict[str, set[SlotKey]] = {}
        self._wholly_unsettled: set[str] = set()

    def fold(self, records: Iterable[LogRecord]) -> Folded:
        """Fold a batch. Never raises: bad input becomes a rejection, an exception sets its run apart."""
        folded, runs, touched = Folded(), self._runs, set()
        effects: Counter[Effect] = Counter()
        seen = counted = 0
        for record in records:
            value, offset = record.value, record.offset
            seen += 1
            if offset > self.as_of:
                self.as_of = offset
            if record.timestamp > _LATEST_TIMESTAMP:
                folded.missing_times += 1
            try:
                event: AnyEvent | PlainTrial | None = plain_trial(value) or self._decoded(record, folded)
            except Exception as error:
                folded.rejections.append(reject(record, unreadable(error)))
                continue
            if event is None:
                continue
            run_id = event.run_id
            run = runs.get(run_id)
            if run is None:
                if self._owns is not None and not self._owns(run_id):
                    folded.misplaced.append((record, run_id))
                    continue
                if run_id in self._closed:
                    folded.of_closed.append((record, run_id))
                    continue
                if run_id in self._held:
                    self._hold_back(run_id, event, folded)
                    continue
                run = self._run(run_id)
            try:
                effect = run.apply(event, value or b"", offset, record.timestamp)
            except Exception as error:
                self.fail(run_id, error, record)
                touched.discard(run_id)
                continue
            if effect is Effect.COUNTED:
                counted += 1
            else:
                effects[effect] += 1
            touched.add(run_id)
        folded.touched, folded.records, folded.counted = touched, seen, counted
        folded.duplicates, folded.ignored = effects[Effect.DUPLICATE], effects[Effect.IGNORED]
        folded.superseded = effects[Effect.SUPERSEDED]
        return folded

    def cut(self, run_id: str, *, news: bool = True) -> Cut:
        """Drain what changed in a run; without `news`, grades move silently (after a recovery)."""
        return self._cutters[run_id].cut(news=news)

    def recut(self, run_id: str) -> Cut:
        """Drain the summaries of a run that was recovered, without news; its scored trials wait.

        Either `scored` drains them, or `forget_scored` says that they are published already.
        """
        return self._cutters[run_id].cut(news=False, scored=False)

    def forget_scored(self, run_id: str) -> None:
        """The scored trials of a run are published as they are; to find that none of them is built."""
        self._cutters[run_id].forget_scored()

    def scored(self, run_id: str, most: int | None = None) -> list[ScoredChange]:
        """Drain scored trials of a run alone, `most` if that is given; [] if none waits.

        They cost the same now or later, summaries do not.
        """
        return self._cutters[run_id].scored(most)

    def scored_waiting(self, run_id: str) -> int:
        """How many scored trials of a run are to be drained."""
        return len(self._runs[run_id].rescored)

    def page_writes(self, run_id: str) -> list[PageWrite]:
        """Drain the state pages of a run that are out of date: values first, then tombstones.

        The values must be acknowledged before the tombstones are sent.
        """
        return self._books[run_id].writes()

    def load_page(self, key: str, value: bytes, *, settled_to: int = 0) -> None:
        """Join a state page of any writer, in any order, any number of times.

        An exception sets the run of the page apart.

        Args:
            settled_to: everything that follows from events before this offset is published. Scored trials
                of slots on pages that have seen no later ones need not be drained after a recovery.

        Raises:
            PageFromTheFuture: a newer version wrote it.
        """
        run_id = run_of_page(key)
        if run_id in self._held:
            return
        try:
            self._join_page(run_id, key, value, settled_to)
        except PageFromTheFuture:
            raise
        except Exception as error:
            self.fail(run_id, error)

    def _join_page(self, run_id: str, key: str, value: bytes, settled_to: int) -> None:
        run = self._run(run_id)
        slots = join_page(run, key, value)
        self.as_of = max(self.as_of, run.state_version)
        if run_id in self._books:
            self._books[run_id].note_foreign(key, slots)
        unsettled = seen_by(value) >= settled_to
        if unsettled and (is_run_page(key) or settled_to <= 0):
            self._wholly_unsettled.add(run_id)
        else:
            self._unsettled.setdefault(run_id, set()).update(slots_on(value) if unsettled else ())

    def recovered(self) -> None:
        """All pages are loaded: they are saved already, so nothing of them is out of date."""
        for run in self._runs.values():
            run.unsaved, run.plan_unsaved, run.pages_outdated = {}, False, False
        for run_id in self._unsettled.keys() - self._wholly_unsettled - self._held:
            try:
                self._runs[run_id].rescored_alone(self._unsettled[run_id])
            except Exception as error:
                self.fail(run_id, error)
        self._unsettled, self._wholly_unsettled = {}, set()

    def fail(self, run_id: str, error: Exception, record: LogRecord | None = None) -> None:
        """Set a run apart: something was raised while it was folded, cut or saved.

        Nothing that is in memory of it can be trusted any more.
        """
        run = self._runs.get(run_id)
        self.adopt(Failure.of(run_id, error, record, -1 if run is None else run.state_version))

    def adopt(self, failure: Failure) -> None:
        """Set a run apart for a reason that is known already; the first one counts."""
        self.failed.setdefault(failure.run_id, failure)
        self.hold(failure.run_id)

    def hold(self, run_id: str) -> None:
        """Drop what is in memory of a run; its records are counted and not folded from now on."""
        for known in (self._runs, self._cutters, self._books):
            known.pop(run_id, None)
        self._closed.discard(run_id)
        self._held.add(run_id)

    def holds(self, run_id: str) -> bool:
        """True for a run that is set apart."""
        return run_id in self._held

    def delete(self, run_id: str, revision: int) -> None:
        """Begin a run as deleted: its events up to that revision are ignored, without a look at them."""
        self._run(run_id).delete(revision)

    def close(self, run_id: str) -> list[str]:
        """Forget a run that is saved and cut; the keys of its state pages. Its records are handed back."""
        pages = self._books.pop(run_id).keys()
        del self._runs[run_id], self._cutters[run_id]
        self._closed.add(run_id)
        return pages

    def apart(self, name: str, owns: Callable[[str], bool]) -> Pipeline:
        """An empty pipeline like this one; as a writer of pages it has that name behind this one's."""
        return Pipeline(epoch=self._epoch, writer=f"{self._writer}.{name}", prices=self._prices, owns=owns)

    def reopen(self, run_id: str, other: Pipeline) -> None:
        """Take a closed run over from another pipeline; a new one begins if that does not know it."""
        self._closed.discard(run_id)
        self._held.discard(run_id)
        if run_id in other._runs:
            self._runs[run_id] = other._runs[run_id]
            self._cutters[run_id] = other._cutters[run_id]
            self._books[run_id] = other._books[run_id]

    def replaces(self, run_id: str, pages: Iterable[str]) -> None:
        """The next `page_writes` of a run write all of it, and take these pages away."""
        for key in pages:
            self._books[run_id].note_foreign(key, 0)
        self._runs[run_id].pages_outdated = True

    def page_anew(self) -> None:
        """Write every slot on a page of our own: those loaded may be gone from where others read them."""
        for run in self._runs.values():
            run.pages_outdated = True

    def runs(self) -> list[str]:
        """Ids of the runs that this pipeline knows, deleted ones included, closed ones not."""
        return list(self._runs)

    def knows(self, run_id: str) -> bool:
        """True for the runs that `runs` names."""
        return run_id in self._runs

    def run(self, run_id: str) -> RunState:
        """State of a run, for reading, and to settle it."""
        return self._runs[run_id]

    def all_summaries(self, run_id: str) -> list[SummaryChange]:
        """Every summary of a run as it stands; drains nothing."""
        return self._cutters[run_id].everything()

    def published(self, run_id: str) -> list[tuple[SummaryKind, str]]:
        """Kind and key of every summary that cuts of a run have given and not taken back."""
        return self._cutters[run_id].published()

    def _run(self, run_id: str) -> RunState:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = RunState(run_id, self._prices)
            run.tracked, run.saved = self._cuts, self._writer is not None
            self._cutters[run_id] = Cutter(run, self._epoch, self._made_with)
            if self._writer is not None:
                self._books[run_id] = PageBook(run, self._writer)
        return run

    def _decoded(self, record: LogRecord, folded: Folded) -> AnyEvent | None:
        """The event that a record holds; None, and a rejection, where it holds none."""
        read = self._readable(record)
        if isinstance(read, Reason):
            folded.rejections.append(reject(record, read))
            return None
        folded.unknown_fields += len(read.__pydantic_extra__ or ())
        folded.missing_times += missing_times(read, record.value or b"")
        return read

    def _hold_back(self, run_id: str, event: AnyEvent | PlainTrial, folded: Folded) -> None:
        folded.held += 1
        if isinstance(event, RunDeleted):
            folded.deletions[run_id] = max(event.revision, folded.deletions.get(run_id, event.revision))

    def _readable(self, record: LogRecord) -> AnyEvent | Reason:
        read = decode(record.value)
        if type(read) is RunStarted and read.grading_profile is not None:
            try:
                grading_profile(read.grading_profile)
            except UnknownProfile as error:
                return Reason("unknown_grading_profile", str(error))
        return read
