"""What code may hand over to publish, and the exceptions for what is no event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from streamer.schemas.decode import Reason, shown
from streamer.schemas.events import Event

AnEvent: TypeAlias = Event | Mapping[str, Any]
"""A model of `streamer.schemas.events`, or a mapping with the same fields."""


class InvalidEvent(ValueError):
    """The event is invalid and is not sent; events published before and after it are not touched.

    Attributes:
        code: stable, for programs; see `streamer.schemas.decode.Reason`.
        run_id: of the event, None if it names none.
        task_id: likewise.
    """

    def __init__(self, reason: Reason, run_id: str | None = None, task_id: str | None = None) -> None:
        named = (("run", run_id), ("task", task_id))
        of = ", ".join(f"{kind} {shown(name)}" for kind, name in named if name is not None)
        super().__init__(
            f"{of}: {reason.code}: {reason.message}" if of else f"{reason.code}: {reason.message}"
        )
        self.code = reason.code
        self.run_id = run_id
        self.task_id = task_id


class InvalidEvents(ValueError):
    """Some of the published events were invalid; raised when the publisher is closed.

    Attributes:
        count: how many there were.
        first: the first ones, a hundred at most.
    """

    def __init__(self, count: int, first: Sequence[InvalidEvent], kept: Path) -> None:
        super().__init__(
            f"{count:,} published events were invalid and not sent; all others were not touched. The first: "
            f"{first[0]} The invalid ones are in {kept}; correct them and publish them again. To be told of "
            "each one at once instead: TrialPublisher(on_invalid=...)"
        )
        self.count = count
        self.first = tuple(first)
