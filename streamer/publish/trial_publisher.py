"""Publish from a harness: one call per event, which never waits; what the broker does not take waits on disk.

`TrialPublisher` is for plain code, `AsyncTrialPublisher` for asyncio; they differ in `flush` and `close`.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from streamer.publish.capture import capture
from streamer.publish.delivery import Delivery
from streamer.publish.event_arguments import (
    FinishFields,
    PlanFields,
    RetractionFields,
    StartFields,
    TrialFields,
)
from streamer.publish.invalid_events import AnEvent, InvalidEvent, InvalidEvents
from streamer.publish.loop_thread import LoopThread
from streamer.publish.results import Counts
from streamer.publish.spill import spill_dir as default_spill_dir
from streamer.settings import Settings

CLOSE_SECONDS = 10.0
"""How long close() waits for acknowledgements by default."""

REMEMBERED = 100
"""Invalid events are counted all, and kept so many."""

log = logging.getLogger("streamer.client")

_ALIVE: weakref.WeakSet[_Publishing] = weakref.WeakSet()


class _Publishing:
    """The common part of both publishers: everything except waiting.

    Any number of threads may publish. Nothing here raises because of the broker or the disk, except
    NotAccepted when 64 MiB wait in memory. A process that forks must make a new publisher in the child.

    Args:
        settings: where the broker is; None: as every command finds it (environment, file, running `up`).
        spill_dir: where events wait while the broker is away; None: a folder per broker and namespace in the
            user's data directory. Whatever earlier processes left there is sent along.
        close_seconds: how long close() waits for acknowledgements.
        on_invalid: called with each invalid event, in a thread of the publisher: it must not wait for
            anything. None: close() raises InvalidEvents if there were any.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        spill_dir: Path | str | None = None,
        close_seconds: float = CLOSE_SECONDS,
        on_invalid: Callable[[InvalidEvent], object] | None = None,
    ) -> None:
        settings = settings or Settings()
        directory = Path(spill_dir) if spill_dir is not None else default_spill_dir(settings)
        self._close_seconds = close_seconds
        self._on_invalid = on_invalid
        self._invalid: list[InvalidEvent] = []
        self._invalid_count = 0
        self._forked = False
        self._ended = False
        self._thread = LoopThread("streamer-publisher")
        self._delivery = self._thread.submit(_make(settings, directory.absolute(), self._tell)).result()
        _ALIVE.add(self)
        atexit.register(self._close_at_exit)

    def publish(self, event: AnEvent) -> None:
        """Take an event: a mapping, or a model of `streamer.schemas.events`. Returns at once; see `flush`.

        It is checked in the background; see `on_invalid`. You may change a mapping and its contents
        afterwards. The exception is a `benchmarks` dictionary of more than 64 entries, which is not copied.
        Hand over a new one for each event, and leave it and its contents alone. Likewise a model.

        Raises:
            TypeError: it is neither.
            InvalidEvent: it holds what JSON cannot (a set, NaN), or more than 1 MiB. It is counted, and
                nothing else happens.
            NotAccepted: memory is full, since neither the broker nor the disk takes anything.
            RuntimeError: the publisher is closed, or was made before a fork.
        """
        if self._forked:
            raise RuntimeError(
                "the process has forked since this publisher was made, and its thread stayed in the parent. "
                "Make a new one in the child"
            )
        try:
            taken = capture(event)
        except InvalidEvent:
            self._delivery.count_unfit()
            raise
        self._delivery.accept(taken)

    def trial(self, *, run_id: str, task_id: str, **fields: Unpack[TrialFields]) -> None:
        """Publish a finished trial; the same slot again with a higher `revision` corrects it."""
        self.publish({"type": "trial_result", "run_id": run_id, "task_id": task_id, **fields})

    def started(self, *, run_id: str, task_id: str, **fields: Unpack[StartFields]) -> None:
        """Publish that a trial has started; boards show it in flight until its result comes."""
        self.publish({"type": "trial_started", "run_id": run_id, "task_id": task_id, **fields})

    def run_started(self, *, run_id: str, **plan: Unpack[PlanFields]) -> None:
        """Publish the known parts of the plan; more of it may follow."""
        self.publish({"type": "run_started", "run_id": run_id, **plan})

    def run_finished(self, *, run_id: str, **fields: Unpack[FinishFields]) -> None:
        """Publish that a run is over."""
        self.publish({"type": "run_finished", "run_id": run_id, **fields})

    def retract(self, *, run_id: str, task_id: str, revision: int, **slot: Unpack[RetractionFields]) -> None:
        """Withdraw what a slot held up to `revision`; only a higher revision fills it again."""
        ids = {"run_id": run_id, "task_id": task_id, "revision": revision}
        self.publish({"type": "trial_retracted", **ids, **slot})

    @property
    def counts(self) -> Counts:
        """Where the events are: sent, spilled, rejected, pending."""
        return self._delivery.counts

    @property
    def problem(self) -> str | None:
        """Why events do not arrive at the moment, None if all is well."""
        return self._delivery.problem

    @property
    def invalid(self) -> tuple[InvalidEvent, ...]:
        """Events that turned out to be invalid since they were taken: the first hundred."""
        return tuple(self._invalid)

    def _tell(self, error: InvalidEvent) -> None:
        """Keep it, and pass it on; in the loop of the publisher."""
        self._invalid_count += 1
        if len(self._invalid) < REMEMBERED:
            self._invalid.append(error)
        if self._on_invalid is not None:
            try:
                self._on_invalid(error)
            except Exception:
                log.exception("on_invalid failed when it was told: %s", error)

    def _judged(self, counts: Counts) -> Counts:
        """The final counts, unless the caller must still learn of invalid events."""
        if self._invalid and self._on_invalid is None:
            raise InvalidEvents(self._invalid_count, self._invalid, self._delivery.refused)
        return counts

    def _closing(self) -> Future[Counts]:
        """Start to close, from any thread; once."""
        self._ended = True
        atexit.unregister(self._close_at_exit)
        return self._thread.submit(self._delivery.close(self._close_seconds))

    def _close_at_exit(self) -> None:
        """Close the publisher, if it is still open."""
        if not self._ended:
            self._closing().result()

    def _forget(self) -> None:
        """In a forked child: the thread, the connection and the files are the parent's."""
        self._forked = self._ended = True
        self._delivery.forget()


