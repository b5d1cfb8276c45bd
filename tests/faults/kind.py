"""What a fault is."""

from __future__ import annotations

import time

from tests.faults.bed import Bed


class Kind:
    """One kind of fault; an instance is one injection.

    Attributes:
        name: in the table.
        engines: where it can be had.
        zombie: whether somebody may have written who no longer owned what it wrote: then everything is
            restarted before the comparison, which is when a lost page shows.
        quiet: whether nothing may be published after it until the comparison, since the next
            publication would cover up what it did.
        hold_seconds: how long it lasts.
        compared_meanwhile: whether everything is compared also while it lasts.
    """

    name: str
    engines: tuple[str, ...] = ("kafka", "kafka3", "embedded")
    zombie = False
    quiet = False
    compared_meanwhile = False
    hold_seconds = 1.0

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.rng = bed.rng
        self.notes: list[str] = []

    @classmethod
    def missing(cls) -> str | None:
        """What this machine lacks for it, None if nothing."""
        return None

    def prepare(self) -> None:
        """Whatever has to be there before events fly."""

    def inject(self) -> None:
        """Break it."""
        raise NotImplementedError

    def last(self) -> None:
        """Let it last; the publisher goes on."""
        time.sleep(self.hold_seconds)

    def heal(self) -> None:
        """Mend it."""

    def tidy(self) -> None:
        """After everything is current again: leave the bed as it was found."""

    def a_worker(self) -> int:
        """One of the workers."""
        return self.rng.choice(self.bed.fleet.numbers())
