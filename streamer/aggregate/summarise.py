"""Summarising: what the state of a run says of each group, only what changed, all from one moment."""

from __future__ import annotations

from typing import Any

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.formulacode_summary import (
    AgentModel,
    MissingTrials,
    formulacode_body,
    missing_sub_trials,
)
from streamer.aggregate.group import GroupState
from streamer.aggregate.group_summary import group_body, headline
from streamer.aggregate.keys import RUN, GroupId, SummaryKind, rfc3339
from streamer.aggregate.plan import Denominators
from streamer.aggregate.run_state import RunState
from streamer.aggregate.run_summary import delta, run_body, uplift
from streamer.aggregate.uncertainty import Evidence, uncertainty_body
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, json_number, sha256_hex
from streamer.schemas.metrics import BoardMetric
from streamer.score import NOP
from streamer.stats.distribution import Distribution


class Summaries:
    """The summaries of a run. Remembers what was taken last, and gives what has changed since.

    Args:
        run: the state that is summarised.
        epoch: the one that every summary carries.
        made_with: fingerprint of the prices and rules, which every summary names.

    Attributes:
        final_missing: why an agent:model has no interval of its final pass rate; None: it has one.
    """

    def __init__(self, run: RunState, epoch: int, made_with: str = "") -> None:
        self.run = run
        self.epoch = epoch
        self._made_with = made_with
        self.final_missing: dict[GroupId, str | None] = {}
        self._taken: dict[GroupId, tuple[str, int, int]] = {}
        self._shape: list[tuple[GroupId, int]] = []
        self._planned: dict[GroupId, tuple[int | None, int | None]] = {}
        self._positions = 0
        self._missing: dict[AgentModel, MissingTrials] = {}
        self._with_formulacode = False

    def take(self, changed: set[GroupId]) -> list[SummaryChange]:
        """The summaries that say something else than when they were taken last, tombstones included.

        Args:
            changed: groups of the run, counted up to date, that trials were counted in or out of since.
        """
        planned = self.run.denominators()
        before, self._missing = self._missing, missing_sub_trials(self.run)
        found = []
        for change in self._summaries(self._due(changed, planned, {*before, *self._missing}), planned):
            content = _content(change)
            if change.summary is not None and change.group != RUN:
                self._planned[change.group] = planned.group(change.group), planned.declared(change.group)
            if content == self._taken.get(change.group):
                continue
            found.append(change)
            if content is not None:
                self._taken[change.group] = content
            else:
                del self._taken[change.group]
        return found

    def all(self) -> list[SummaryChange]:
        """Every summary as it stands; takes nothing. The run is counted up to date."""
        self._missing, self.final_missing = missing_sub_trials(self.run), {}
        due, planned = {*self.run.every_group(), *map(_of_agent, self._missing), RUN}, self.run.denominators()
        return [change for change in self._summaries(due, planned) if change.value is not None]

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of every summary that was taken and not withdrawn."""
        return [(group_id.kind, group_id.topic_key(self.run.run_id)) for group_id in self._taken]

    def _due(self, changed: set[GroupId], planned: Denominators, lacking: set[AgentModel]) -> set[GroupId]:
        """Groups that changed, and those that a change elsewhere in the run can move.

        Args:
            lacking: planned agents that lack a sub-trial in some trial, or lacked one when last taken.
        """
        run = self.run
        groups = run.groups
        due = set(changed)
        shape = [(group_id, len(group.subtests)) for group_id, group in groups.items()]
        if shape != self._shape:
            self._shape = shape
            everyone = run.every_group()
            due.update(g for g in everyone if (planned.group(g), planned.declared(g)) != self._planned.get(g))
        if run.queue.places is None and run.scores.roster.positions_changed != self._positions:
            due.update(g for g in run.every_group() if g.agent is not None)  # they share one queue
        self._positions = run.scores.roster.positions_changed
        if lacking or self._with_formulacode != (run.totals.with_formulacode > 0):
            self._with_formulacode = run.totals.with_formulacode > 0
            due.update(g for g in (*groups, *self._taken) if g.tier is None)
            due.update(map(_of_agent, lacking))
        for baseline in [group for group in due if group.tier == run.plan.baseline_tier]:
            owner = (baseline.agent, baseline.model)
            due.update(g for g in groups if g.tier is not None and (g.agent, g.model) == owner)
        return due | {RUN}

    def _summaries(self, due: set[GroupId], planned: Denominators) -> list[SummaryChange]:
        return [self._summary(group_id, planned) for group_id in sorted(due)]

    def _summary(self, group_id: GroupId, planned: Denominators) -> SummaryChange:
        if group_id == RUN:
            return self._finish(RUN, run_body(self.run, planned) if self.run.exists else None, self.run)
        group = self.run.groups.get(group_id)
        if group is None and group_id.tier is None and _owner(group_id) in self._missing:
            group = GroupState()  # planned, without a single sub-trial
        if group is None and self._awaits(group_id):
            group = GroupState()  # started, without a result
        if group is None:
            self.final_missing.pop(group_id, None)
            return self._finish(group_id, None, None)
        of_tier = group_id.tier is not None
        body = (self._tier_body if of_tier else self._agent_model_body)(group, group_id, planned)
        return self._finish(group_id, body, group)

    def _awaits(self, group_id: GroupId) -> bool:
        """Whether trials of the group are in flight."""
        return self._evidence(GroupState(), group_id).in_flight > 0

    def _evidence(self, group: GroupState, group_id: GroupId) -> Evidence:
        run = self.run
        lineup = run.scores.roster.lineup(group_id)
        return Evidence(group, lineup, finished=run.plan.finished is not None)

    def _finish(
        self, group_id: GroupId, body: dict[str, Any] | None, counted: GroupState | RunState | None
    ) -> SummaryChange:
        """Seal a body; a tombstone where there is none."""
        if body is None or counted is None:
            return sealed(self.run, group_id, None, {}, self.epoch, self._made_with)
        way = {"superseded": counted.superseded, "conflicts": counted.conflicts}
        return sealed(self.run, group_id, body, way, self.epoch, self._made_with)

    def _agent_model_body(
        self, group: GroupState, group_id: GroupId, planned: Denominators
    ) -> dict[str, Any]:
        agent, model = _owner(group_id)
        evidence = self._evidence(group, group_id)
        body = self._group_body(evidence, group, group_id, planned)
        self.final_missing[group_id] = body["uncertainty"]["final_missing"]
        return body | {
            "agent_model": group_id.agent_model,
            "agent": agent,
            "model": model,
            "baseline": self.run.scores.is_baseline(agent),
            "formulacode": self._formulacode(evidence, group, agent, model),
        }

    def _group_body(
        self, evidence: Evidence, group: GroupState, group_id: GroupId, planned: Denominators
    ) -> dict[str, Any]:
        """What the summaries of agents and tiers have in common, and what may be concluded from them."""
        run, profile = self.run, self.run.rules.profile
        undeclared = planned.undeclared(group_id)
        plan = planned.of_group(planned.group(group_id), planned.declared(group_id), undeclared=undeclared)
        body = group_body(run, group, plan, evidence if group_id.tier is None else None)
        body["in_flight"] = evidence.in_flight
        body["uncertainty"] = uncertainty_body(evidence, group, group_id, plan, run.queue, profile)
        return body

    def _formulacode(
        self, evidence: Evidence, group: GroupState, agent: str, model: str
    ) -> dict[str, Any] | None:
        """FormulaCode's numbers of an agent:model; None in a run without any of its sections."""
        if not self.run.totals.with_formulacode:
            return None
        on_boards = not self.run.scores.is_baseline(agent)
        missing = self._missing.get((agent, model), MissingTrials())
        return formulacode_body(group, missing, evidence if on_boards else None, nop=agent == NOP)

    def _tier_body(self, group: GroupState, group_id: GroupId, planned: Denominators) -> dict[str, Any]:
        run, baseline_tier = self.run, self.run.plan.baseline_tier
        against = GroupId(baseline_tier, group_id.agent, group_id.model)
        baseline = run.groups.get(against) if against != group_id else None
        return self._group_body(self._evidence(group, group_id), group, group_id, planned) | {
            "tier": group_id.tier,
            "agent_model": group_id.agent_model,
            "runs_completed": group.trials,
            "baseline_tier": baseline_tier,
            "tier_uplift": json_number(uplift(group, baseline, run.plan.judged)),
            "tier_delta": json_number(delta(group, baseline, run.plan.judged)),
        }


