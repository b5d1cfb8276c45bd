"""Waiting until a run has reached a condition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from streamer.client.lifecycle import is_over, plan_words, state_of
from streamer.client.results import ReaderError
from streamer.schemas.summaries import RunSummary

Predicate: TypeAlias = Callable[[RunSummary], bool]


class NotReached(ReaderError, TimeoutError):
    """A run did not reach the condition within the given time.

    Attributes:
        last: what stood there last, None if there was no such run.
    """

    def __init__(self, run_id: str, seconds: float | None, last: RunSummary | None) -> None:
        where = "there is no such run yet" if last is None else _where(last)
        super().__init__(f"Run {run_id!r} did not get there within {seconds or 0:g} s: {where}")
        self.last = last


def finished(run: RunSummary) -> bool:
    """True for a run whose state is `finished` or `complete`.

    Results may still come: order is irrelevant, and such a run takes corrections.
    """
    return is_over(run)


def _where(run: RunSummary) -> str:
    planned = "?" if run.progress.planned is None else f"{run.progress.planned:,}"
    words = (f"{run.progress.done:,} of {planned} slots filled", plan_words(run))
    return ", ".join([*filter(None, words), state_of(run, datetime.now(UTC))])
