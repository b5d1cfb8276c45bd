"""Summarising: what the state of a run says of each group, only what changed, all from one moment.

Where does a field of a summary get its value? `Summaries.take` asks for the groups that changed, and seals
each body with its version and digest. The bodies are made below: `run_body` for the run, `group_body` for
agents and tiers, `formulacode_body` for FormulaCode's block. Trials are counted in `groups`. What may be
concluded from them comes from `uncertainty`. The written-out classes stand in `streamer.schemas.summaries`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import orjson

from streamer.folding.groups import ESTIMATED, FormulaCodeSums, GroupState, Outcome, accuracies, cost_sums
from streamer.folding.plan import Denominators, GroupPlan, Plan
from streamer.folding.score import NOP
from streamer.folding.slots import SummaryChange, TrialGroupKey
from streamer.folding.state import RunState
from streamer.folding.uncertainty import MEANS, STARTED, STORED, Evidence, uncertainty_body
from streamer.schemas.base import SEMANTICS_VERSION, microseconds, rfc3339
from streamer.schemas.events import NAMED, PRIMARY_METRIC, BoardMetric, MetricPlan
from streamer.schemas.wire import (
    RUN,
    GroupId,
    JsonNumber,
    SummaryKind,
    canonical_json,
    json_count,
    json_number,
    sha256_hex,
)
from streamer.statistics.ability import Clusters, Interval, mean_interval
from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import ExactSum


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
        self._taken: dict[GroupId, tuple[Any, ...]] = {}
        self._shape: list[tuple[GroupId, int]] = []
        self._planned: dict[GroupId, tuple[int | None, int | None]] = {}
        self._positions, self._order_kind = 0, run.queue.kind
        self._missing: dict[AgentModel, MissingTrials] = {}
        self._with_formulacode = False
        self._open_states = 0

    def take(self, changed: set[GroupId]) -> list[SummaryChange]:
        """The summaries that say something else than when they were taken last, tombstones included.

        Args:
            changed: groups of the run, counted up to date, that trials were counted in or out of since.
        """
        planned = self.run.denominators()
        before, self._missing = self._missing, missing_sub_trials(self.run)
        changes = []
        for change in self._summaries(self._due(changed, planned, {*before, *self._missing}), planned):
            content = _content(change)
            if change.summary is not None and change.group != RUN:
                self._planned[change.group] = planned.group(change.group), planned.declared(change.group)
            if content == self._taken.get(change.group):
                continue
            changes.append(change)
            if content is not None:
                self._taken[change.group] = content
            else:
                del self._taken[change.group]
        return changes

    def all(self) -> list[SummaryChange]:
        """Every summary as it stands; takes nothing. The run is counted up to date."""
        self._missing, self.final_missing = missing_sub_trials(self.run), {}
        self._open_states = self.run.open_states()
        due, planned = {*self.run.every_group(), *map(_of_agent, self._missing), RUN}, self.run.denominators()
        return [change for change in self._summaries(due, planned) if change.value is not None]

    def of_run(self) -> SummaryChange:
        """The summary of the run alone; takes nothing. The run is counted up to date."""
        return self._summary(RUN, self.run.denominators())

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
        open_states = run.open_states()
        if open_states != self._open_states:
            self._open_states = open_states
            due.update(run.every_group())
        if run.queue.places is None and run.scores.roster.positions_changed != self._positions:
            due.update(g for g in run.every_group() if g.agent is not None)  # they share one queue
        self._positions = run.scores.roster.positions_changed
        if (kind := run.queue.kind) is not self._order_kind:
            self._order_kind = kind
            due.update(g for g in run.every_group() if g.agent is not None)
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
        if group is None and self._evidence(group_id).in_flight > 0:
            group = GroupState()  # started, without a result
        if group is None:
            self.final_missing.pop(group_id, None)
            return self._finish(group_id, None, None)
        of_tier = group_id.tier is not None
        body = (self._tier_body if of_tier else self._agent_model_body)(group, group_id, planned)
        return self._finish(group_id, body, group)

    def _evidence(self, group_id: GroupId) -> Evidence:
        return self.run.evidence(group_id, self._open_states)

    def _finish(
        self, group_id: GroupId, body: dict[str, Any] | None, counted: GroupState | RunState | None
    ) -> SummaryChange:
        """Seal a body; a tombstone where there is none."""
        if body is None or counted is None:
            return sealed(self.run, group_id, None, {}, self.epoch, self._made_with)
        way = {name: getattr(counted, name) for name in MARKS}
        return sealed(self.run, group_id, body, way, self.epoch, self._made_with)

    def _agent_model_body(
        self, group: GroupState, group_id: GroupId, planned: Denominators
    ) -> dict[str, Any]:
        agent, model = _owner(group_id)
        evidence = self._evidence(group_id)
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
        group = group.as_ruled(run.rules.verdicts)
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
        baseline = run.groups[against].as_ruled(run.rules.verdicts) if against in run.groups else None
        baseline = None if against == group_id else baseline
        group = group.as_ruled(run.rules.verdicts)
        return self._group_body(self._evidence(group_id), group, group_id, planned) | {
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


MARKS = ("superseded", "conflicts", "impoverished", "failures_rerun")
"""Counts of slots that tell how a summary came about."""


def _content(change: SummaryChange) -> tuple[Any, ...] | None:
    """What must differ for a summary to be another one; None: it is gone."""
    if change.summary is None:
        return None
    return (change.digest, *map(change.summary.__getitem__, MARKS))


def sealed(
    run: RunState,
    group: GroupId,
    body: dict[str, Any] | None,
    way: dict[str, Any],
    epoch: int,
    made_with: str,
) -> SummaryChange:
    """Canonical bytes of a body, its digest, and the provenance fields; or a tombstone if the body is None.

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
        distribution = (
            group.distributions[of] if part == "statistics" else group.named.get(of, Distribution())
        )
        says = {part: {of: {statistic: getattr(distribution, statistic)()}}}
    elif part == "formulacode":
        says = {part: formulacode_body(group, missing, nop=agent == NOP) if formulacode else None}
    else:
        says = headline(group)
    return metric.value(says)


