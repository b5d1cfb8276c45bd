"""The comparison of a run's agents: counts of every two, and the rank of each (inference 7).

It follows from the trials as they stand, so the order of events, duplicates and retractions cannot matter.
How a pair becomes a rank: `TaskTable` reads the trials, `pair_counts` counts, `inference.ranks` ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.aggregate.changes import SummaryChange, TasksChange, packed
from streamer.aggregate.comparison_table import MOST_CELLS, ComparisonTable
from streamer.aggregate.keys import COMPARISON, GroupId, SummaryKind
from streamer.aggregate.run_state import RunState
from streamer.aggregate.summarise import Summaries, sealed
from streamer.aggregate.tasks import TaskTable
from streamer.aggregate.uncertainty import LEVEL
from streamer.inference.ranks import ComparisonMissing

MOST_AGENTS = 60


class Comparisons:
    """The comparison of a run, and its tasks. Remembers what was taken last.

    Args:
        run: the state that is compared.
        summaries: of the run; they are worked out before the comparison is.
        epoch: as of the summaries.
        made_with: likewise.

    Attributes:
        tasks_taken: the tasks as they were taken last; None: there never were any.
    """

    def __init__(self, run: RunState, summaries: Summaries, epoch: int, made_with: str) -> None:
        self._run, self._summaries = run, summaries
        self._epoch, self._made_with = epoch, made_with
        self._taken = ""
        self.tasks_taken: TasksChange | None = None

    def take(self) -> tuple[list[SummaryChange], TasksChange | None]:
        """The comparison and the tasks, where they say something else than when they were taken last."""
        comparison, trials = self._now()
        fields, tasks = packed(trials.fields() if trials else {}), None
        if fields != (self.tasks_taken.packed if self.tasks_taken else b""):
            version = self._run.state_version
            tasks = self.tasks_taken = TasksChange(self._run.run_id, fields, self._epoch, version)
        if comparison.digest == self._taken:
            return [], tasks
        self._taken = comparison.digest
        return [comparison], tasks

    def all(self) -> list[SummaryChange]:
        """The comparison as it stands, if there is one; takes nothing."""
        return [change for change in [self._now()[0]] if change.value is not None]

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of the comparison, if it was taken and not withdrawn."""
        return [(COMPARISON.kind, COMPARISON.topic_key(self._run.run_id))] if self._taken else []

    def tasks(self) -> dict[str, str]:
        """The tasks as they stand, as Redis holds them; takes nothing."""
        self._run.count()
        trials = self._now()[1]
        return trials.fields() if trials else {}

    def _now(self) -> tuple[SummaryChange, TaskTable | None]:
        run = self._run
        agents = compared_agents(run)
        body, trials = compared(run, agents, self._summaries.final_missing) if agents else (None, None)
        return sealed(run, COMPARISON, body, {}, self._epoch, self._made_with), trials


def compared_agents(run: RunState) -> list[GroupId]:
    """The agent:models that are compared, by label: planned, started or with results; no baselines."""
    roster = run.scores.roster
    seen = {group for group in roster.groups() if group.agent and group.tier is None}
    seen = {group for group in seen if roster.lineup(group).states.any()}
    if not seen:
        return []
    planned = {GroupId(None, agent, model) for agent, model in run.plan.agent_models()}
    every = (group for group in seen | planned if not run.scores.is_baseline(group.agent or ""))
    return sorted(every, key=lambda group: group.agent_model or "")


def compared(
    run: RunState, agents: list[GroupId], final_missing: Mapping[GroupId, str | None]
) -> tuple[dict[str, Any] | None, TaskTable | None]:
    """The comparison's body, None of a single agent; and the trials, None where there are too many."""
    labels = [group.agent_model or "" for group in agents]
    body: dict[str, Any] = {
        "agents": [_agent(group) for group in agents[:MOST_AGENTS]],
        "agents_total": len(agents),
        "planned": None,
        "ended": False,
        "order_kind": run.queue.kind,
        "level": LEVEL,
        "pairs": [],
        "missing": None,
        "rank_missing": None,
    }
    if len(agents) > MOST_AGENTS:
        return body | _without(ComparisonMissing.TOO_MANY_AGENTS), None
    if sum(len(run.scores.roster.lineup(group).states) for group in agents) > MOST_CELLS:
        return body | _without(ComparisonMissing.TOO_MANY_TRIALS), None
    if len(agents) < 2:
        return None, TaskTable(run, agents)
    table = ComparisonTable(run, agents, final_missing)
    ranks, rank_missing = table.ranks(labels)
    for agent, label in zip(body["agents"], labels, strict=True):
        agent["rank"] = ranks[label]._asdict() if ranks else None
    told = {"planned": table.planned, "ended": table.ended, "rank_missing": rank_missing}
    return body | told | {"pairs": table.pairs()}, table.trials


def _agent(group: GroupId) -> dict[str, Any]:
    return {"agent_model": group.agent_model, "agent": group.agent, "model": group.model, "rank": None}


def _without(reason: ComparisonMissing) -> dict[str, Any]:
    return {"missing": reason, "rank_missing": reason}
