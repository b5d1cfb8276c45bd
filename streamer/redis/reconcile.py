"""The content of one write of a run: the changes since the write before, or the run as a whole.

Changes alone would tear a run that Redis has lost, or has from another worker: some keys new, others old or
missing. So each write leaves a mark, and Redis takes changes only behind the mark that they follow. Where it
refuses, the run is sent whole. Either way all keys of the run change in one step.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Protocol

from streamer.aggregate.changes import RunUpdate
from streamer.redis.entry import KeyState, entries_of, last_event_seconds
from streamer.versions import is_older


class RunOwner(Protocol):
    """The owner of runs, which knows their published values."""

    def run_ids(self) -> Iterable[str]:
        """Every run that is owned; may be iterated piecemeal while runs come and go."""

    def standing(self, run_id: str) -> RunUpdate:
        """All of a run as published, from one moment; without summaries for a run that is not owned."""


@dataclass(frozen=True, slots=True)
class Write:
    """One script call.

    Attributes:
        run_id: the run, not encoded.
        entries: what the call sends.
        unsent: values of them that waited for Redis, or older ones that they replace.
        follows: mark that Redis must hold; "": any.
        mark: what it holds afterwards; "": none.
        whole: keys of the run that `entries` does not name go.
    """

    run_id: str
    entries: Sequence[KeyState]
    unsent: Sequence[KeyState]
    follows: str
    mark: str
    whole: bool


class Writes:
    """Makes the writes of one sink.

    Args:
        owner: tells runs as they stand; None: changes are sent as they come, without marks.
    """

    def __init__(self, owner: RunOwner | None) -> None:
        self._owner = owner
        self._name = uuid.uuid4().hex[:12]
        self._numbers = count(1)
        self._marks: dict[str, str] = {}

    def changes(self, run_id: str, unsent: Sequence[KeyState]) -> Write | None:
        """The write of the waiting values; a whole run where the write before is unknown.

        None: the owner does not have the run any more; its new owner sends it.
        """
        if self._owner is None:
            return Write(run_id, unsent, unsent, "", "", whole=False)
        follows = self._marks.get(run_id)
        if follows is None:
            return self.whole(run_id, unsent)
        return Write(run_id, unsent, unsent, follows, self._next_mark(), whole=False)

    def whole(self, run_id: str, unsent: Sequence[KeyState] = ()) -> Write | None:
        """The write of a whole run as it stands, without history and news except the waiting ones."""
        standing = self._owner.standing(run_id) if self._owner else None
        if standing is None or not standing.summaries:
            return None
        entries = {entry.suffix: entry for entry in entries_of(standing, news=False)}
        for entry in unsent:
            other = entries.get(entry.suffix, entry)
            newer = other if is_older(entry.version, other.version) else entry
            entries[entry.suffix] = replace(newer, news=entry.news)
        return Write(run_id, list(entries.values()), unsent, "", self._next_mark(), whole=True)

    def alive(self, run_ids: Iterable[str], since: float | None) -> Iterator[Write]:
        """Whole runs; those whose last event is older than `since` (Unix seconds) have expired."""
        for run_id in run_ids:
            write = self.whole(run_id)
            if write is not None and (since is None or _last_event(write.entries) >= since):
                yield write

    def done(self, write: Write) -> None:
        """Redis holds the mark of this write."""
        if write.mark:
            self._marks[write.run_id] = write.mark

    def forget(self, run_id: str) -> None:
        """Nothing is known of the last write of a run: the next one sends it whole."""
        self._marks.pop(run_id, None)

    def _next_mark(self) -> str:
        return f"{self._name}:{next(self._numbers)}"


def _last_event(entries: Iterable[KeyState]) -> float:
    """Unix seconds of the last event of a run; infinity where it is unknown."""
    return max((last_event_seconds(entry.summary) for entry in entries if entry.summary), default=inf) or inf