# -----------------------------------------------------------------------------
# The run's summary: totals, plan, the comparison of its tiers (S6-S8, R23), and what limits its size.
#
# A run can have many failure modes, agents, labels and tiers. What is beyond a limit is left out when the
# summary is made; the state keeps everything, so taking trials back is exact. Every summary stays below
# :data:`MAX_SUMMARY_BYTES`, which is far below the largest message (4 MiB). Worst cases of a run's summary:
#
# ======================== =======
# 100 failure modes, other  80 KiB  128 characters of 6 bytes (escaped), and a count
# cost_by_agent_model      224 KiB  1,200 agents with labels of 160 bytes
# labels                    96 KiB
# tier_uplift, tier_delta   64 KiB  32 KiB each
# provenance, varies        70 KiB  32 fields
# metrics                  104 KiB  65 named metrics, each with texts of 128 characters
# all other fields          32 KiB  texts of 1,024 characters among them
# ======================== =======


MAX_SUMMARY_BYTES = 512 * 1024
MAX_FAILURE_MODES = 100
OTHER = "other"
"""Stands for the failure modes, or the costs, that have no entry of their own."""

_COST_BYTES = 224 * 1024
_LABEL_BYTES = 96 * 1024
_TIER_BYTES = 32 * 1024

T = TypeVar("T")


