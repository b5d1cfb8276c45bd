"""A worker on which trials of one task fail, run as `python -m tests.worker.poisoned`.

The variable POISON names where: `score`, `cut`, `page` or `load`; or `size`: no record may be large.
POISON_TASK names the task; without it the task is `poison`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
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
    for place in os.environ["POISON"].split(","):
        if place == "size":
            transport.MAX_RECORD_BYTES = MOST_BYTES
        else:
            _poison(*PLACES[place])
    return run_worker(Settings())


def _poison(owner: Any, name: str, tasks_of: Callable[..., set[str]]) -> None:
    """Let a function fail for the task."""
    work = getattr(owner, name)

    def poisoned(*given: Any) -> Any:
        if TASK in tasks_of(*given):
            raise Poisoned("cannot be divided")
        return work(*given)

    setattr(owner, name, poisoned)


def _tasks(run: Any) -> set[str]:
    return {key.task_id for key in run.slots}


PLACES: dict[str, tuple[Any, str, Callable[..., set[str]]]] = {
    "score": (state, "score_trial", lambda event, *_: {event.task_id}),
    "cut": (summaries, "run_body", lambda at: _tasks(at.run)),
    "page": (PageBook, "writes", lambda book: _tasks(book.run)),
    "load": (PageBook, "note_foreign", lambda book, *_: _tasks(book.run)),
}


if __name__ == "__main__":
    sys.exit(main())