def _of_agent(owner: AgentModel) -> GroupId:
    return GroupId(None, *owner)


def _owner(group_id: GroupId) -> AgentModel:
    return group_id.agent or "", group_id.model or ""


def _content(change: SummaryChange) -> tuple[str, int, int] | None:
    """What must differ for a summary to be another one; None: it is gone."""
    if change.summary is None:
        return None
    return (change.digest, change.summary["superseded"], change.summary["conflicts"])


def sealed(
    run: RunState,
    group: GroupId,
    body: dict[str, Any] | None,
    way: dict[str, Any],
    epoch: int,
    made_with: str,
) -> SummaryChange:
    """Canonical bytes of a body, its digest, and the fields that tell the way; a tombstone of None.

    Args:
        way: further fields that are not in the digest.
    """
    version = run.state_version
    if body is None:
        return SummaryChange.tombstone(run.run_id, group, epoch, version)
    body |= {"type": group.type, "run_id": run.run_id, "semantics_version": SEMANTICS_VERSION}
    digested = canonical_json(body)
    digest = sha256_hex(digested)
    way = way | {
        "epoch": epoch,
        "state_version": version,
        "last_event_at": rfc3339(run.last_event_at),
        "digest": digest,
        "made_with": made_with,
        "degraded": None,
    }
    value = digested[:-1] + b"," + canonical_json(way)[1:]
    return SummaryChange(run.run_id, group, value, body | way, epoch, version, digest)


def board_value(
    metric: BoardMetric, group: GroupState, agent: str, missing: MissingTrials | None, *, formulacode: bool
) -> float | None:
    """What the summary of an agent:model says of a METRIC; None where it is unknown.

    Args:
        metric: a built-in one, or a named one.
        group: the trials of the agent:model.
        agent: its name, since nop never counts as failed.
        missing: the trials that lack a sub-trial of it (R21).
        formulacode: whether any trial of the run carries FormulaCode's sections.
    """
    part, *path = metric.path
    says: dict[str, Any]
    if part in ("statistics", "metrics"):
        of, statistic = path
        held = group.distributions[of] if part == "statistics" else group.named.get(of, Distribution())
        says = {part: {of: {statistic: getattr(held, statistic)()}}}
    elif part == "formulacode":
        says = {part: formulacode_body(group, missing, nop=agent == NOP) if formulacode else None}
    else:
        says = headline(group)
    return metric.value(says)