def run_body(run: RunState, planned: Denominators) -> dict[str, Any]:
    """What the run's summary says; the run is counted up to date."""
    plan = run.plan
    verdicts = run.rules.verdicts
    pooled = {g.tier: of.as_ruled(verdicts) for g, of in run.groups.items() if g.tier and not g.agent}
    tiers = dict(sorted(pooled.items()))
    agents = {g.agent_model or "": group for g, group in run.groups.items() if g.tier is None}
    total = planned.run()
    finished = plan.finished
    missing = [run.groups[GroupId(tier)].trials < (planned.tier(tier) or 0) for tier in tiers]
    body: dict[str, Any] = {
        **{name: plan.get(name) for name in ("harness", "project", "benchmark", "benchmark_version")},
        "display_name": plan.get("display_name"),
        "metrics": {name: reading(of) for name, of in planned_metrics(plan).items()},
        "primary_metric": primary_metric(plan),
        "labels": first_by_name(plan.labels, _LABEL_BYTES),
        "provenance": plan.get("provenance") or {},
        "varies": plan.get("varies") or [],
        "status": finished and (finished.status or "finished"),
        "started_at": _instant(plan.get("started_at")),
        "finished_at": _instant(finished.finished_at) if finished else None,
        "grading_profile": run.rules.profile.name,
        "cost_by_agent_model": costs_by_agent_model(agents),
        "agent_models": len(agents),
        "tiers": len(tiers),
        "cross_tier": cross_tier(tiers, plan.baseline_tier, run.rules.profile.ddof, plan.judged),
        "progress": {
            "done": run.totals.slots,
            "planned": total,
            "plan_complete": not planned.incomplete,
            **({"parts": plan.parts} if plan.parts else {}),
        },
        "in_flight": 0 if finished else run.scores.roster.lineup(RUN).count(STARTED, STARTED | STORED),
        "provisional": planned.incomplete or (any(missing) if total is None else run.totals.slots < total),
    }
    swapped = [(run.scores.outcome(group), as_ruled) for group, as_ruled in incomplete_trials(run)]
    for outcome, as_ruled in swapped:
        run.totals.count_outcome(outcome, -1)
        run.totals.count_outcome(as_ruled, 1)
    totals = run.totals.body(plan.attempts, plan.task_count, verdicts)
    for outcome, as_ruled in swapped:
        run.totals.count_outcome(as_ruled, -1)
        run.totals.count_outcome(outcome, 1)
    if run.totals.numeric and not totals["verdict_trials"]:
        body["primary_metric"] = primary_metric(plan, has_verdicts=False)
    return totals | body | {"failure_modes": most_frequent(totals["failure_modes"])}


def primary_metric(plan: Plan, *, has_verdicts: bool = True) -> str:
    """What boards are ordered by: one of their metrics, or `metrics/NAME`.

    Without verdicts there is no pass rate (R31). Then it is the only named metric that the plan has.
    """
    names = list(plan.get("metrics") or ())
    only = NAMED + names[0] if len(names) == 1 and not has_verdicts else PRIMARY_METRIC
    return plan.get("primary_metric") or only


def planned_metrics(plan: Plan) -> dict[str, MetricPlan]:
    """The named metrics that get a board, by name: those that the plan reads, and the primary one."""
    planned: dict[str, MetricPlan] = dict(plan.get("metrics") or {})
    primary = primary_metric(plan)
    if primary.startswith(NAMED):
        planned.setdefault(primary.removeprefix(NAMED), MetricPlan())
    return dict(sorted(planned.items()))


def reading(plan: MetricPlan) -> dict[str, Any]:
    """How to read a metric: higher is better unless the plan says otherwise."""
    return {"direction": plan.direction or "higher", "unit": plan.unit, "label": plan.label}


def cross_tier(
    tiers: dict[str, GroupState], baseline_tier: str, ddof: int, judged: bool | None
) -> dict[str, Any] | None:
    """Cross-tier numbers of the pooled tiers; None where there is no tier.

    Args:
        judged: whether the plan says that trials get a judge's score; None: as seen (R13).
    """
    if not tiers:
        return None
    baseline = tiers.get(baseline_tier)
    others = {tier: group for tier, group in tiers.items() if tier != baseline_tier}
    costs = _medians(tiers, "cost_usd")
    frontier = _frontier(tiers)
    return {
        "tier_uplift": _limited({t: uplift(g, baseline, judged) for t, g in others.items()}),
        "tier_delta": _limited({t: delta(g, baseline, judged) for t, g in others.items()}),
        "pass_rate_variance": json_number(variance_of_medians(_medians(tiers, "pass_rate"), ddof)),
        "impl_rate_variance": json_number(variance_of_medians(_medians(tiers, "impl_rate"), ddof)),
        "cost_variance": json_number(variance_of_medians(costs, ddof)),
        "cost_delta": json_number(cost_delta(costs)),
        "frontier_cost_of_pass": json_number(frontier[0]) if frontier else None,
        "frontier_tier": frontier[1] if frontier else None,
    }


