"""The whole flow on one page: bytes -> events -> run state -> what changed. Pure.

One pipeline folds one partition of the event topic in a worker, or a whole file in `streamer fold`.
Records may come in any order, any number of times: the answer is the same.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import canonical_json
from schemas.decode import Reason, Unread, decode
from schemas.events import AnyEvent, RunStarted, missing_times
from schemas.identity import encode_id
from schemas.limits import LATEST_MICROSECONDS
from schemas.plain import PlainTrial, plain_trial
from streamer.aggregate.changes import Cut, PageWrite, ScoredChange, SummaryChange, SummaryKind
from streamer.aggregate.cut import Cutter
from streamer.aggregate.page_format import is_run_page, run_of_page, seen_by, slots_on
from streamer.aggregate.pages import PageBook, join_page
from streamer.aggregate.run_state import Effect, RunState
from streamer.aggregate.slots import SlotKey
from streamer.score import PriceTable, UnknownProfile, grading_profile

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""

_LATEST_TIMESTAMP = LATEST_MICROSECONDS // 1000
"""Later ones are microseconds, say, and no time of an event."""

MAX_KEPT_BYTES = 2 * 1024 * 1024
"""A rejected record larger than this is reported without its bytes: they would not fit a message."""


class LogRecord(Protocol):
    """One record of the event topic, aiokafka's or ours; `timestamp` in Unix milliseconds, negative: none."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def partition(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def topic(self) -> str: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Record(Struct, frozen=True, gc=False):
    """A :class:`LogRecord` from elsewhere than Kafka."""

    value: bytes | None
    offset: int
    partition: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    topic: str = "trial-events"
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record for the rejection topic: `value` is a `Rejection` as JSON."""

    key: bytes | None
    value: bytes


@dataclass(slots=True)
class Folded:
    """What a batch of records did.

    Attributes:
        missing_times: times of events and of records that lie outside 2000 to 2200 and count as missing.
    """

    touched: set[str] = field(default_factory=set)
    rejections: list[Rejected] = field(default_factory=list)
    misplaced: list[tuple[LogRecord, str]] = field(default_factory=list)
    of_closed: list[tuple[LogRecord, str]] = field(default_factory=list)
    records: int = 0
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
        self._epoch = epoch
        self._writer = writer
        self._prices = prices or PriceTable.default()
        self._owns = owns
        self._cuts = cuts
        self._runs: dict[str, RunState] = {}
        self._cutters: dict[str, Cutter] = {}
        self._books: dict[str, PageBook] = {}
        self._closed: set[str] = set()
        self._unsettled: dict[str, set[SlotKey]] = {}
        self._wholly_unsettled: set[str] = set()

    def fold(self, records: Iterable[LogRecord]) -> Folded:
        """Fold a batch. Never raises on bad input: that becomes a rejection."""
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
            event: AnyEvent | PlainTrial | None = plain_trial(value) or self._readable(record, folded)
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
                run = self._run(run_id)
            effect = run.apply(event, value or b"", offset, record.timestamp)
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

        Args:
            settled_to: everything that follows from events before this offset is published. Scored trials
                of slots on pages that have seen no later ones need not be drained after a recovery.
        """
        run_id = run_of_page(key)
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
        for run_id in self._unsettled.keys() - self._wholly_unsettled:
            self._runs[run_id].rescored_alone(self._unsettled[run_id])
        self._unsettled, self._wholly_unsettled = {}, set()

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
        if run_id in other._runs:
            self._runs[run_id] = other._runs[run_id]
            self._cutters[run_id] = other._cutters[run_id]
            self._books[run_id] = other._books[run_id]

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
            self._cutters[run_id] = Cutter(run, self._epoch)
            if self._writer is not None:
                self._books[run_id] = PageBook(run, self._writer)
        return run

    def _readable(self, record: LogRecord, folded: Folded) -> AnyEvent | None:
        """The event of an unusual record, None if it was rejected."""
        read = decode(record.value)
        if type(read) is RunStarted and read.grading_profile is not None:
            try:
                grading_profile(read.grading_profile)
            except UnknownProfile as error:
                read = Reason("unknown_grading_profile", str(error))
        if isinstance(read, Reason):
            folded.rejections.append(reject(record, read))
            return None
        folded.unknown_fields += len(read.__pydantic_extra__ or ())
        folded.missing_times += missing_times(read, record.value or b"")
        return read


def reject(record: LogRecord, reason: Reason, run_id: str | None = None) -> Rejected:
    """The rejection of a record, with its bytes."""
    value = record.value or b""
    kept = value if len(value) <= MAX_KEPT_BYTES and not isinstance(record.value, Unread) else None
    rejection = {
        "type": "rejection",
        "code": reason.code,
        "message": reason.message,
        "run_id": run_id,
        "semantics_version": SEMANTICS_VERSION,
        "source_topic": record.topic,
        "source_partition": record.partition,
        "source_offset": record.offset,
        "source_timestamp_ms": record.timestamp if record.timestamp >= 0 else None,
        "source_key_base64": None if record.key is None else b64encode(record.key).decode(),
        "source_value_base64": None if record.value is None or kept is None else b64encode(kept).decode(),
        "source_value_bytes": len(value),
    }
    key = record.key if run_id is None else encode_id(run_id).encode()
    return Rejected(key, canonical_json(rejection))
