"""Runs as of an earlier time, with the answers of a reader: lists of runs, and leaderboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from streamer.client.lifecycle import state_of
from streamer.client.queries import MOST_BOARD_RUNS, is_chosen, require_benchmark
from streamer.client.ranking import ranked
from streamer.client.results import BoardRun, LeaderboardRow, UnknownMetric, UnknownRun
from streamer.records import Failure
from streamer.schemas.metrics import board_values, can_have_board
from streamer.schemas.summaries import RunSummary


@dataclass(frozen=True)
class PastRuns:
    """Runs as of a position, with the answers of `StateReader` that a worker's summaries would give.

    Attributes:
        found: the runs, the one with the latest event first.
        moment: the time at which their states are determined.
        truncated: what has lost the beginning of its log (`run 'r'`, `partition 3`), to the offset at which
            that begins now; {}: nothing has.
        failed: runs that an exception sets apart; they are missing in `found`.
    """

    found: Sequence[BoardRun]
    moment: datetime
    truncated: Mapping[str, int] = field(default_factory=dict)
    failed: Sequence[Failure] = ()

    def runs(self) -> list[RunSummary]:
        """The runs, the one with the latest event first."""
        return [one.run for one in self.found]

    def run(self, run_id: str) -> RunSummary:
        """One run; UnknownRun if it is not among them."""
        for run in self.runs():
            if run.run_id == run_id:
                return run
        raise UnknownRun(run_id, [run.run_id for run in self.runs()])

    def board_runs(
        self, *, run: str | None = None, benchmark: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[BoardRun]:
        """As `StateReader.board_runs`."""
        return self._chosen(run, benchmark, labels or {})[:MOST_BOARD_RUNS]

    def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> list[LeaderboardRow]:
        """As `StateReader.leaderboard`; the runs' states are those at `moment`."""
        if not can_have_board(metric):
            raise UnknownMetric(metric)
        chosen = self._chosen(run, benchmark, labels or {})
        states = {one.run.run_id: state_of(one.run, self.moment) for one in chosen}
        agents = [agent for one in chosen for agent in one.agents]
        if run is None or benchmark is not None or labels:  # as in Redis, named metrics of plans alone (R30)
            agents = [agent for agent in agents if metric in board_values(agent.model_dump(mode="json"))]
        return ranked(metric, agents, states)[:limit]

    def _chosen(self, run: str | None, benchmark: str | None, labels: Mapping[str, str]) -> list[BoardRun]:
        if run is not None:
            self.run(run)
        held = [one for one in self.found if run in (None, one.run.run_id)]
        chosen = [one for one in held if is_chosen(one.run, benchmark, labels)]
        if benchmark is not None and not chosen:
            require_benchmark(benchmark, self.runs())
        return chosen
