"""Fold a file or a finished log: the same answer as the worker gives, without a broker.

>>> from streamer.records import records_of_lines
>>> lines = [b'{"type": "trial_result", "run_id": "r", "task_id": "t"}', b"garbage"]
>>> folding = fold_records(records_of_lines(lines))
>>> [change.key for change in folding.summaries()]
['r|unknown:unknown', 'r']
>>> folding.counts.counted, folding.rejected
(1, 1)
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from typing import TypeAlias

from streamer.aggregate.changes import SummaryChange
from streamer.decoding import Folded
from streamer.pipeline import Pipeline
from streamer.records import Failure, LogRecord, Position, Rejected, up_to
from streamer.score import PriceTable

BATCH = 1_000
"""Records that are folded at once."""

After: TypeAlias = Callable[[Pipeline, Sequence[LogRecord], Folded], None]
"""Called after records were folded, with what folding them did."""


class CannotBeFolded(Exception):
    """An exception sets the run apart; nothing can be said of it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            f"run {failure.run_id!r} cannot be folded: {failure.reason}. Its events are kept as they are; "
            "please report it, and try again after an upgrade"
        )


class NoSuchRun(Exception):
    """A file of events holds no such run, or several without a choice."""

    def __init__(self, run_id: str | None, known: Sequence[str]) -> None:
        shown = ", ".join(known[:5])
        if not known:
            text = "the file holds no run. `streamer fold` says what is wrong with its lines"
        elif run_id is None:
            text = f"the file holds {len(known)} runs ({shown}): say which one, or give a file with one"
        else:
            close = get_close_matches(run_id, known, n=5, cutoff=0.4)
            hint = f"Did you mean {', '.join(close)}?" if close else f"It holds {len(known)}: {shown}."
            text = f"the file holds no run {run_id!r}. {hint}"
        super().__init__(text)
        self.known = known


@dataclass(slots=True)
class Folding:
    """The result of a fold.

    Attributes:
        pipeline: the state of every run, to look deeper into.
        counts: records by what they did, over everything folded; its lists stay empty.
        rejected: how many records were rejected.
        exits: see :func:`fold_records`.
    """

    pipeline: Pipeline
    counts: Folded = field(default_factory=Folded)
    rejected: int = 0
    exits: bool = False

    @property
    def failed(self) -> list[Failure]:
        """Runs that could not be folded or summarised, by id; they have no results."""
        return [failure for _, failure in sorted(self.pipeline.failed.items())]

    def runs(self) -> list[str]:
        """Ids of the runs that exist, sorted."""
        return sorted(run_id for run_id in self.pipeline.runs() if self.pipeline.run(run_id).state.exists)

    def chosen(self, run_id: str | None) -> str:
        """The run of this id, or the only one there is.

        Raises:
            NoSuchRun: there is none of this id, or several without a choice.
            CannotBeFolded: an exception sets it apart.
        """
        known, failed = self.runs(), self.pipeline.failed
        if run_id in failed or (failed and not known):
            raise CannotBeFolded(failed[run_id or next(iter(failed))])
        if run_id is None and len(known) == 1:
            return known[0]
        if run_id is None or run_id not in known:
            raise NoSuchRun(run_id, known)
        return run_id

    def summaries(self) -> Iterator[SummaryChange]:
        """Every summary of every run; by run, agents and tiers by name, the run itself last."""
        for run_id in self.runs():
            yield from self.summaries_of(run_id)

    def summaries_of(self, run_id: str) -> list[SummaryChange]:
        """Every summary of a run; [] if an exception sets the run apart."""
        with _no_garbage_collection(for_good=self.exits):
            try:
                return self.pipeline.run(run_id).summaries()
            except Exception as error:
                self.pipeline.fail(run_id, error)
                return []


def fold_records(
    records: Iterable[LogRecord],
    *,
    prices: PriceTable | None = None,
    epoch: int = 1,
    owns: Callable[[str], bool] | None = None,
    on_rejected: Callable[[Rejected], None] | None = None,
    as_of: Position | None = None,
    step: int = BATCH,
    after: After | None = None,
    takes_changes: bool = False,
    exits: bool = False,
) -> Folding:
    """Fold records, in any order and any number of copies. For runs that fail see `failed`.

    Args:
        records: read once, in batches; they are not kept.
        prices: price table (R2), the default one if None.
        epoch: the one that the summaries carry.
        owns: only runs of which this is true of their id; every run if None.
        on_rejected: called with every record that could not be folded.
        as_of: fold those at or before this position; they are of one partition, or of a file, in its order.
        step: so many records are folded at once.
        after: called after each step.
        takes_changes: see :class:`~streamer.pipeline.Pipeline`.
        exits: the process ends once it has printed the result, so it never looks through it for garbage.

    Raises:
        BadPosition: the records cannot be folded up to that position. Without `as_of` nothing is raised.
    """
    pipeline = Pipeline(prices=prices, epoch=epoch, owns=owns, takes_changes=takes_changes)
    folding = Folding(pipeline, exits=exits)
    left = iter(records if as_of is None else up_to(records, as_of))
    with _no_garbage_collection(for_good=exits):
        while batch := list(islice(left, step)):
            folded = pipeline.fold(batch)
            _add(folding.counts, folded)
            folding.rejected += len(folded.rejections)
            if on_rejected is not None:
                for rejected in folded.rejections:
                    on_rejected(rejected)
            if after is not None:
                after(pipeline, batch, folded)
    return folding


@contextmanager
def _no_garbage_collection(*, for_good: bool) -> Iterator[None]:
    """Folding leaves no cycles behind, and looking for some takes a sixth of the time.

    Args:
        for_good: what there is afterwards is never looked through, nor freed if it is garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if for_good:
            gc.freeze()
        if enabled:
            gc.enable()


def _add(total: Folded, folded: Folded) -> None:
    for name in (
        "records",
        "counted",
        "duplicates",
        "superseded",
        "ignored",
        "held",
        "unknown_fields",
        "missing_times",
    ):
        setattr(total, name, getattr(total, name) + getattr(folded, name))
