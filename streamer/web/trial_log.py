"""The scored trials of the runs that people look at: Redis has none, so they are read from the log.

Of each trial only the fields of a list are kept, and where the whole of it stands. The whole is read on
request. A run is read from its beginning once, then only what came since.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from streamer.client.scored_trial_reader import ScoredTrialReader, TrialChange
from streamer.kafka.log import read_batches
from streamer.kafka.names import Names
from streamer.settings import Settings
from streamer.views.models import TrialRow
from streamer.views.trial_rows import row_of

MAX_TRIALS = 200_000
"""So many trials are held in all; about 1 KiB each."""

FRESH_SECONDS = 2.0
"""A log that was read so recently is not read again."""


class TooManyTrials(Exception):
    """A run is too large for this view."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id!r} has more than {MAX_TRIALS:,} scored trials, more than this server holds. "
            "`streamer query trials` prints them all"
        )


class TrialMoved(Exception):
    """The trial was scored again while it was being read."""

    def __init__(self) -> None:
        super().__init__("This trial was scored again just now: ask once more")


@dataclass(frozen=True, slots=True)
class HeldTrial:
    """The stored facts about a trial: its row, and where its record stands."""

    row: TrialRow
    key: bytes
    offset: int


@dataclass(slots=True)
class _TrialsOfRun:
    """The trials of one run, as far as they have been read."""

    reader: ScoredTrialReader
    trials: dict[str, HeldTrial]
    lock: asyncio.Lock
    next_offset: int = 0
    read_at: float = float("-inf")


class TrialLog:
    """Scored trials by run.

    Args:
        settings: where the broker is.
        clock: seconds, monotonic.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._topic = Names(settings.namespace).scored_trials
        self._clock = clock
        self._runs: dict[str, _TrialsOfRun] = {}

    async def trials(self, run_id: str) -> dict[str, HeldTrial]:
        """Trial id to trial, the one that changed last at the end; not to be changed.

        Raises:
            TooManyTrials: the run has more than MAX_TRIALS.
            TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
        """
        run = self._runs.pop(run_id, None) or _TrialsOfRun(ScoredTrialReader(run_id), {}, asyncio.Lock())
        self._runs[run_id] = run  # the last one in the order of eviction
        async with run.lock:
            if self._clock() - run.read_at >= FRESH_SECONDS:
                await self._read_on(run_id, run)
                run.read_at = self._clock()
        return run.trials

    async def payload(self, run_id: str, trial_id: str) -> bytes | None:
        """The scored trial as published; None: the run has no such trial.

        Raises:
            TrialMoved: it changed meanwhile; ask again.
        """
        held = (await self.trials(run_id)).get(trial_id)
        if held is None:
            return None
        batches = read_batches(self._settings, self._topic, run_id=run_id, start=held.offset)
        try:
            for record in await anext(batches, []):
                if record.offset == held.offset and record.key == held.key:
                    return bytes(record.value)
        finally:
            await batches.aclose()  # type: ignore[attr-defined]
        self._runs[run_id].read_at = float("-inf")
        raise TrialMoved

    async def _read_on(self, run_id: str, run: _TrialsOfRun) -> None:
        try:
            async for batch in read_batches(
                self._settings, self._topic, run_id=run_id, start=run.next_offset
            ):
                for record in batch:
                    if (change := run.reader.change(record)) is not None:
                        _take(run, change)
                    run.next_offset = record.offset + 1
                self._make_room(run_id, run)
                await asyncio.sleep(0)
        except TooManyTrials:
            self._runs.pop(run_id, None)
            raise

    def _make_room(self, run_id: str, run: _TrialsOfRun) -> None:
        """Forget the runs that were not asked for the longest."""
        if len(run.trials) > MAX_TRIALS:
            raise TooManyTrials(run_id)
        while sum(len(other.trials) for other in self._runs.values()) > MAX_TRIALS:
            del self._runs[next(name for name in self._runs if name != run_id)]


def _take(run: _TrialsOfRun, change: TrialChange) -> None:
    """What changed last stands at the end."""
    trial_id = hashlib.sha256(change.key).hexdigest()[:24]
    run.trials.pop(trial_id, None)
    if change.trial is not None:
        run.trials[trial_id] = HeldTrial(row_of(trial_id, change.trial), change.key, change.offset)
