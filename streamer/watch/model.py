"""The content of the screens: runs as they stand. No connection, no widgets, no clock."""

from __future__ import annotations

from streamer.client.change_feed import StateUpdate
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.views.eta import Observation, observation_of
from streamer.views.outlook import Outlook


class Runs:
    """All runs.

    Attributes:
        runs: run id to summary.
    """

    def __init__(self) -> None:
        self.runs: dict[str, RunSummary] = {}

    def fill(self, found: list[RunSummary]) -> None:
        """What stands there now; what is known already is newer."""
        self.runs = {run.run_id: run for run in found} | self.runs

    def take(self, update: StateUpdate) -> None:
        """Take an update; only updates of runs matter here."""
        if update.kind != "run":
            return
        if isinstance(update.summary, RunSummary):
            self.runs[update.run_id] = update.summary
        else:
            self.runs.pop(update.run_id, None)


class OneRun:
    """One run with its groups.

    Attributes:
        run: its summary, None: Redis has none (yet, or any more).
        deleted: it was there, and was deleted.
        agents: key to summary of each agent:model.
        tiers: key to summary of each tier, pooled over agents.
        since: where it stood when the viewer began to look.
        in_flight: its running trials, as of the last look.
        outlook: what it has before it, as of the last look; None: not looked yet.
    """

    def __init__(self) -> None:
        self.run: RunSummary | None = None
        self.deleted = False
        self.agents: dict[str, AgentModelSummary] = {}
        self.tiers: dict[str, TierSummary] = {}
        self.since: Observation | None = None
        self.in_flight: list[TrialInFlight] = []
        self.outlook: Outlook | None = None

    def take(self, update: StateUpdate) -> None:
        """Take an update of this run."""
        summary = update.summary
        if update.kind == "run":
            self._take_run(summary if isinstance(summary, RunSummary) else None)
        elif summary is None:
            self.agents.pop(update.key, None)
            self.tiers.pop(update.key, None)
        elif isinstance(summary, AgentModelSummary):
            self.agents[update.key] = summary
        elif isinstance(summary, TierSummary) and summary.agent_model is None:
            self.tiers[update.key] = summary

    def _take_run(self, run: RunSummary | None) -> None:
        if run is None:
            self.deleted = self.run is not None
            self.since = None
        else:
            self.deleted = False
            self.since = self.since or observation_of(run)
        self.run = run
