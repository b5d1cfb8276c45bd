"""Cutting summaries from the state of a run: only what changed, all from one consistent state."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from schemas.base import SEMANTICS_VERSION
from schemas.canonical import canonical_json, sha256_hex
from schemas.identity import agent_model_key, agent_model_label, encode_id
from streamer.aggregate.changes import Cut, ScoredChange, SummaryChange, SummaryKind
from streamer.aggregate.counted import GroupId
from streamer.aggregate.cross_tier import cross_tier, delta, uplift
from streamer.aggregate.denominators import Denominators
from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.group import GroupState
from streamer.aggregate.missing import AgentModel, missing_sub_trials
from streamer.aggregate.news import grade_change, rescored
from streamer.aggregate.run_state import RunState
from streamer.aggregate.scored import scored_changes
from streamer.aggregate.slots import microseconds, rfc3339
from streamer.aggregate.summary_limits import costs_by_agent_model, within_limits
from streamer.score import NOP
from streamer.stats import json_number

RUN: GroupId = (None, None, None)
"""Stands for the run itself among the groups."""


class Cutter:
    """Remembers what was last cut from a run and cuts what has changed since."""

    def __init__(self, run: RunState, epoch: int, made_with: str = "") -> None:
        self.run = run
        self.epoch = epoch
        self._made_with = made_with
        self._published: dict[GroupId, tuple[str, int, int]] = {}
        self._grades: dict[GroupId, str | None] = {}
        self._shape: list[tuple[GroupId, int]] = []
        self._planned: dict[GroupId, int | None] = {}
        self._missing: dict[AgentModel, FormulaCodeSums] = {}
        self._with_formulacode = False

    def cut(self, *, news: bool = True, scored: bool = True) -> Cut:
        """Drain the changes; without `news`, grades move silently; without `scored`, scored trials wait."""
        run, cut = self.run, Cut(self.run.run_id)
        planned = Denominators(run)
        before, self._missing = self._missing, missing_sub_trials(run)
        for change in self._summaries(self._due(planned, {*before, *self._missing}), planned):
            known = self._published.get(_group_id(change))
            mark = _mark(change)
            if change.summary is not None:
                self._planned[_group_id(change)] = change.summary.get("runs_planned")
            if mark == known or (mark is None and known is None):
                continue
            cut.summaries.append(change)
            if mark is not None:
                self._published[_group_id(change)] = mark
            else:
                self._published.pop(_group_id(change), None)
        graded = [item for change in cut.summaries if (item := self._grade_moved(change)) is not None]
        cut.scored = self.scored() if scored else []
        if news:
            cut.news = graded + [rescored(run, item, self.epoch) for item in run.rescorings]
        run.dirty, run.rescorings = set(), []
        return cut

    def scored(self, most: int | None = None) -> list[ScoredChange]:
        """Drain the scored trials that changed, `most` of them if that is given, and nothing else."""
        waiting, left = self.run.rescored, {}
        if most is not None and len(waiting) > most:
            self.run.rescored, left = dict(waiting.popitem() for _ in range(most)), waiting
        changes = scored_changes(self.run, self.epoch)
        self.run.rescored = left
        return changes

    def forget_scored(self) -> None:
        """The scored trials that changed are published already."""
        self.run.rescored = {}

    def everything(self) -> list[SummaryChange]:
        """Every summary as it stands; drains nothing."""
        self._missing = missing_sub_trials(self.run)
        due, planned = {*self.run.groups, *map(_of_agent, self._missing), RUN}, Denominators(self.run)
        return [change for change in self._summaries(due, planned) if change.value is not None]

    def published(self) -> list[tuple[SummaryKind, str]]:
        """Kind and key of every summary that was cut and not taken back."""
        return [(_kind(group_id), summary_key(self.run.run_id, group_id)) for group_id in self._published]

    def _due(self, planned: Denominators, lacking: set[AgentModel]) -> set[GroupId]:
        """Dirty groups, and those that a change elsewhere in the run can move.

        Args:
            lacking: planned agents that lack a sub-trial in some trial, or did so at the last cut.
        """
        run = self.run
        groups = run.groups
        due = set(run.dirty)
        shape = [(group_id, len(group.subtests)) for group_id, group in groups.items()]
        if shape != self._shape:
            self._shape = shape
            due.update(g for g in groups if planned.group(*g) != self._planned.get(g))
        if lacking or self._with_formulacode != (run.totals.with_formulacode > 0):
            self._with_formulacode = run.totals.with_formulacode > 0
            due.update(g for g in (*groups, *self._published) if g[0] is None)
            due.update(map(_of_agent, lacking))
        for tier, agent, model in list(due):
            if tier == run.plan.baseline_tier:
                due.update(g for g in groups if g[0] is not None and g[1:] == (agent, model))
        return due | {RUN}

    def _summaries(self, due: set[GroupId], planned: Denominators) -> list[SummaryChange]:
        return [self._summary(group_id, planned) for group_id in sorted(due, key=_order)]

    def _summary(self, group_id: GroupId, planned: Denominators) -> SummaryChange:
        tier, agent, model = group_id
        if group_id == RUN:
            return self._finish(
                group_id, "run", self._run_body(planned) if self.run.exists else None, self.run
            )
        group = self.run.groups.get(group_id)
        if group is None and (agent, model) in self._missing and tier is None:
            group = GroupState()  # planned, without a single sub-trial
        if tier is None:
            body = self._agent_model_body(group, agent or "", model or "", planned) if group else None
            return self._finish(group_id, "agent_model", body, group)
        body = self._tier_body(group, group_id, planned) if group else None
        return self._finish(group_id, "tier", body, group)

    def _finish(
        self,
        group_id: GroupId,
        kind: SummaryKind,
        body: dict[str, Any] | None,
        counted: GroupState | RunState | None,
    ) -> SummaryChange:
        """Seal a body: canonical bytes, digest, and the fields that tell the way."""
        run, (tier, agent, model) = self.run, group_id
        key = summary_key(run.run_id, group_id)
        version = run.state_version
        if body is None or counted is None:
            return SummaryChange(
                kind, run.run_id, tier, agent, model, key, None, None, self.epoch, version, ""
            )
        body = within_limits(body)
        body |= {"type": f"{kind}_summary", "run_id": run.run_id, "semantics_version": SEMANTICS_VERSION}
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
        return SummaryChange(
            kind, run.run_id, tier, agent, model, key, value, body | way, self.epoch, version, digest
        )

    def _agent_model_body(
        self, group: GroupState, agent: str, model: str, planned: Denominators
    ) -> dict[str, Any]:
        count = planned.group(None, agent, model)
        body = group.body(self.run.rules.profile, planned.of_group(count))
        return body | {
            "agent_model": agent_model_label(agent, model),
            "agent": agent,
            "model": model,
            "baseline": self.run.is_baseline(agent),
            "formulacode": self._formulacode(group, agent, model),
        }

    def _formulacode(self, group: GroupState, agent: str, model: str) -> dict[str, Any] | None:
        """FormulaCode's numbers of an agent:model; None in a run without any of its sections."""
        if not self.run.totals.with_formulacode:
            return None
        return group.formulacode_body(nop=agent == NOP, missing=self._missing.get((agent, model)))

    def _tier_body(self, group: GroupState, group_id: GroupId, planned: Denominators) -> dict[str, Any]:
        run, (tier, agent, model) = self.run, group_id
        name = tier or ""
        count = planned.group(*group_id)
        baseline_tier = run.plan.baseline_tier
        baseline = run.groups.get((baseline_tier, agent, model)) if tier != baseline_tier else None
        return group.body(run.rules.profile, planned.of_group(count)) | {
            "tier": name,
            "agent_model": None if agent is None else agent_model_label(agent, model or ""),
            "runs_completed": group.trials,
            "baseline_tier": baseline_tier,
            "tier_uplift": json_number(uplift(group, baseline, run.plan.judged)),
            "tier_delta": json_number(delta(group, baseline, run.plan.judged)),
        }

    def _run_body(self, planned: Denominators) -> dict[str, Any]:
        run, plan = self.run, self.run.plan
        pooled = {tier: group for (tier, agent, _), group in run.groups.items() if tier and not agent}
        tiers = dict(sorted(pooled.items()))
        agents = {g: group for g, group in run.groups.items() if g[0] is None}
        total = planned.run()
        finished = plan.finished
        missing = [run.groups[(tier, None, None)].trials < (planned.tier(tier) or 0) for tier in tiers]
        body: dict[str, Any] = {
            **{name: plan.get(name) for name in ("harness", "project", "benchmark", "benchmark_version")},
            "display_name": plan.get("display_name"),
            "labels": plan.labels,
            "status": finished and (finished.status or "finished"),
            "started_at": _instant(plan.get("started_at")),
            "finished_at": _instant(finished.finished_at) if finished else None,
            "grading_profile": run.rules.profile.name,
            "cost_by_agent_model": costs_by_agent_model(
                {
                    agent_model_label(agent or "", model or ""): group
                    for (_, agent, model), group in agents.items()
                }
            ),
            "agent_models": len(agents),
            "tiers": len(tiers),
            "cross_tier": cross_tier(tiers, plan.baseline_tier, run.rules.profile.ddof, plan.judged),
            "progress": {"done": run.totals.slots, "planned": total},
            "provisional": run.totals.slots < total if total is not None else any(missing),
        }
        return run.totals.body(plan.attempts, plan.task_count) | body

    def _grade_moved(self, change: SummaryChange) -> Any:
        group_id = _group_id(change)
        if group_id == RUN:
            return None
        before = self._grades.get(group_id)
        after = change.summary["grade"] if change.summary else None
        self._grades[group_id] = after
        return grade_change(change, before, after) if before != after and change.summary else None


