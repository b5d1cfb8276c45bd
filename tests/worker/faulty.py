"""A worker with a fault, run as `python -m tests.worker.faulty`; the variable FAULT names it.

- `dies_after_pages`: killed between the writes of a run's pages and its summaries.
- `dies_after_groups`: killed between the summaries of a run's groups and its own.
- `waits_after_pages`: says "pages written" and waits there for a while, at each publication.
- `zombie`: the same, and does not notice that it was stopped.
- `cannot_load`: an exception in the rebuild.
- `loses_pages`: a page that is looked up by its key is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from streamer.settings import Settings
from streamer.storage.outbox import ProducerRecord
from streamer.worker.partition import is_page
from streamer.worker.process import run_worker
from streamer.worker.recovery import PartitionRecovery
from streamer.worker.tables import StateTable
from streamer.worker.transport import Producer, Watchdog

WAIT_SECONDS = 2.0


def main() -> int:
    fault = os.environ["FAULT"]
    save, get, write = StateTable.save, StateTable.get, Producer.write

    async def save_and_fail(self: StateTable, records: Iterable[ProducerRecord], *more: Any) -> None:
        rows = list(records)
        await save(self, rows, *more)
        if not any(row.value and row.key and is_page(row.key.decode()) for row in rows):
            return
        if fault == "dies_after_pages":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stderr.write("pages written\n")
        await asyncio.sleep(WAIT_SECONDS)

    async def die_after_groups(self: Producer, records: Iterable[ProducerRecord]) -> None:
        rows = list(records)
        if any(row.topic.endswith("run-summaries") for row in rows):
            os.kill(os.getpid(), signal.SIGKILL)
        await write(self, rows)

    async def raise_at_load(*_: Any, **__: Any) -> Any:
        raise RuntimeError("injected into the rebuild")

    def get_no_page(self: StateTable, key: str) -> bytes | None:
        no_page = self.topic.endswith("trials-changelog") and is_page(key)
        return None if no_page else get(self, key)

    if fault == "loses_pages":
        StateTable.get = get_no_page  # type: ignore[method-assign]
    if fault == "dies_after_groups":
        Producer.write = die_after_groups  # type: ignore[method-assign]
    if fault in {"dies_after_pages", "waits_after_pages", "zombie"}:
        StateTable.save = save_and_fail  # type: ignore[method-assign]
    if fault == "zombie":
        Watchdog.check = lambda self: None  # type: ignore[method-assign]
    if fault == "cannot_load":
        PartitionRecovery._load = raise_at_load  # type: ignore[method-assign]
    return run_worker(Settings())


if __name__ == "__main__":
    sys.exit(main())
