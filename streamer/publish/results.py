"""The answers of a publisher, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Most that is kept in memory, if the broker is away and the disk takes nothing: about 100,000 events."""


class NotAccepted(Exception):
    """An event was not taken: memory is full, since neither the broker nor the disk takes any."""

    def __init__(self, waiting: int, problem: str | None) -> None:
        super().__init__(
            f"the event was not taken: {waiting:,} events ({MAX_WAITING_BYTES // 2**20} MiB) wait in memory "
            f"already ({problem or 'they come faster than they can be sent'}). Try again later"
        )


class EventsLost(Exception):
    """Accepted events are neither at the broker nor on the disk."""

    def __init__(self, lost: int, problem: str | None) -> None:
        super().__init__(
            f"{lost:,} events are lost: the broker did not take them and the disk neither "
            f"({problem or 'no reason known'}). Publish the same events again: duplicates do not count"
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the events are.

    Attributes:
        sent: acknowledged by the broker, earlier processes' events included.
        spilled: written to the disk so far, sent since or not.
        rejected: were no events, or the broker refused them for good.
        pending: accepted, or left behind by earlier processes, and not acknowledged.
        files: the files of pending events that are on the disk.
    """

    sent: int
    spilled: int
    rejected: int
    pending: int
    files: tuple[Path, ...] = ()