def uplift(group: GroupState, baseline: GroupState | None, judged: bool | None) -> float | None:
    """Relative gain of the grade's score over the baseline tier's; None without one above 0 (R23)."""
    pair = _grade_scores(group, baseline, judged)
    return tier_uplift(*pair) if pair else None


def delta(group: GroupState, baseline: GroupState | None, judged: bool | None) -> float | None:
    """The grade's score minus the baseline tier's, -1 to 1 (R23).

    None if either is missing, or they rest on other bases.
    """
    pair = _grade_scores(group, baseline, judged)
    return pair[0] - pair[1] if pair else None


def _grade_scores(
    group: GroupState, baseline: GroupState | None, judged: bool | None
) -> tuple[float, float] | None:
    if baseline is None or group.grade_basis(judged) != baseline.grade_basis(judged):
        return None
    ours, theirs = group.grade_score(judged), baseline.grade_score(judged)
    return None if ours is None or theirs is None else (ours, theirs)


def _medians(tiers: dict[str, GroupState], metric: str) -> list[float]:
    medians = (group.distributions[metric].median() for group in tiers.values())
    return [median for median in medians if median is not None]


def _frontier(tiers: dict[str, GroupState]) -> tuple[float, str] | None:
    """The lowest cost of pass and its tier; ties to the first name."""
    costs = ((group.cost_of_pass(), tier) for tier, group in tiers.items())
    return min(((cost, tier) for cost, tier in costs if cost is not None), default=None)


def tier_uplift(score: float, baseline: float) -> float | None:
    """Relative gain of a tier's grade score over the baseline tier's: 0.2 is 20 % better.

    None where the baseline is not above 0 (R23).

    >>> tier_uplift(0.9, 0.75), tier_uplift(0.9, 0.0)
    (0.20000000000000004, None)
    """
    return (score - baseline) / baseline if baseline > 0 else None


def variance_of_medians(medians: Iterable[float], ddof: int) -> float | None:
    """Variance of the tiers' medians (S6), exact and rounded once (R18).

    None: no median at all (R16). One: 0.0. Values that are not finite enter no sum (R18).
    A variance beyond the largest float is Infinity.

    Args:
        medians: one per tier that has one.
        ddof: 0 divides by n (population), 1 by n - 1 (sample).

    >>> variance_of_medians([0.25, 0.5, 1.0], ddof=1)
    0.14583333333333334
    >>> variance_of_medians([0.5], ddof=1), variance_of_medians([], ddof=0)
    (0.0, None)
    """
    return ExactSum.of([median for median in medians if math.isfinite(median)]).variance(ddof)


def cost_delta(median_costs: Iterable[float]) -> float | None:
    """Dearest minus cheapest median cost in USD (S8). None: no tier has a cost (R16). Finite values only.

    >>> cost_delta([0.5, 0.25, 2.0]), cost_delta([])
    (1.75, None)
    """
    finite = [c for c in median_costs if math.isfinite(c)]
    return max(finite) - min(finite) if finite else None


def most_frequent(failure_modes: Mapping[str, int]) -> dict[str, int]:
    """The 100 most frequent failure modes, ties by name, and all others counted as `other`.

    >>> modes = most_frequent({f"mode {n}": 1 for n in range(200)} | {"timeout": 7})
    >>> len(modes), modes["timeout"], modes["other"]
    (101, 7, 101)
    """
    if len(failure_modes) <= MAX_FAILURE_MODES:
        return dict(failure_modes)
    ranked = sorted(failure_modes.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ranked[:MAX_FAILURE_MODES])
    kept[OTHER] = kept.get(OTHER, 0) + sum(count for _, count in ranked[MAX_FAILURE_MODES:])
    return kept


def first_by_name(values: dict[str, T], most_bytes: int) -> dict[str, T]:
    """The entries, or the first by name whose JSON has `most_bytes` at most.

    >>> first_by_name({"b": 1, "a": 2}, 8)
    {'a': 2}
    """
    if _fits(values, most_bytes):
        return values
    return _fitting(sorted(values.items()), most_bytes)