class TrialPublisher(_Publishing):
    """Publishes from plain code; use it as a context manager, or call `close()`.

    >>> with TrialPublisher() as publisher:  # doctest: +SKIP
    ...     publisher.trial(run_id="nightly", task_id="t1", agent="terminus", model="gpt-5", resolved=True)
    """

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until everything is acknowledged; False if it is not within that time (None: no limit)."""
        return self._thread.submit(self._delivery.flush(timeout_seconds)).result()

    def close(self) -> Counts:
        """Wait for acknowledgements, at most `close_seconds`; what is not at the broker then is on the disk.

        Returns the final counts; `pending` events are in `files`, and the next publisher sends them.

        Raises:
            EventsLost: the disk did not take them either.
            InvalidEvents: some were invalid, and `on_invalid` was not given. All is closed nevertheless.
        """
        if self._ended:
            return self.counts
        try:
            return self._judged(self._closing().result())
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _not_instead_of(error):
            self.close()


class AsyncTrialPublisher(_Publishing):
    """Publishes from asyncio code; use it as an async context manager, or await `close()`.

    `publish` and its like are plain methods: they never wait. The work is done in a thread, so that neither
    the disk nor the broker holds up the caller's loop.
    """

    async def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until everything is acknowledged; False if it is not within that time (None: no limit)."""
        return await asyncio.wrap_future(self._thread.submit(self._delivery.flush(timeout_seconds)))

    async def close(self) -> Counts:
        """As TrialPublisher.close."""
        if self._ended:
            return self.counts
        try:
            return self._judged(await asyncio.shield(asyncio.wrap_future(self._closing())))
        finally:
            await asyncio.to_thread(self._thread.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _not_instead_of(error):
            await self.close()


@contextmanager
def _not_instead_of(error: BaseException | None) -> Iterator[None]:
    """Invalid events are not raised in place of what is raised already; they are logged."""
    try:
        yield
    except InvalidEvents:
        if error is None:
            raise


async def _make(settings: Settings, directory: Path, tell: Callable[[InvalidEvent], object]) -> Delivery:
    return Delivery(settings, directory, tell)


def _after_fork() -> None:
    for publisher in list(_ALIVE):
        publisher._forget()


os.register_at_fork(after_in_child=_after_fork)
