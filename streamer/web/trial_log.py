"""The scored trials of the runs that people look at: Redis has none, so they are read from the log.

Of each trial only the fields of a list are kept, and where the whole of it stands. The whole is read on
request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from streamer.client.scored_trial_reader import ScoredTrialReader
from streamer.kafka.names import Names
from streamer.kafka.reader import LogRecord
from streamer.settings import Settings
from streamer.views.models import TrialRow
from streamer.web.problems import Refused
from streamer.web.run_log import CachedRunLog


class TrialMoved(Refused):
    """The trial was scored again while it was being read."""

    status = 409

    def __init__(self) -> None:
        super().__init__("This trial was scored again just now: ask once more")


@dataclass(frozen=True, slots=True)
class HeldTrial:
    """The stored facts about a trial.

    Attributes:
        row: it in a list.
        key: of its record.
        offset: of its record.
        fingerprint: of the content of the event that won the slot (R17).
    """

    row: TrialRow
    key: bytes
    offset: int
    fingerprint: str

    @property
    def slot(self) -> str:
        """Its slot within the run, as `slot_in_run` writes it."""
        return self.key.decode().partition("|")[2]


class _TrialsOfRun:
    """The trials of one run, by id, the one that changed last at the end."""

    def __init__(self, run_id: str) -> None:
        self.held: dict[str, HeldTrial] = {}
        self._reader = ScoredTrialReader(run_id)

    def take(self, record: LogRecord) -> None:
        """What changed last stands at the end."""
        if (change := self._reader.change(record)) is None:
            return
        trial_id = hashlib.sha256(change.key).hexdigest()[:24]
        self.held.pop(trial_id, None)
        if (trial := change.trial) is not None:
            row = TrialRow.of(trial_id, trial)
            self.held[trial_id] = HeldTrial(row, change.key, change.offset, trial["fingerprint"])


class TrialLog:
    """Scored trials by run.

    Args:
        settings: where the broker is.
        clock: seconds, monotonic.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._log = CachedRunLog(settings, Names(settings.namespace).scored_trials, _TrialsOfRun, clock)

    async def trials(self, run_id: str) -> dict[str, HeldTrial]:
        """Trial id to trial, the one that changed last at the end; not to be changed.

        Raises: as `RunLog.of`.
        """
        return (await self._log.of(run_id)).held

    async def payload(self, run_id: str, trial_id: str) -> bytes | None:
        """The scored trial as published; None: the run has no such trial.

        Raises:
            TrialMoved: it changed meanwhile; ask again.
        """
        held = (await self.trials(run_id)).get(trial_id)
        if held is None:
            return None
        record = await self._log.record_at(run_id, held.offset)
        if record is not None and record.key == held.key:
            return bytes(record.value)
        self._log.read_again(run_id)
        raise TrialMoved
