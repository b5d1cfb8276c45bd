"""What a partition owes the world for batches that are folded and saved, and what follows once it is paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from streamer.worker.alive import clock
from streamer.worker.batches import Batch
from streamer.worker.output import Out


@dataclass(slots=True)
class Bill:
    """Some batches, and what stands between them and being done.

    Attributes:
        runs: those to be published, in the order in which they were owed.
        batches: done when the runs are published.
        replaced: tombstones of state pages that others replaced, sent when the runs are published.
    """

    runs: dict[str, None] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    replaced: list[Out] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs or self.batches or self.replaced)


class Debt:
    """Two bills: the one that is being paid, and what has come since.

    So each batch is done at some time, however many runs the batches after it touch. A run that is paid is
    off both.

    >>> debt, first, second = Debt(), *(Batch("t", 0, []) for _ in range(2))
    >>> debt.owe(["a", "b"])
    >>> debt.add_batch(first)
    >>> debt.next_runs(1)
    ['a']
    >>> debt.owe(["a", "c"])
    >>> debt.add_batch(second)
    >>> debt.paid(["a"]), debt.settled(), debt.next_runs(9)
    (None, None, ['b'])
    >>> debt.paid(["b"]), debt.settled().batches == [first], debt.next_runs(9)
    (None, True, ['c'])
    """

    def __init__(self, now: Callable[[], float] = clock) -> None:
        self._now = now
        self._due, self._later = Bill(), Bill()
        self._called_in = now()

    def __bool__(self) -> bool:
        """True if anything is owed, be it only that a batch is done."""
        return bool(self._due or self._later)

    @property
    def runs(self) -> set[str]:
        """Every run that is owed."""
        return {*self._due.runs, *self._later.runs}

    @property
    def seconds(self) -> float:
        """For how long the bill has been open that is being paid; 0.0 if none is."""
        return self._now() - self._called_in if self._due else 0.0

    def owe(self, runs: Iterable[str]) -> None:
        """These runs are to be published."""
        self._later.runs.update(dict.fromkeys(runs))

    def add_batch(self, batch: Batch) -> None:
        """This batch is done when what is owed by now is paid."""
        self._later.batches.append(batch)

    def add_replaced(self, tombstones: Iterable[Out]) -> None:
        """And these are to be sent then."""
        self._later.replaced += tombstones

    def next_runs(self, most: int) -> list[str]:
        """So many runs to publish next at most, those that have been owed for the longest time."""
        if not self._due:
            self._due, self._later = self._later, Bill()
            self._called_in = self._now()
        return list(islice(self._due.runs, most))

    def paid(self, runs: Iterable[str]) -> None:
        """These runs are published as they are."""
        for run_id in runs:
            self._due.runs.pop(run_id, None)
            self._later.runs.pop(run_id, None)

    def settled(self) -> Bill | None:
        """The bill that is being paid, if all its runs are: forgotten here; None if there is none."""
        if self._due.runs or not self._due:
            return None
        bill, self._due = self._due, Bill()
        return bill

    def cancel(self) -> Bill:
        """Everything on both bills, forgotten here: it was published otherwise."""
        due, later = self._due, self._later
        self._due, self._later = Bill(), Bill()
        return Bill(due.runs | later.runs, due.batches + later.batches, due.replaced + later.replaced)