def costs_by_agent_model(groups: Mapping[str, GroupState]) -> dict[str, Any]:
    """Label of an agent:model to its known cost in USD, None for none.

    Where those are more than fit, the dearest have entries, ties by label; the others' sum is `other`.
    """
    sums = {label: group.distributions["cost_usd"].finite for label, group in groups.items()}
    costs = {label: json_number(cost.total()) if cost.count else None for label, cost in sums.items()}
    if _fits(costs, _COST_BYTES):
        return costs
    dearest = sorted(sums, key=lambda label: (not sums[label].count, -sums[label].total(), label))
    kept: dict[str, Any] = _fitting([(label, costs[label]) for label in dearest], _COST_BYTES)
    rest = ExactSum()
    rest.merge(*(cost for label, cost in sums.items() if label not in kept))
    return kept | {OTHER: json_number(rest.total()) if rest.count else None}


def _limited(by_tier: dict[str, float | None]) -> dict[str, JsonNumber]:
    return first_by_name({tier: json_number(value) for tier, value in by_tier.items()}, _TIER_BYTES)


def _fits(values: Mapping[str, Any], most_bytes: int) -> bool:
    return len(orjson.dumps(values)) <= most_bytes


def _fitting(ranked: Iterable[tuple[str, T]], most_bytes: int) -> dict[str, T]:
    """The leading entries whose JSON has `most_bytes` at most."""
    kept, left = {}, most_bytes - len("{}")
    for name, value in ranked:
        left -= len(orjson.dumps({name: value})) - len("{}") + len(",")
        if left < 0:
            break
        kept[name] = value
    return kept


def _instant(moment: datetime | None) -> str | None:
    return rfc3339(microseconds(moment)) if moment is not None else None


# -----------------------------------------------------------------------------
# The common part of the summaries of agents and tiers; breakdowns by subtest and label have it too.


MOST_NAMED = 100
"""Named metrics that a summary has, 400 bytes each, and texts of the plan of 2 KiB for 65 of them."""

NO_ERROR: dict[str, Any] = dict.fromkeys(("standard_error", "low", "high"))
"""The fields of an error and its interval where there is none; to be read only."""


def group_body(
    run: RunState, group: GroupState, plan: GroupPlan, evidence: Evidence | None = None
) -> dict[str, Any]:
    """Everything that the summaries of all groups have in common, cut to the limits.

    Args:
        evidence: for the errors of means; None for groups that are on no board, whose errors are null.
    """
    profile = run.rules.profile
    group = group.as_ruled(run.rules.verdicts)
    statistics = {
        metric: distribution.summary(profile.ddof) | mean_error(group, evidence, metric)
        for metric, distribution in group.distributions.items()
    }
    score, basis = group.grade_score(plan.judged), group.grade_basis(plan.judged)
    return {
        "trials": group.trials,
        "tasks": group.tasks,
        "verdict_trials": group.verdict_trials,
        "resolved": group.resolved,
        "unresolved": group.verdict_trials - group.resolved,
        "no_verdict": group.no_verdict,
        "score_out_of_range": group.scores_out_of_range,
        "runs_planned": plan.trials,
        "provisional": plan.incomplete or (plan.trials is not None and group.trials < plan.trials),
        **headline(group),
        "pass_at_k": group.pass_at_k.summary(plan.attempts, plan.tasks)
        if len(group.owners) <= 1 and group.has_verdicts
        else None,
        "tokens": _tokens(group),
        "mean_trajectory_length": json_number(group.sums["trajectory_length"].mean()),
        "statistics": statistics,
        "metrics": named_body(group.named, run.plan, profile.ddof, evidence),
        "coverage": {metric: total.count for metric, total in (group.distributions | group.sums).items()},
        "failure_modes": most_frequent(group.failure_modes),
        "grade": profile.grade(score),
        "grade_basis": basis,
        "grade_score": score,
        "grade_provisional": basis == "composite_median" and group.unscored > 0 and plan.awaits_scores,
        "grading_profile": profile.name,
    }


def _tokens(group: GroupState) -> dict[str, int | float | None]:
    """Token totals; None where no trial reports that kind."""
    return {
        "input": _whole(group.distributions["input_tokens"]),
        "output": _whole(group.distributions["output_tokens"]),
        "cache_read": _whole(group.sums["cache_read_tokens"]),
        "cache_write": _whole(group.sums["cache_write_tokens"]),
    }


