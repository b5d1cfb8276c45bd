"""A worker on which trials of one task fail, run as `python -m tests.worker.poisoned`.

The variable POISON names where: `score`, `cut`, `page` or `load`; or `size`: no record may be large.
POISON_TASK names the task; without it the task is `poison`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from streamer.folding import state, summaries
from streamer.folding.run import PageBook
from streamer.settings import Settings
from streamer.worker import transport
from streamer.worker.process import run_worker

POISON = "poison"
TASK = os.environ.get("POISON_TASK", POISON)
MOST_BYTES = 20_000
"""With `size`: more than the summary of a run with few agents has, less than that of one with many."""


class Poisoned(ArithmeticError):
    """What a bug would raise."""


def main() -> int:
    """Poison it, then run the worker."""
    for place in os.environ["POISON"].split(","):
        {"score": _score, "cut": _cut, "page": _page, "load": _load, "size": _size}[place]()
    return run_worker(Settings())


def _raise_for(run: Any) -> None:
    if any(key.task_id == TASK for key in run.slots):
        raise Poisoned("cannot be divided")


def _score() -> None:
    score = state.score_trial

    def poisoned(event: Any, *given: Any) -> Any:
        if event.task_id == TASK:
            raise Poisoned("cannot be divided")
        return score(event, *given)

    state.score_trial = poisoned  # type: ignore[attr-defined]


def _cut() -> None:
    run_body = summaries.run_body

    def poisoned(at: summaries.Moment) -> Any:
        _raise_for(at.run)
        return run_body(at)

    summaries.run_body = poisoned  # type: ignore[attr-defined]


def _page() -> None:
    writes = PageBook.writes

    def poisoned(self: PageBook) -> Any:
        _raise_for(self.run)
        return writes(self)

    PageBook.writes = poisoned  # type: ignore[method-assign]


def _load() -> None:
    note = PageBook.note_foreign

    def poisoned(self: PageBook, *given: Any) -> None:
        _raise_for(self.run)
        note(self, *given)

    PageBook.note_foreign = poisoned  # type: ignore[method-assign]


def _size() -> None:
    transport.MAX_RECORD_BYTES = MOST_BYTES


if __name__ == "__main__":
    sys.exit(main())
