"""What the screens show: runs as they stand, and how they fare. No connection, no widgets, no clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.client.pace import Stand, stand_of
from streamer.client.waiting import finished
from streamer.client.watching import StateUpdate

STALLED_AFTER = timedelta(minutes=10)
"""A run that is not complete and of which nothing was heard for so long is called stalled."""


def state_of(run: RunSummary, heard: datetime | None, now: datetime) -> str:
    """How a run fares: what its harness said at its end, else complete, waiting, stalled or running.

    Args:
        run: as it stands.
        heard: when it last changed while somebody looked; event times may be of long ago (a replay).
        now: the time of whoever looks.
    """
    if run.status is not None:
        return run.status
    if finished(run):
        return "complete"
    if run.progress.done == 0:
        return "waiting"
    latest = max((at for at in (run.last_event_at, heard) if at), default=now)
    return "stalled" if now - latest > STALLED_AFTER else "running"


class Runs:
    """All runs.

    Attributes:
        runs: run id to summary.
        heard: run id to when it last changed while somebody looked.
    """

    def __init__(self) -> None:
        self.runs: dict[str, RunSummary] = {}
        self.heard: dict[str, datetime] = {}

    def fill(self, found: list[RunSummary]) -> None:
        """What stands there now; what is known already is newer."""
        self.runs = {run.run_id: run for run in found} | self.runs

    def take(self, update: StateUpdate, now: datetime) -> None:
        """Take an update; only those of runs matter here."""
        if update.kind != "run":
            return
        if not isinstance(update.summary, RunSummary):
            self.runs.pop(update.run_id, None)
            self.heard.pop(update.run_id, None)
            return
        before = self.runs.get(update.run_id)
        if before is not None and before.digest != update.summary.digest:
            self.heard[update.run_id] = now
        self.runs[update.run_id] = update.summary

    def state(self, run: RunSummary, now: datetime) -> str:
        """See `state_of`."""
        return state_of(run, self.heard.get(run.run_id), now)


class OneRun:
    """One run with its groups.

    Attributes:
        run: its summary, None: Redis has none (yet, or any more).
        deleted: it was there, and was deleted.
        agents: key to summary of each agent:model.
        tiers: key to summary of each tier, pooled over agents.
        since: where it stood when somebody began to look.
        heard: when it last changed since then.
    """

    def __init__(self) -> None:
        self.run: RunSummary | None = None
        self.deleted = False
        self.agents: dict[str, AgentModelSummary] = {}
        self.tiers: dict[str, TierSummary] = {}
        self.since: Stand | None = None
        self.heard: datetime | None = None

    def take(self, update: StateUpdate, now: datetime) -> None:
        """Take an update of this run."""
        summary = update.summary
        if update.kind == "run":
            self._take_run(summary if isinstance(summary, RunSummary) else None, now)
        elif summary is None:
            self.agents.pop(update.key, None)
            self.tiers.pop(update.key, None)
        elif isinstance(summary, AgentModelSummary):
            self.agents[update.key] = summary
        elif isinstance(summary, TierSummary) and summary.agent_model is None:
            self.tiers[update.key] = summary

    def _take_run(self, run: RunSummary | None, now: datetime) -> None:
        if run is None:
            self.deleted = self.run is not None
            self.since = None
        else:
            self.deleted = False
            self.since = self.since or stand_of(run)
            if self.run is not None and self.run.digest != run.digest:
                self.heard = now
        self.run = run