def _whole(total: Distribution | ExactSum) -> int | float | None:
    return json_count(total.total()) if total.count else None


def headline(group: GroupState) -> dict[str, Any]:
    """The numbers of a group that are neither statistics of a metric nor FormulaCode's."""
    cost = group.distributions["cost_usd"]
    return accuracies(group.resolved, group.verdict_trials, group.infrastructure_failures) | {
        **cost_sums(cost.finite, group.sums[ESTIMATED]),
        "mean_cost": json_number(cost.mean()),
        "cost_of_pass": json_number(group.cost_of_pass()),
    }


def named_body(
    distributions: Mapping[str, Distribution], plan: Plan, ddof: int, evidence: Evidence | None
) -> dict[str, Any]:
    """Metric to its statistics and how to read them: the planned ones, then by number of trials.

    Args:
        evidence: for the errors of means; None for groups that are on no board, whose errors are null.
    """
    planned = planned_metrics(plan)
    others = sorted(distributions.keys() - planned, key=lambda name: (-distributions[name].count, name))
    nothing = Distribution()
    return {
        name: distributions.get(name, nothing).summary(ddof)
        | error_body(evidence.means(NAMED + name) if evidence else None)
        | reading(planned.get(name, MetricPlan()))
        | {"planned": name in planned}
        for name in [*planned, *others][:MOST_NAMED]
    }


def mean_error(group: GroupState, evidence: Evidence | None, metric: str) -> dict[str, Any]:
    """Error and interval of a metric's mean; None of fewer than two tasks, and of metrics without a board."""
    if evidence is None or metric not in ("pass_rate", *MEANS) or not group.distributions[metric].count:
        return NO_ERROR
    if metric == "pass_rate":
        return _error_body(evidence.pass_rate, evidence.pass_rate_interval)
    return error_body(evidence.means(metric))


def error_body(values: Clusters | None) -> dict[str, Any]:
    """Error and t interval of a mean: `standard_error`, `low`, `high`; None of fewer than two tasks."""
    return _error_body(values, mean_interval(values)) if values else NO_ERROR


