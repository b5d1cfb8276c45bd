"""Decoding: the bytes of a record become an event, or a rejection. What folding a batch did."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.aggregate.changes import Effect
from streamer.records import LATEST_TIMESTAMP, LogRecord, Rejected, reject, unreadable
from streamer.schemas.content import missing_times
from streamer.schemas.decode import Reason, decode
from streamer.schemas.events import AnyEvent, RunStarted
from streamer.schemas.plain import PlainEvent, plain_event
from streamer.score import UnknownProfile, grading_profile


@dataclass(slots=True)
class Folded:
    """The result of folding a batch of records.

    Attributes:
        touched: runs that records were folded into.
        more_than_starts: runs in which more happened than that trials started.
        rejections: for the records that are no events.
        misplaced: records of runs that this pipeline does not own, with the run.
        of_closed: likewise of runs that are closed.
        deletions: run to the greatest revision up to which a held run is to be deleted.
        records: how many there were.
        counted: events that changed their run.
        duplicates: events that said what was known.
        superseded: results that lost their slot (R17).
        ignored: results that were withdrawn, or whose run was deleted.
        held: records of runs that are set apart; they stay in the log and are not folded.
        unknown_fields: fields of events that this version does not know.
        missing_times: times of events and of records that lie outside 2000 to 2200 and count as missing.
    """

    touched: set[str] = field(default_factory=set)
    more_than_starts: set[str] = field(default_factory=set)
    rejections: list[Rejected] = field(default_factory=list)
    misplaced: list[tuple[LogRecord, str]] = field(default_factory=list)
    of_closed: list[tuple[LogRecord, str]] = field(default_factory=list)
    deletions: dict[str, int] = field(default_factory=dict)
    records: int = 0
    counted: int = 0
    duplicates: int = 0
    superseded: int = 0
    ignored: int = 0
    held: int = 0
    unknown_fields: int = 0
    missing_times: int = 0

    def joined(self, run_id: str, effect: Effect) -> None:
        """An event joined its run."""
        self.touched.add(run_id)
        if effect is not Effect.STARTED:
            self.more_than_starts.add(run_id)
        if effect in (Effect.COUNTED, Effect.STARTED):
            self.counted += 1
        elif effect is Effect.DUPLICATE:
            self.duplicates += 1
        elif effect is Effect.SUPERSEDED:
            self.superseded += 1
        else:
            self.ignored += 1


def decoded(record: LogRecord, folded: Folded) -> AnyEvent | PlainEvent | None:
    """The event that a record holds; None, and a rejection is noted, where it holds none."""
    if record.timestamp > LATEST_TIMESTAMP:
        folded.missing_times += 1
    event, missing = event_in(record.value)
    if isinstance(event, PlainEvent):
        return event
    if isinstance(event, Reason):
        folded.rejections.append(reject(record, event))
        return None
    folded.unknown_fields += len(event.__pydantic_extra__ or ())
    folded.missing_times += missing
    return event


def event_in(value: bytes | None) -> tuple[AnyEvent | PlainEvent | Reason, int]:
    """The event that the bytes of a record hold, or why the worker rejects them; never raises.

    Returns:
        Beside it, how many times of the event count as missing.

    >>> event_in(b'{"type": "run_started", "run_id": "r", "grading_profile": "x"}')[0].code
    'unknown_grading_profile'
    """
    try:
        if (plain := plain_event(value)) is not None:
            return plain, 0
        event = _checked(decode(value))
        return event, 0 if isinstance(event, Reason) else missing_times(event, value or b"")
    except Exception as error:
        return unreadable(error), 0


def _checked(event: AnyEvent | Reason) -> AnyEvent | Reason:
    """A run can only be graded by a profile that this version has."""
    if isinstance(event, RunStarted) and event.grading_profile is not None:
        try:
            grading_profile(event.grading_profile)
        except UnknownProfile as error:
            return Reason("unknown_grading_profile", str(error))
    return event
