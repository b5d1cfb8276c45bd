"""Faults to plant into a worker, as a plugin of pytest: `MUTANT=NAME pytest -p tests.worker.mutants ...`.

Each breaks one of the promises on which the durability of a worker rests. test_partition.py runs tests
with each of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import pytest

from streamer.folding.fold import Folded, RunRegistry
from streamer.worker import partition
from streamer.worker.agents import Processor
from streamer.worker.partition import Partition, PublishQueue
from streamer.worker.publisher import QuarantineWriter, SummaryPublisher
from streamer.worker.recovery import PartitionRecovery
from streamer.worker.transport import Watchdog

Patch = pytest.MonkeyPatch


def summary_before_page(patch: Patch) -> None:
    """Summaries are sent first, and the pages behind them afterwards."""
    publish, save, late = SummaryPublisher._publish, SummaryPublisher.save, list[Any]()

    async def save_later(self: SummaryPublisher, runs: Iterable[Any]) -> list[Any]:
        late.extend(runs)
        return []

    async def publish_first(self: SummaryPublisher, runs: Any) -> list[Any]:
        await publish(self, runs)
        runs, late[:] = list(late), []
        return await save(self, runs)

    patch.setattr(SummaryPublisher, "save", save_later)
    patch.setattr(SummaryPublisher, "_publish", publish_first)


def run_summary_at_once(patch: Patch) -> None:
    """The summary of a run is sent together with those of its groups."""

    async def write(self: QuarantineWriter, _: Any, records: Iterable[Any]) -> None:
        await self._producer.write(records)

    patch.setattr(QuarantineWriter, "write", write)


def batch_done_at_once(patch: Patch) -> None:
    """A batch is done with the next publication, whatever that published."""

    def take_finished(self: PublishQueue) -> tuple[list[Any], list[Any]]:
        return partition._before(self._batches, self._steps + 1), partition._before(self._replaced, inf)  # type: ignore[arg-type]

    patch.setattr(PublishQueue, "take_finished", take_finished)


def superseded_goes_on(patch: Patch) -> None:
    """A worker that stood still for longer than its session goes on writing."""
    patch.setattr(Watchdog, "check", lambda _: None)


def quarantined_counts(patch: Patch) -> None:
    """Events of a run in quarantine begin it again, from nothing."""
    patch.setattr(RunRegistry, "holds_back", lambda *_: False)
    patch.setattr(RunRegistry, "fail", _forgetting)


def _forgetting(self: RunRegistry, failure: Any, *_: Any) -> None:
    self.open.pop(failure.run_id, None)


def quarantined_blocks(patch: Patch) -> None:
    """A run in quarantine keeps its place in the publish queue."""
    patch.setattr(Partition, "__post_init__", lambda _: None)


def closed_stays_closed(patch: Patch) -> None:
    """An event of a closed run is dropped."""

    async def drop(*_: Any) -> Folded:
        return Folded()

    patch.setattr(Processor, "_fold_closed", drop)


def epoch_goes_on(patch: Patch) -> None:
    """A new log is taken for more of the old one."""

    async def same(self: PartitionRecovery, number: int, as_of: int, end: int, epoch: int) -> int:
        return epoch

    patch.setattr(PartitionRecovery, "_next_epoch", same)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    mutant.__name__: mutant
    for mutant in (
        summary_before_page,
        run_summary_at_once,
        batch_done_at_once,
        superseded_goes_on,
        quarantined_counts,
        quarantined_blocks,
        closed_stays_closed,
        epoch_goes_on,
    )
}


@pytest.fixture(autouse=True)
def _planted(monkeypatch: Patch) -> None:
    if (plant := MUTANTS.get(os.environ["MUTANT"])) is not None:
        plant(monkeypatch)