def _error_body(values: Clusters, interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return NO_ERROR
    numbers = values.standard_error(), *interval
    return dict(zip(NO_ERROR, map(json_number, numbers), strict=True))


# -----------------------------------------------------------------------------
# FormulaCode's block in the summary of an agent:model: its means, what they rest on, the error of one.
#
# Planned agents that have no sub-trial in a trial count in it as agents that changed nothing (R21).


AgentModel = tuple[str, str]
"""(agent, model)."""


@dataclass(frozen=True)
class MissingTrials:
    """Multi-agent trials that lack an agent; to be read only.

    Attributes:
        sums: FormulaCode's sums over them; each has a speedup of 1.0.
        tasks: how many there are of each task.
    """

    sums: FormulaCodeSums = field(default_factory=FormulaCodeSums)
    tasks: Counter[str] = field(default_factory=Counter)

    @cached_property
    def speedups(self) -> Clusters:
        return Clusters.of_counts([(trials, trials, 1) for trials in self.tasks.values()])

    def plus(self, other: MissingTrials) -> MissingTrials:
        return MissingTrials(self.sums.plus(other.sums, 0), self.tasks + other.tasks)

    def minus(self, other: MissingTrials) -> MissingTrials:
        """The trials without some of them."""
        return MissingTrials(self.sums.minus(other.sums), self.tasks - other.tasks)


def missing_sub_trials(run: RunState) -> dict[AgentModel, MissingTrials]:
    """The multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out. The plan of a pooled
    run names the agents of all its shards, so a shard only lacks agents that it has elsewhere.

    The work grows with the results there are, not with planned agents times trials: agents without any
    sub-trial share what they lack.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if (
        not run.plan.has_ended
        or not planned
        or not run.totals.with_formulacode
        or not run.scores.trial_groups()
    ):
        return {}
    missing: dict[AgentModel, MissingTrials] = {}
    for shard in _shards(run, planned):
        for owner in shard.expected:
            if trials := shard.lacking(owner):
                others = missing.get(owner)
                missing[owner] = trials if others is None else others.plus(trials)
    return missing


def incomplete_trials(run: RunState) -> list[tuple[TrialGroupKey, Outcome]]:
    """The multi-agent trials that lack a planned agent, and how they count in the run (R10).

    Until the run has ended they do not count. Afterwards they count as if that agent had crashed.
    """
    if not run.scores.trial_groups():
        return []
    is_baseline = run.scores.is_baseline
    planned = {owner for owner in run.plan.agent_models() if not is_baseline(owner[0])}
    lacking = {
        group
        for shard in _shards(run, planned)
        for owner in shard.expected
        for group in shard.groups - shard.owned.get(owner, set())
    }
    crashed: dict[str, Any] = {"resolved": None, "failure_mode": None, "infrastructure_failure": False}
    changed = crashed | {"compared": True} if run.plan.has_ended else {"incomplete": True}
    return [(group, replace(run.scores.outcome(group), **changed)) for group in sorted(lacking, key=str)]


class _Shard:
    """The multi-agent trials of one shard.

    Attributes:
        groups: the trials.
        expected: the agents of which each should have a sub-trial.
        owned: the trials that have a result of an agent, as a sub-trial or beside it (R10).
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self.groups: set[TrialGroupKey] = set()
        self.expected: set[AgentModel] = set()
        self.owned: dict[AgentModel, set[TrialGroupKey]] = {}

    def lacking(self, owner: AgentModel) -> MissingTrials | None:
        """The trials that lack an agent; None if there are none."""
        owned = self.owned.get(owner, set())
        if not owned:
            return self._all
        if len(owned) == len(self.groups):
            return None
        if 2 * len(owned) >= len(self.groups):
            return self._missing(self.groups - owned)
        return self._all.minus(self._missing(owned))

    @cached_property
    def _all(self) -> MissingTrials:
        """All trials, for an agent that each of them lacks."""
        return self._missing(self.groups)

    def _missing(self, groups: Collection[TrialGroupKey]) -> MissingTrials:
        scores = [self._run.scores.of_missing(group) for group in groups]
        sums = FormulaCodeSums.of(scores, failures=len(scores))
        return MissingTrials(sums, Counter(group.task_id for group in groups))


def _shards(run: RunState, planned: set[AgentModel]) -> list[_Shard]:
    shards: dict[str, _Shard] = {}
    groups = run.scores.trial_groups()
    for group, keys in groups.items():
        shard = shards.setdefault(group.shard, _Shard(run))
        shard.groups.add(group)
        shard.expected.update((key.agent, key.model) for key in keys)
    for name, shard in shards.items():
        shard.expected = planned & shard.expected if name else planned
    for key, slot in run.slots.items():
        group, owner = key.trial_group, (key.agent, key.model)
        if slot.revision is not None and group in groups and owner in planned:
            shards[group.shard].owned.setdefault(owner, set()).add(group)
    return list(shards.values())


def formulacode_body(
    group: GroupState, missing: MissingTrials | None = None, evidence: Evidence | None = None, *, nop: bool
) -> dict[str, Any]:
    """FormulaCode's numbers of an agent:model in a run in which any trial has a FormulaCode section.

    A trial that ended without any payload counts as a failure of an agent that changed nothing (R21).

    Args:
        missing: trials in which the agent was planned and has no sub-trial, once the run has finished.
        evidence: for the error of the mean speedup; None for baselines, whose error is null.
        nop: the agent is nop, which never counts as failed.
    """
    missing = missing or MissingTrials()
    unmeasured = 0 if nop else group.failures - group.formulacode.failures
    trials = group.verdict_trials + missing.sums.trials
    sums = group.formulacode.plus(missing.sums, unmeasured)
    body = sums.body(
        group.passes / trials if trials else None,
        group.distributions["cost_usd"].mean(),
        group.sums["trajectory_length"].mean(),
        nop=nop,
    )
    speedups = None
    if evidence is not None:
        speedups = evidence.speedups(sums.speedup, missing.tasks) if group.trials else missing.speedups
    error = error_body(speedups)
    errors = {f"mean_speedup_{name}": value for name, value in error.items()}
    return body | errors | {"missing": missing.sums.trials}
