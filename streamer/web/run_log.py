"""What a topic says of the runs that people look at: read once, then only what came since."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streamer.kafka.log import read_batches
from streamer.kafka.reader import LogRecord
from streamer.settings import Settings
from streamer.web.problems import Refused

MAX_TRIALS = 200_000
"""So many trials are held in all; about 1 KiB each."""

FRESH_LOG_SECONDS = 2.0
"""A log that was read so recently is not read again."""

AT_ONCE = 200
"""Records that are taken before other requests have a turn."""


class TooManyTrials(Refused):
    """A run is too large for this view."""

    status = 503

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id!r} has results for more than {MAX_TRIALS:,} trials, more than this server holds. "
            "`streamer query trials` prints them all"
        )


class Reading(Protocol):
    """The records of one run, as far as they are kept."""

    @property
    def held(self) -> Collection[object]:
        """One for each trial."""
        ...

    def take(self, record: LogRecord) -> None:
        """One record of the topic's partition; it may be about another run."""
        ...


R = TypeVar("R", bound=Reading)


@dataclass(slots=True)
class _Run(Generic[R]):
    reading: R
    lock: asyncio.Lock
    next_offset: int = 0
    read_at: float = float("-inf")


class CachedRunLog(Generic[R]):
    """Reads one topic for each run that is asked for, and forgets the runs whose last request is oldest.

    Args:
        settings: where the broker is.
        topic: its full name.
        start: makes an empty reading of a run, by its id.
        clock: seconds, monotonic.
    """

    def __init__(
        self, settings: Settings, topic: str, start: Callable[[str], R], clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._start = start
        self._clock = clock
        self._runs: dict[str, _Run[R]] = {}

    @property
    def runs(self) -> Collection[str]:
        """The runs that are held."""
        return self._runs.keys()

    async def of(self, run_id: str) -> R:
        """What the topic says of a run; not to be changed.

        Raises:
            TooManyTrials: the run has more than MAX_TRIALS.
            TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
        """
        run = self._runs.pop(run_id, None) or _Run(self._start(run_id), asyncio.Lock())
        self._runs[run_id] = run  # the last one in the order of eviction
        async with run.lock:
            if self._clock() - run.read_at >= FRESH_LOG_SECONDS:
                await self._read_on(run_id, run)
                run.read_at = self._clock()
        return run.reading

    def read_again(self, run_id: str) -> None:
        """The reading of a run is out of date: the next question reads on."""
        if run_id in self._runs:
            self._runs[run_id].read_at = float("-inf")

    async def record_at(self, run_id: str, offset: int) -> LogRecord | None:
        """The record at an offset of the run's partition; None: it is not there any more."""
        batches = read_batches(self._settings, self._topic, run_id=run_id, start=offset)
        try:
            found = (record for record in await anext(batches, []) if record.offset == offset)
            return next(found, None)
        finally:
            await batches.aclose()  # type: ignore[attr-defined]

    async def _read_on(self, run_id: str, run: _Run[R]) -> None:
        try:
            async for batch in read_batches(
                self._settings, self._topic, run_id=run_id, start=run.next_offset
            ):
                for start in range(0, len(batch), AT_ONCE):
                    for record in batch[start : start + AT_ONCE]:
                        run.reading.take(record)
                        run.next_offset = record.offset + 1
                    self._make_room(run_id, run)
                    await asyncio.sleep(0)
        except TooManyTrials:
            self._runs.pop(run_id, None)
            raise

    def _make_room(self, run_id: str, run: _Run[R]) -> None:
        """Forget the runs that were not asked for the longest."""
        if len(run.reading.held) > MAX_TRIALS:
            raise TooManyTrials(run_id)
        while sum(len(other.reading.held) for other in self._runs.values()) > MAX_TRIALS:
            del self._runs[next(name for name in self._runs if name != run_id)]
