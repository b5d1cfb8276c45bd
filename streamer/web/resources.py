"""What the answers draw on: readers, streams, the way to the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from streamer.client.async_reader import AsyncStateReader
from streamer.client.results import HistoryEntry
from streamer.prices_file import price_table
from streamer.settings import Settings
from streamer.web.event_intake import EventIntake
from streamer.web.folds import Folds
from streamer.web.hub import Hub
from streamer.web.leaderboards import Leaderboards
from streamer.web.run_curves import CurveCache
from streamer.web.run_directories import RunDirectories
from streamer.web.runs_as_of import RunsAsOf
from streamer.web.trial_events import TrialEvents
from streamer.web.trial_log import TrialLog

HISTORY_SECONDS = 2.0
"""A run's history that was read so recently is not read again."""

MAX_HISTORIES = 16


class Web:
    """Everything that answers draw on, and the way to the broker; one per process.

    Attributes:
        settings: where Redis and the broker are.
        prices: price table of the runs that are folded here (R2).
        folds: answers that need a whole run in memory.
        reading: held while a file of a trial is read, since that takes the memory of the file.
        curves: the learning curves of the runs that people look at.
        runs_as_of: all runs as of an earlier time.
    """

    def __init__(self, settings: Settings, artifacts: Sequence[Path] = ()) -> None:
        self.settings = settings
        self.prices = price_table(settings.prices_file)
        self.folds = Folds()
        self.reading = asyncio.Lock()
        self.curves = CurveCache(settings, self.prices, self.folds)
        self.reader = AsyncStateReader(settings)
        self.hub = Hub(self.reader)
        self.intake = EventIntake(settings)
        self.runs_as_of = RunsAsOf(settings, self.prices, self.folds)
        self.leaderboards = Leaderboards(self.reader, self.runs_as_of, time.monotonic)
        self.trials = TrialLog(settings, time.monotonic)
        self.events = TrialEvents(settings, time.monotonic)
        self.directories = RunDirectories(settings, artifacts, time.monotonic)
        self._histories: dict[str, tuple[float, asyncio.Task[list[HistoryEntry]]]] = {}

    async def history(self, run_id: str) -> list[HistoryEntry]:
        """The history of a run, read once for all who ask at about the same time."""
        read_at, reading = self._histories.pop(run_id, (float("-inf"), None))
        now = time.monotonic()
        if reading is None or now - read_at >= HISTORY_SECONDS:
            read_at, reading = now, asyncio.create_task(self.reader.history(run_id))
        self._histories[run_id] = read_at, reading
        while len(self._histories) > MAX_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return await asyncio.shield(reading)
