"""Summarising: what the state of a run says of each group, only what changed, all from one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.cross_tier import cross_tier, delta, uplift
from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.group import GroupState
from streamer.aggregate.keys import RUN, GroupId, SummaryKind, microseconds, rfc3339
from streamer.aggregate.planned import AgentModel, Denominators, missing_sub_trials
from streamer.aggregate.run_state import RunState
from streamer.aggregate.summary_limits import costs_by_agent_model, within_limits
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.score import NOP
from streamer.stats import json_number


class Summaries:
    """The summaries of a run. Remembers what was taken last, and gives what has changed since.

    Args:
        run: the state that is summarised.
        epoch: the one that every summary carries.
        made_with: fingerprint of the prices and rules, which every summary names.
    """

    def __init__(self, run: RunState, epoch: int, made_with: str = "") -> None:
        self.run = run
        self.epoch = epoch
        self._made_with = made_with
        self._taken: dict[GroupId, tuple[str, int, int]] = {}
        self._shape: list[tuple[GroupId, int]] = []
        self._planned: dict[GroupId, int | None] = {}
        self._missing: dict[AgentModel, FormulaCodeSums] = {}
        self._with_formulacode = False

    def take(self, changed: set[GroupId]) -> list[SummaryChange]:
        """The summaries that say something else than when they were taken last, tombstones included.

        Args:
            changed: groups of the run, counted up to date, that trials were counted in or out of since.
        """
        planned = Denominators(self.run)
        before, self._missing = self._missing, missing_sub_trials(self.run)
        found = []
        for change in self._summaries(self._due(changed, planned, {*before, *self._missing}), planned):
            content = _content(change)
            if change.summary is not None:
                self._planned[change.group] = change.summary.get("runs_planned")
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
        self._missing = missing_sub_trials(self.run)
        due, planned = {*self.run.groups, *map(_of_agent, self._missing), RUN}, Denominators(self.run)
        return [change for change in self._summaries(due, planned) if change.value is not None]

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of every summary that was taken and not withdrawn."""
        return [(group_id.kind, group_id.topic_key(self.run.run_id)) for group_id in self._taken]

    def _due(self, changed: set[GroupId], planned: Denominators, lacking: set[AgentModel]) -> set[GroupId]:
        """Groups that changed, and those that a change elsewhere in the run can move.

        Args:
            lacking: planned agents that lack a sub-trial in some trial, or did so at the last cut.
        """
        run = self.run
        groups = run.groups
        due = set(changed)
        shape = [(group_id, len(group.subtests)) for group_id, group in groups.items()]
        if shape != self._shape:
            self._shape = shape
            due.update(g for g in groups if planned.group(g) != self._planned.get(g))
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
            return self._finish(RUN, self._run_body(planned) if self.run.exists else None, self.run)
        group = self.run.groups.get(group_id)
        if group is None and group_id.tier is None and _owner(group_id) in self._missing:
            group = GroupState()  # planned, without a single sub-trial
        if group is None:
            return self._finish(group_id, None, None)
        of_tier = group_id.tier is not None
        body = (self._tier_body if of_tier else self._agent_model_body)(group, group_id, planned)
        return self._finish(group_id, body, group)

    def _finish(
        self, group_id: GroupId, body: dict[str, Any] | None, counted: GroupState | RunState | None
    ) -> SummaryChange:
        """Seal a body: canonical bytes, digest, and the fields that tell the way."""
        run, version = self.run, self.run.state_version
        if body is None or counted is None:
            return SummaryChange.tombstone(run.run_id, group_id, self.epoch, version)
        body = within_limits(body)
        body |= {
            "type": f"{group_id.kind}_summary",
            "run_id": run.run_id,
            "semantics_version": SEMANTICS_VERSION,
        }
        digested = canonical_json(body)
        digest = sha256_hex(digested)
        way = {
            "superseded": counted.superseded,
            "conflicts": counted.conflicts,
            "epoch": self.epoch,
            "state_version": version,
            "last_event_at": rfc3339(run.last_event_at),
            "digest": digest,
            "made_with": self._made_with,
            "degraded": None,
        }
        value = digested[:-1] + b"," + canonical_json(way)[1:]
        return SummaryChange(run.run_id, group_id, value, body | way, self.epoch, version, digest)

    def _agent_model_body(
        self, group: GroupState, group_id: GroupId, planned: Denominators
    ) -> dict[str, Any]:
        agent, model = _owner(group_id)
        body = group.body(self.run.rules.profile, planned.of_group(planned.group(group_id)))
        return body | {
            "agent_model": group_id.agent_model,
            "agent": agent,
            "model": model,
            "baseline": self.run.scores.is_baseline(agent),
            "formulacode": self._formulacode(group, agent, model),
        }

    def _formulacode(self, group: GroupState, agent: str, model: str) -> dict[str, Any] | None:
        """FormulaCode's numbers of an agent:model; None in a run without any of its sections."""
        if not self.run.totals.with_formulacode:
            return None
        return group.formulacode_body(nop=agent == NOP, missing=self._missing.get((agent, model)))

    def _tier_body(self, group: GroupState, group_id: GroupId, planned: Denominators) -> dict[str, Any]:
        run, baseline_tier = self.run, self.run.plan.baseline_tier
        against = GroupId(baseline_tier, group_id.agent, group_id.model)
        baseline = run.groups.get(against) if against != group_id else None
        return group.body(run.rules.profile, planned.of_group(planned.group(group_id))) | {
            "tier": group_id.tier,
            "agent_model": group_id.agent_model,
            "runs_completed": group.trials,
            "baseline_tier": baseline_tier,
            "tier_uplift": json_number(uplift(group, baseline, run.plan.judged)),
            "tier_delta": json_number(delta(group, baseline, run.plan.judged)),
        }

    def _run_body(self, planned: Denominators) -> dict[str, Any]:
        run, plan = self.run, self.run.plan
        pooled = {g.tier: group for g, group in run.groups.items() if g.tier and not g.agent}
        tiers = dict(sorted(pooled.items()))
        agents = {g.agent_model or "": group for g, group in run.groups.items() if g.tier is None}
        total = planned.run()
        finished = plan.finished
        missing = [run.groups[GroupId(tier)].trials < (planned.tier(tier) or 0) for tier in tiers]
        body: dict[str, Any] = {
            **{name: plan.get(name) for name in ("harness", "project", "benchmark", "benchmark_version")},
            "display_name": plan.get("display_name"),
            "labels": plan.labels,
            "status": finished and (finished.status or "finished"),
            "started_at": _instant(plan.get("started_at")),
            "finished_at": _instant(finished.finished_at) if finished else None,
            "grading_profile": run.rules.profile.name,
            "cost_by_agent_model": costs_by_agent_model(agents),
            "agent_models": len(agents),
            "tiers": len(tiers),
            "cross_tier": cross_tier(tiers, plan.baseline_tier, run.rules.profile.ddof, plan.judged),
            "progress": {"done": run.totals.slots, "planned": total},
            "provisional": run.totals.slots < total if total is not None else any(missing),
        }
        return run.totals.body(plan.attempts, plan.task_count) | body


def _of_agent(owner: AgentModel) -> GroupId:
    return GroupId(None, *owner)


def _owner(group_id: GroupId) -> AgentModel:
    return group_id.agent or "", group_id.model or ""


def _content(change: SummaryChange) -> tuple[str, int, int] | None:
    """What must differ for a summary to be another one; None: it is gone."""
    if change.summary is None:
        return None
    return (change.digest, change.summary["superseded"], change.summary["conflicts"])


def _instant(moment: datetime | None) -> str | None:
    return rfc3339(microseconds(moment)) if moment is not None else None
