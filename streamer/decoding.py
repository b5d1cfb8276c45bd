"""Decoding: the bytes of a record become an event, or a rejection."""

from __future__ import annotations

from streamer.folded import Folded
from streamer.records import LogRecord, reject, unreadable
from streamer.schemas.decode import Reason, decode
from streamer.schemas.events import AnyEvent, RunStarted, missing_times
from streamer.schemas.limits import LATEST_MICROSECONDS
from streamer.schemas.plain import PlainTrial, plain_trial
from streamer.score import UnknownProfile, grading_profile

_LATEST_TIMESTAMP = LATEST_MICROSECONDS // 1000
"""Later ones are microseconds, say, and no time of an event."""


def decoded(record: LogRecord, folded: Folded) -> AnyEvent | PlainTrial | None:
    """The event that a record holds; None, and a rejection is noted, where it holds none."""
    if record.timestamp > _LATEST_TIMESTAMP:
        folded.missing_times += 1
    try:
        event = plain_trial(record.value) or _checked(decode(record.value))
    except Exception as error:
        event = unreadable(error)
    if isinstance(event, PlainTrial):
        return event
    if isinstance(event, Reason):
        folded.rejections.append(reject(record, event))
        return None
    folded.unknown_fields += len(event.__pydantic_extra__ or ())
    folded.missing_times += missing_times(event, record.value or b"")
    return event


def _checked(event: AnyEvent | Reason) -> AnyEvent | Reason:
    """A run can only be graded by a profile that this version has."""
    if isinstance(event, RunStarted) and event.grading_profile is not None:
        try:
            grading_profile(event.grading_profile)
        except UnknownProfile as error:
            return Reason("unknown_grading_profile", str(error))
    return event
