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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from streamer.aggregate.changes import SummaryChange
from streamer.decoding import Folded
from streamer.pipeline import Pipeline
from streamer.records import Failure, LogRecord, Rejected
from streamer.score import PriceTable

BATCH = 1_000
"""Records that are folded at once."""


class CannotBeFolded(Exception):
    """An exception sets the run apart; nothing can be said of it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            f"run {failure.run_id!r} cannot be folded: {failure.reason}. Its events are kept as they are; "
            "please report it, and try again after an upgrade"
        )


@dataclass(slots=True)
class Folding:
    """The result of a fold.

    Attributes:
        pipeline: the state of every run, to look deeper into.
        counts: records by what they did, over everything folded; its lists stay empty.
        rejected: how many records were rejected.
    """

    pipeline: Pipeline
    counts: Folded = field(default_factory=Folded)
    rejected: int = 0

    @property
    def failed(self) -> list[Failure]:
        """Runs that could not be folded or summarised, by id; they have no results."""
        return [failure for _, failure in sorted(self.pipeline.failed.items())]

    def runs(self) -> list[str]:
        """Ids of the runs that exist, sorted."""
        return sorted(run_id for run_id in self.pipeline.runs() if self.pipeline.run(run_id).state.exists)

    def summaries(self) -> Iterator[SummaryChange]:
        """Every summary of every run; by run, agents and tiers by name, the run itself last."""
        for run_id in self.runs():
            yield from self.summaries_of(run_id)

    def summaries_of(self, run_id: str) -> list[SummaryChange]:
        """Every summary of a run; [] if an exception sets the run apart."""
        with _no_garbage_collection(set_aside=True):
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
) -> Folding:
    """Fold records, in any order and any number of copies; never raises: see `rejected` and `failed`.

    Args:
        records: read once, in batches; they are not kept.
        prices: price table (R2), the default one if None.
        epoch: the one that the summaries carry.
        owns: only runs of which this is true of their id; every run if None.
        on_rejected: called with every record that could not be folded.
    """
    folding = Folding(Pipeline(prices=prices, epoch=epoch, owns=owns, takes_changes=False))
    left = iter(records)
    with _no_garbage_collection(set_aside=True):
        while batch := list(islice(left, BATCH)):
            folded = folding.pipeline.fold(batch)
            _add(folding.counts, folded)
            folding.rejected += len(folded.rejections)
            if on_rejected is not None:
                for rejected in folded.rejections:
                    on_rejected(rejected)
    return folding


@contextmanager
def _no_garbage_collection(*, set_aside: bool = False) -> Iterator[None]:
    """Folding leaves no cycles behind, and looking for some takes a sixth of the time.

    Args:
        set_aside: do so with what there is afterwards, or the first collection would look through all of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if set_aside:
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
