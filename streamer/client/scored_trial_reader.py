"""The one reader of scored trials: records of their topic, as what they change in one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from streamer.kafka.reader import LogRecord
from streamer.schemas.identity import encode_id
from streamer.versions import Guard, Version, version_of


@dataclass(frozen=True, slots=True)
class TrialChange:
    """The change that one record makes to a slot.

    Attributes:
        key: the slot's key on the topic.
        offset: where the record stands in its partition.
        value: the scored trial as published; None: the slot is empty now.
        trial: what `value` parses to; None with it.
    """

    key: bytes
    offset: int
    value: bytes | None
    trial: dict[str, Any] | None

    @property
    def version(self) -> Version | None:
        """(epoch, state_version); None of a slot that is empty now."""
        return version_of(self.trial) if self.trial is not None else None


class ScoredTrialReader:
    """Understands the records of one run, and drops records of late writers.

    Args:
        run_id: the run.

    >>> from types import SimpleNamespace as Record
    >>> values = (b'{"epoch":1,"state_version":%d}' % version for version in (5, 4))
    >>> records = [Record(key=b"r|slot", offset=at, value=value) for at, value in enumerate(values)]
    >>> reader = ScoredTrialReader("r")
    >>> [reader.change(record) is not None for record in records]
    [True, False]
    >>> reader.change(Record(key=b"r|slot", offset=2, value=None))
    TrialChange(key=b'r|slot', offset=2, value=None, trial=None)
    >>> reader.change(Record(key=b"other|slot", offset=3, value=None))
    """

    def __init__(self, run_id: str) -> None:
        self._prefix = f"{encode_id(run_id)}|".encode()
        self._guard = Guard()

    def change(self, record: LogRecord) -> TrialChange | None:
        """The change that a record brings; None if it is about another run, or out of date."""
        if record.key is None or not record.key.startswith(self._prefix):
            return None
        trial = None if record.value is None else orjson.loads(record.value)
        change = TrialChange(record.key, record.offset, record.value, trial)
        return change if self._guard.is_news(change.key, change.version) else None