def summary_key(run_id: str, group_id: GroupId) -> str:
    """Topic key of a summary, ids percent-encoded.

    >>> summary_key("r", (None, "a", "m")), summary_key("r", ("T0", "a", "m"))
    ('r|a:m', 'r|T0|a:m')
    >>> summary_key("r", ("T0", None, None)), summary_key("r", (None, None, None))
    ('r|T0', 'r')
    """
    tier, agent, model = group_id
    parts = [run_id and encode_id(run_id)]
    if tier is not None:
        parts.append(encode_id(tier))
    if agent is not None:
        parts.append(agent_model_key(agent, model or ""))
    return "|".join(parts)


def _of_agent(owner: AgentModel) -> GroupId:
    return (None, *owner)


def _kind(group_id: GroupId) -> SummaryKind:
    tier, agent, _ = group_id
    return "tier" if tier is not None else "run" if agent is None else "agent_model"


def _group_id(change: SummaryChange) -> GroupId:
    return (change.tier, change.agent, change.model)


def _mark(change: SummaryChange) -> tuple[str, int, int] | None:
    if change.summary is None:
        return None
    return (change.digest, change.summary["superseded"], change.summary["conflicts"])


def _order(group_id: GroupId) -> tuple[bool, str, str, str]:
    """Agents and tiers by name, the run last."""
    return (group_id == RUN, group_id[0] or "", group_id[1] or "", group_id[2] or "")


def _instant(moment: datetime | None) -> str | None:
    return rfc3339(microseconds(moment)) if moment is not None else None
