"""Answers that need a whole run in memory: worked out one at a time, and few may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from streamer.web.problems import Refused

T = TypeVar("T")

MAX_KEPT = 64
"""Small answers that are kept, the ones asked for last."""

MAX_WAITING = 8
"""Questions that wait while one is worked out."""


class TooManyFolds(Refused):
    """Too many questions wait already."""

    status = 503
    again = True

    def __init__(self) -> None:
        super().__init__(
            f"One run is read from its log at a time, and {MAX_WAITING} other questions wait for that "
            "already. Ask again later"
        )


class LogTruncated(Refused):
    """A log has lost its beginning, so nothing can be folded as of an earlier position.

    Args:
        whose: what the log is of: `run 'r'`, or `partition 3`.
        begins_at: offset at which it begins now.
    """

    status = 409

    def __init__(self, whose: str, begins_at: int) -> None:
        super().__init__(
            f"The log of {whose} begins at offset {begins_at}, because earlier events were deleted. Events "
            "that count may be among them: leave as_of out, or ask `streamer query` with --as-of"
        )


class Folds:
    """One per process: questions are worked out in the order in which they came, each in a thread."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}
        self._kept: dict[Hashable, Any] = {}

    async def answer(self, question: Hashable, work: Callable[[], T], *, keep: bool = False) -> T:
        """What `work` returns; an equal question that is under way is not worked out twice.

        Args:
            question: whatever the answer depends on, with the kind of it and the run.
            work: reads the log and folds; called in a thread.
            keep: keep the answer, which is small, for later equal questions; at most :data:`MAX_KEPT`.

        Raises:
            TooManyFolds: :data:`MAX_WAITING` others wait.
        """
        if question in self._kept:
            kept: T = self._kept.pop(question)
            self._keep(question, kept)
            return kept
        task: asyncio.Task[T] | None = self._under_way.get(question)
        if task is None:
            if len(self._under_way) > MAX_WAITING:
                raise TooManyFolds
            task = self._under_way[question] = asyncio.create_task(self._worked_out(work))
            task.add_done_callback(partial(self._done, question))
        found = await asyncio.shield(task)
        if keep:
            self._keep(question, found)
        return found

    def _keep(self, question: Hashable, found: Any) -> None:
        self._kept[question] = found
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]

    async def _worked_out(self, work: Callable[[], T]) -> T:
        async with self._one_at_a_time:
            return await asyncio.to_thread(work)

    def _done(self, question: Hashable, task: asyncio.Task[Any]) -> None:
        del self._under_way[question]
        if not task.cancelled():
            task.exception()  # the one who asked may have gone, and then nobody else looks at it
