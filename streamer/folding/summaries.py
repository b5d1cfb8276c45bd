"""Summaries of a run's groups: those that changed, all from one moment.

The tables at the end name the computation of each field: `AGENT_MODEL`, `TIER`, `RUN_FIELDS` and
`FORMULACODE`. A field missing here or in `streamer.schemas.summaries` fails at import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from streamer.folding.groups import ESTIMATED, FormulaCodeSums, GroupState, RunTotals, Tally
from streamer.folding.plan import Denominators, GroupPlan, Plan
from streamer.folding.score import NOP
from streamer.folding.slots import SummaryChange
from streamer.folding.state import (
    AgentModel,
    MissingTrials,
    RunState,
    candidates_of,
    declared_agents,
    incomplete_trials,
    missing_sub_trials,
)
from streamer.folding.uncertainty import MEANS, Evidence, MeanError, error_of, uncertainty_body
from streamer.schemas.base import (
    RUN,
    SEMANTICS_VERSION,
    GroupId,
    JsonNumber,
    Message,
    SummaryKind,
    canonical_json,
    json_count,
    json_number,
    microseconds,
    rfc3339,
    sha256_hex,
)
from streamer.schemas.events import (
    ADVANTAGES,
    NAMED,
    PRIMARY_METRIC,
    BoardMetric,
    FormulaCodeSummary,
    LedgerLine,
    MetricPlan,
)
from streamer.schemas.summaries import AgentModelSummary, GradeBasis, Published, RunSummary, TierSummary
from streamer.statistics.distribution import Distribution, ExactSum

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Tally)


class Summaries:
    def __init__(self, run: RunState, epoch: int, made_with: str = "") -> None:
        self.run = run
        self.epoch = epoch
        self._made_with = made_with
        self.final_missing: dict[GroupId, str | None] = {}
        self._taken: dict[GroupId, tuple[Any, ...]] = {}
        self._shape: list[tuple[GroupId, int]] = []
        self._planned: dict[GroupId, GroupPlan] = {}
        self._positions, self._order_kind = 0, run.queue.kind
        self._missing: dict[AgentModel, MissingTrials] = {}
        self._with_formulacode = False
        self._open_states = 0

    def take(self, changed: set[GroupId]) -> list[SummaryChange]:
        """The summaries that have changed since the last call, tombstones included.

        `changed` has the groups whose trials changed. Call `count` first.
        """
        at, before = Moment(self.run), self._missing
        self._missing = at.missing
        changes = []
        for change in self._summaries(self._due(changed, at, {*before, *at.missing}), at):
            content = _content(change)
            if content is not None and change.group != RUN:
                self._planned[change.group] = at.planned.of(change.group)
            if content == self._taken.get(change.group):
                continue
            changes.append(change)
            if content is not None:
                self._taken[change.group] = content
            else:
                del self._taken[change.group]
        return changes

    def all(self) -> list[SummaryChange]:
        """Every current summary, without marking any as taken. Call `count` first."""
        self.final_missing, at = {}, Moment(self.run)
        due = {*self.run.every_group(), *map(_of_agent, at.missing), RUN}
        return [change for change in self._summaries(due, at) if change.value is not None]

    def of_run(self) -> SummaryChange:
        """The current summary of the run, without marking it as taken. Call `count` first."""
        return self._summary(RUN, Moment(self.run))

    def taken(self) -> list[tuple[SummaryKind, str]]:
        return [(group_id.kind, group_id.topic_key(self.run.run_id)) for group_id in self._taken]

    def _due(self, changed: set[GroupId], at: Moment, lacking: set[AgentModel]) -> set[GroupId]:
        run, groups, roster, queue = self.run, at.groups, self.run.scores.roster, self.run.queue
        due, everyone = set(changed), run.every_group()
        shape = [(group_id, len(group.subtests)) for group_id, group in groups.items()]
        if shape != self._shape:
            self._shape = shape
            due.update(group for group in everyone if at.planned.of(group) != self._planned.get(group))
        open_states, kind = at.open_states, queue.kind
        if open_states != self._open_states:
            due |= everyone
        queued = queue.places is None and roster.positions_changed != self._positions  # they share one queue
        if queued or kind is not self._order_kind:
            due.update(group for group in everyone if group.agent is not None)
        self._open_states, self._order_kind = open_states, kind
        self._positions = roster.positions_changed
        if lacking or self._with_formulacode != at.with_formulacode:
            self._with_formulacode = at.with_formulacode
            due.update(group for group in (*groups, *self._taken) if group.tier is None)
            due.update(map(_of_agent, lacking))
        for baseline in [group for group in due if group.tier == run.plan.baseline_tier]:
            owner = (baseline.agent, baseline.model)
            due.update(g for g in groups if g.tier is not None and (g.agent, g.model) == owner)
        return due | {RUN}

    def _summaries(self, due: set[GroupId], at: Moment) -> list[SummaryChange]:
        changes = []
        for group_id in sorted(due):
            changes.append(self._summary(group_id, at))
            if (group := self.run.counts.groups.get(group_id)) is not None:
                group.let_go()
        return changes

    def _summary(self, group_id: GroupId, at: Moment) -> SummaryChange:
        body = run_body(at) if group_id == RUN else self._group_body(group_id, at)
        return sealed(self.run, group_id, body, self.epoch, self._made_with)

    def _group_body(self, group_id: GroupId, at: Moment) -> dict[str, Any] | None:
        group = at.groups.get(group_id) or GroupState()
        of = Subject(at, group_id, group)
        planned = group_id.tier is None and of.owner in at.missing  # without a single sub-trial
        if not (group.trials or planned or of.evidence.in_flight):
            self.final_missing.pop(group_id, None)
            return None
        body = computed(TIER if group_id.tier is not None else AGENT_MODEL, of)
        if group_id.tier is None:
            self.final_missing[group_id] = body["uncertainty"]["final_missing"]
        return body


def _of_agent(owner: AgentModel) -> GroupId:
    return GroupId(None, *owner)


MARKS = ("superseded", "conflicts", "impoverished", "failures_rerun")
"""Counts of slots that explain a summary."""


def _content(change: SummaryChange) -> tuple[Any, ...] | None:
    if change.summary is None:
        return None
    return (change.digest, *map(change.summary.__getitem__, MARKS))


def sealed(
    run: RunState, group: GroupId, body: dict[str, Any] | None, epoch: int, made_with: str
) -> SummaryChange:
    """Canonical bytes of a body with digest and provenance; a tombstone if the body is None."""
    version = run.state_version
    if body is None:
        return SummaryChange.tombstone(run.run_id, group, epoch, version)
    way = {name: body.pop(name) for name in MARKS if name in body}
    body |= {"type": group.type, "run_id": run.run_id, "semantics_version": SEMANTICS_VERSION}
    digested = canonical_json(body)
    digest = sha256_hex(digested)
    way |= {
        "epoch": epoch,
        "state_version": version,
        "last_event_at": rfc3339(run.last_event_at),
        "digest": digest,
        "made_with": made_with,
        "degraded": None,
    }
    value = digested[:-1] + b"," + canonical_json(way)[1:]
    return SummaryChange(run.run_id, group, value, body | way, epoch, version, digest)


def board_value(metric: BoardMetric, of: Subject[GroupState]) -> float | None:
    """The value of a METRIC in the summary of an agent:model; None if unknown."""
    part, *path = metric.path
    if part not in ("statistics", "metrics"):
        return metric.value(computed({part: AGENT_MODEL[part]}, of))
    name, statistic = path
    distributions = of.counted.distributions if part == "statistics" else of.counted.named
    return metric.value({part: {name: {statistic: getattr(distributions.get(name, _NOTHING), statistic)()}}})


# -----------------------------------------------------------------------------
# The input of a summary's fields: one moment of a run, and one group in it.


_SAID = ("harness", "project", "benchmark", "benchmark_version", "display_name")


class Moment:
    """Facts that all summaries of a run share at one moment, after `count`."""

    def __init__(self, run: RunState) -> None:
        self.run, self.plan, self.rules = run, run.plan, run.rules
        self.groups: Mapping[GroupId, GroupState] = run.groups
        self.finished = run.plan.finished
        self.with_formulacode = run.totals.with_formulacode > 0
        self.numeric = run.totals.numeric  # of trials as they came: `run_body` counts some as incomplete

    @cached_property
    def said(self) -> dict[str, Any]:
        return {name: self.plan.get(name) for name in _SAID}

    @cached_property
    def planned(self) -> Denominators:
        return self.run.denominators()

    @cached_property
    def open_states(self) -> int:
        return self.run.open_states()

    @cached_property
    def missing(self) -> dict[AgentModel, MissingTrials]:
        return missing_sub_trials(self.run)

    @cached_property
    def metrics(self) -> dict[str, MetricPlan]:
        return planned_metrics(self.plan)

    @cached_property
    def tiers(self) -> dict[str, GroupState]:
        pooled = {id_.tier: of for id_, of in self.groups.items() if id_.tier is not None and not id_.agent}
        return {tier: of.as_ruled(self.rules.verdicts) for tier, of in sorted(pooled.items())}

    @cached_property
    def agents(self) -> dict[str, GroupState]:
        return {id_.agent_model or "": of for id_, of in self.groups.items() if id_.tier is None}


class Subject(Generic[C]):
    """The input of a summary's fields: a group of a run at one moment, or the run itself.

    `unruled` are its trials as counted, `counted` the same after R31.
    """

    def __init__(self, at: Moment, group_id: GroupId, counted: C) -> None:
        self.at, self.run, self.group_id, self.unruled = at, at.run, group_id, counted
        self.profile = at.rules.profile
        self.counted = counted.as_ruled(at.rules.verdicts)
        self.verdict_trials = self.counted.verdict_trials
        self.has_boards = group_id.tier is None and group_id != RUN

    @property
    def owner(self) -> AgentModel:
        return self.group_id.agent or "", self.group_id.model or ""

    @cached_property
    def planned(self) -> GroupPlan:
        return self.at.planned.of(self.group_id)

    @cached_property
    def evidence(self) -> Evidence:
        return self.run.evidence(self.group_id, self.at.open_states)

    @cached_property
    def missing(self) -> MissingTrials:
        """The trials without a sub-trial of this planned agent:model, once the run has finished."""
        return self.at.missing.get(self.owner, MissingTrials())

    @cached_property
    def against(self) -> GroupState | None:
        tier = self.at.plan.baseline_tier
        owner = self.group_id.agent, self.group_id.model
        group = self.at.groups.get(GroupId(tier, *owner)) if tier != self.group_id.tier else None
        return group and group.as_ruled(self.at.rules.verdicts)

    @cached_property
    def scores(self: Subject[GroupState]) -> tuple[float, float] | None:
        return grade_scores(self.counted, self.against, self.planned.judged)

    @cached_property
    def costs(self) -> ExactSum:
        return self.counted.costs

    @cached_property
    def grade_basis(self: Subject[GroupState]) -> GradeBasis | None:
        return self.counted.grade_basis(self.planned.judged)

    @cached_property
    def grade_score(self: Subject[GroupState]) -> float | None:
        return self.counted.grade_score(self.planned.judged)

    def share(self, of: int) -> float | None:
        return self.counted.resolved / of if of > 0 else None


Field = Callable[[Subject[Any]], Any]
GroupField = Callable[[Subject[GroupState]], Any]
RunField = Callable[[Subject[RunTotals]], Any]


def computed(fields: Mapping[str, Callable[[T], Any]], of: T) -> dict[str, Any]:
    return {name: _json(field(of)) for name, field in fields.items()}


def _json(value: Any) -> Any:
    is_finite = value.__class__ is not float or math.isfinite(value)
    return value if is_finite else json_number(value)


def bound(message: type[Message], fields: dict[str, F]) -> dict[str, F]:
    written_out = message.model_fields.keys() - Published.model_fields - {"type"}
    if differing := sorted(fields.keys() ^ written_out):
        raise TypeError(f"{message.__name__} and its table of fields differ in {', '.join(differing)}")
    return fields


# -----------------------------------------------------------------------------
# The run's summary: totals, plan, the comparison of its tiers (S6-S8, R23), and what limits its size.
#
# A run can have many failure modes, agents, labels and tiers. Anything beyond a limit is left out of the
# summary; the state keeps everything, so removing trials is exact. Every summary stays below
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

_COST_BYTES = 224 * 1024
_LABEL_BYTES = 96 * 1024
_TIER_BYTES = 32 * 1024


def run_body(at: Moment) -> dict[str, Any] | None:
    """The body of the run's summary; None: the run does not exist."""
    run, totals = at.run, at.run.totals
    if not run.exists:
        return None
    swapped = [(run.scores.outcome(group), as_ruled) for group, as_ruled in incomplete_trials(run)]
    for outcome, as_ruled in swapped:
        totals.count_outcome(outcome, -1)
        totals.count_outcome(as_ruled, 1)
    body = computed(RUN_FIELDS, Subject(at, RUN, totals))
    for outcome, as_ruled in swapped:
        totals.count_outcome(as_ruled, -1)
        totals.count_outcome(outcome, 1)
    return body


def primary_metric(plan: Plan, *, has_verdicts: bool = True) -> str:
    """The metric that orders boards: a built-in one, or `metrics/NAME`.

    Without verdicts (R31) it is the plan's only named metric.
    """
    names = list(plan.get("metrics") or ())
    only = NAMED + names[0] if len(names) == 1 and not has_verdicts else PRIMARY_METRIC
    return plan.get("primary_metric") or only


def planned_metrics(plan: Plan) -> dict[str, MetricPlan]:
    """The named metrics with a board, by name: those in the plan, and the primary one."""
    planned: dict[str, MetricPlan] = dict(plan.get("metrics") or {})
    primary = primary_metric(plan)
    if primary.startswith(NAMED):
        planned.setdefault(primary.removeprefix(NAMED), MetricPlan())
    return dict(sorted(planned.items()))


def ledger_entry(run: RunState) -> dict[str, Any] | None:
    """The ledger of a run (inference 8a), if its plan names one."""
    declared = run.plan.ledger
    if declared is None:
        return None
    ledger, kept = declared.value, archived_lines(run)
    candidates = len(declared_agents(run, candidates_of(run, ledger.baseline)))
    in_time = declared.precedes(run.scores.began())
    if kept is not None:
        reasons = [reason for _, reason, *_ in kept.values()]
        candidates = len(kept) - reasons.count("undeclared")
        in_time = not {"undated", "late"} & set(reasons)
    return {
        "name": ledger.name,
        "baseline": ledger.baseline,
        "metric": ledger.metric or PRIMARY_METRIC,
        "planned_at": None if declared.at is None else rfc3339(declared.at),
        "in_time": in_time,
        "candidates": candidates,
    }


def archived_lines(run: RunState) -> dict[str, LedgerLine] | None:
    """The ledger's lines of an archived run, by agent:model; None if not archived.

    Only lines above a deletion of the run count. They give no trial a verdict.
    """
    declared = run.plan.ledger
    return None if declared is None or run.deleted_to is None else declared.value.lines


def reading(plan: MetricPlan) -> dict[str, Any]:
    """How to read a metric: higher is better unless the plan says otherwise."""
    return {"direction": plan.direction or "higher", "unit": plan.unit, "label": plan.label}


def cross_tier(of: Subject[RunTotals]) -> dict[str, Any] | None:
    tiers, judged, ddof = of.at.tiers, of.at.plan.judged, of.profile.ddof
    if not tiers:
        return None
    baseline_tier = of.at.plan.baseline_tier
    baseline = tiers.get(baseline_tier)
    others = {tier: group for tier, group in tiers.items() if tier != baseline_tier}
    costs = _medians(tiers, "cost_usd")
    frontier = _frontier(tiers)
    pairs = {tier: grade_scores(group, baseline, judged) for tier, group in others.items()}
    return {
        "tier_uplift": _limited({tier: uplift(pair) for tier, pair in pairs.items()}),
        "tier_delta": _limited({tier: delta(pair) for tier, pair in pairs.items()}),
        "pass_rate_variance": _json(variance_of_medians(_medians(tiers, "pass_rate"), ddof)),
        "impl_rate_variance": _json(variance_of_medians(_medians(tiers, "impl_rate"), ddof)),
        "cost_variance": _json(variance_of_medians(costs, ddof)),
        "cost_delta": _json(cost_delta(costs)),
        "frontier_cost_of_pass": _json(frontier[0]) if frontier else None,
        "frontier_tier": frontier[1] if frontier else None,
    }


def grade_scores(
    group: GroupState, baseline: GroupState | None, judged: bool | None
) -> tuple[float, float] | None:
    """The scores of a grade and of the baseline tier's; None if one is missing or the bases differ (R23)."""
    if baseline is None or group.grade_basis(judged) != baseline.grade_basis(judged):
        return None
    ours, theirs = group.grade_score(judged), baseline.grade_score(judged)
    return None if ours is None or theirs is None else (ours, theirs)


def uplift(pair: tuple[float, float] | None) -> float | None:
    """Relative gain over the baseline tier; None if that is not above 0 (R23)."""
    return tier_uplift(*pair) if pair else None


def delta(pair: tuple[float, float] | None) -> float | None:
    """The score minus the baseline tier's, -1 to 1 (R23)."""
    return pair[0] - pair[1] if pair else None


def _medians(tiers: dict[str, GroupState], metric: str) -> list[float]:
    medians = (group.distributions[metric].median() for group in tiers.values())
    return [median for median in medians if median is not None]


def _frontier(tiers: dict[str, GroupState]) -> tuple[float, str] | None:
    costs = ((group.cost_of_pass(), tier) for tier, group in tiers.items())
    return min(((cost, tier) for cost, tier in costs if cost is not None), default=None)


def tier_uplift(score: float, baseline: float) -> float | None:
    """Relative gain of a tier's grade score over the baseline tier's: 0.2 is 20 % better.

    None if the baseline is not above 0 (R23).

    >>> tier_uplift(0.9, 0.75), tier_uplift(0.9, 0.0)
    (0.20000000000000004, None)
    """
    return (score - baseline) / baseline if baseline > 0 else None


def variance_of_medians(medians: Iterable[float], ddof: int) -> float | None:
    """Variance of the tiers' medians (S6), exact and rounded once (R18).

    None without a median (R16), 0.0 for one. Only finite values count, and overflow is Infinity (R18). `ddof`
    0 divides by n (population), 1 by n - 1 (sample).

        >>> variance_of_medians([0.25, 0.5, 1.0], ddof=1)
        0.14583333333333334
        >>> variance_of_medians([0.5], ddof=1), variance_of_medians([], ddof=0)
        (0.0, None)
    """
    return ExactSum.of([median for median in medians if math.isfinite(median)]).variance(ddof)


def cost_delta(median_costs: Iterable[float]) -> float | None:
    """Highest minus lowest median cost in USD (S8); None if no tier has a cost (R16). Finite values only.

    >>> cost_delta([0.5, 0.25, 2.0]), cost_delta([])
    (1.75, None)
    """
    finite = [c for c in median_costs if math.isfinite(c)]
    return max(finite) - min(finite) if finite else None


def most_frequent(failure_modes: Mapping[str, int]) -> dict[str, int]:
    """The 100 most frequent failure modes, ties by name, and the sum of all others as `other`.

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
    """The first entries by name, as many as fit into `most_bytes` of JSON.

    >>> first_by_name({"b": 1, "a": 2}, 8)
    {'a': 2}
    """
    if _fits(values, most_bytes):
        return values
    return _fitting(sorted(values.items()), most_bytes)


def _is_provisional(of: Subject[RunTotals]) -> bool:
    planned = of.planned
    if planned.incomplete or planned.trials is not None:
        return planned.incomplete or of.unruled.slots < (planned.trials or 0)
    tiers, expected = of.at.tiers, of.at.planned.tier
    return any(group.trials < (expected(tier) or 0) for tier, group in tiers.items())


def _progress(of: Subject[RunTotals]) -> dict[str, Any]:
    parts = of.at.plan.parts
    progress = {
        "done": of.unruled.slots,
        "planned": of.planned.trials,
        "plan_complete": not of.planned.incomplete,
    }
    return progress | {"parts": parts} if parts else progress


def costs_by_agent_model(groups: Mapping[str, GroupState]) -> dict[str, Any]:
    """Known cost in USD by agent:model; None if there is none.

    Above the size limit only the highest costs have entries, ties by label; `other` is the sum of the rest.
    """
    sums = {label: group.costs for label, group in groups.items()}
    costs = {label: _json(cost.total()) if cost.count else None for label, cost in sums.items()}
    if _fits(costs, _COST_BYTES):
        return costs
    dearest = sorted(sums, key=lambda label: (not sums[label].count, -sums[label].total(), label))
    kept: dict[str, Any] = _fitting([(label, costs[label]) for label in dearest], _COST_BYTES)
    rest = ExactSum()
    rest.merge(*(cost for label, cost in sums.items() if label not in kept))
    return kept | {OTHER: _json(rest.total()) if rest.count else None}


def _limited(by_tier: dict[str, float | None]) -> dict[str, JsonNumber]:
    return first_by_name({tier: _json(value) for tier, value in by_tier.items()}, _TIER_BYTES)


def _fits(values: Mapping[str, Any], most_bytes: int) -> bool:
    return len(orjson.dumps(values)) <= most_bytes


def _fitting(ranked: Iterable[tuple[str, T]], most_bytes: int) -> dict[str, T]:
    kept, left = {}, most_bytes - len("{}")
    for name, value in ranked:
        left -= len(orjson.dumps({name: value})) - len("{}") + len(",")
        if left < 0:
            break
        kept[name] = value
    return kept


def _of_plan(name: str) -> RunField:
    return lambda of: of.at.said[name]


def _instant(moment: datetime | None) -> str | None:
    return rfc3339(microseconds(moment)) if moment is not None else None


# -----------------------------------------------------------------------------
# The common part of the summaries of agents and tiers; breakdowns by subtest and label have it too.


MOST_NAMED = 100
"""The most named metrics in a summary, 400 bytes each. Up to 65 of them have 2 KiB of text from the plan."""

_NOTHING = Distribution()

NO_ERROR: dict[str, Any] = dict.fromkeys(("standard_error", "low", "high"))


def statistics(of: Subject[GroupState]) -> dict[str, Any]:
    """Statistics by metric; means on a board have an error and an interval."""
    parts = dict(of.counted.distributions)
    says = {name: part.summary(of.profile.ddof) for name, part in parts.items()}
    with_error = ("pass_rate", *MEANS) if of.has_boards else ()
    return {
        name: part
        | (_error_body(of.evidence.error(name)) if name in with_error and part["count"] else NO_ERROR)
        for name, part in says.items()
    }


def named(of: Subject[GroupState]) -> dict[str, Any]:
    """Statistics by named metric and how to read them: the planned ones, then by number of trials."""
    planned, counted = of.at.metrics, of.counted.named
    others = sorted(counted.keys() - planned, key=lambda name: (-counted[name].count, name))
    return {
        name: counted.get(name, _NOTHING).summary(of.profile.ddof)
        | _error_body(of.evidence.error(NAMED + name) if of.has_boards else None)
        | reading(planned.get(name, MetricPlan()))
        | {"planned": name in planned}
        for name in [*planned, *others][:MOST_NAMED]
    }


def _error_body(error: MeanError | None) -> dict[str, Any]:
    return dict(zip(NO_ERROR, map(_json, error), strict=True)) if error else NO_ERROR


def _pass_at_k(of: Subject[Any]) -> dict[str, Any] | None:
    """None if agent:models or tiers are mixed (R11), or if no trial has a verdict (R31)."""
    if len(of.counted.owners) > 1 or not of.counted.has_verdicts:
        return None
    pass_at_k: dict[str, Any] = of.counted.pass_at_k.summary(of.planned.attempts, of.planned.tasks)
    return pass_at_k


def _tokens(of: Subject[Any]) -> dict[str, int | float | None]:
    totals = [(kind, total.total() if total.count else None) for kind, total in of.counted.tokens.items()]
    return {kind: None if total is None else json_count(total) for kind, total in totals}


# -----------------------------------------------------------------------------
# FormulaCode's block in the summary of an agent:model: its means, their coverage, the error of one.


class Measured(NamedTuple):
    """The base of FormulaCode's numbers: own trials, missing ones, and failures without a section (R21)."""

    of: Subject[GroupState]
    sums: FormulaCodeSums
    error: dict[str, Any]

    @property
    def success_rate(self) -> float | None:
        trials = self.of.unruled.verdict_trials + self.of.missing.sums.trials
        return self.of.unruled.passes / trials if trials else None

    @property
    def cost(self) -> float | None:
        return self.of.unruled.distributions["cost_usd"].mean()

    @property
    def weighted_advantage(self) -> float | None:
        """Mean advantage / mean cost; 0 if the cost is 0, None if either is unknown (R25)."""
        advantage, cost = self.sums.advantages[ADVANTAGES[0]].mean(), self.cost
        if advantage is None or cost is None:
            return None
        return advantage / cost if cost > 0 else 0.0


def formulacode(of: Subject[GroupState]) -> dict[str, Any] | None:
    """FormulaCode's numbers of an agent:model; None in a run without its sections.

    A trial without any payload counts as a failure that changed nothing (R21). nop never fails. Baselines
    have no error.
    """
    if not of.at.with_formulacode:
        return None
    group, missing, agent = of.unruled, of.missing, of.group_id.agent or ""
    unmeasured = 0 if agent == NOP else group.failures - group.formulacode.failures
    sums = group.formulacode.plus(missing.sums, unmeasured)
    error = None
    if of.has_boards and not of.run.scores.is_baseline(agent):
        speedups = of.evidence.speedups(sums.speedup, missing.tasks) if group.trials else missing.speedups
        error = error_of(speedups)
    return computed(FORMULACODE, Measured(of, sums, _error_body(error)))


def _advantage(name: str) -> Callable[[Measured], float | None]:
    return lambda of: of.sums.advantages[name].mean()


# -----------------------------------------------------------------------------
# The fields of every summary by name, each with its one computation, bound to the written-out classes.


FORMULACODE: dict[str, Callable[[Measured], Any]] = bound(
    FormulaCodeSummary,
    {
        **{name: _advantage(name) for name in ADVANTAGES},
        "mean_speedup": lambda of: of.sums.speedup.mean(),
        "mean_speedup_standard_error": lambda of: of.error["standard_error"],
        "mean_speedup_low": lambda of: of.error["low"],
        "mean_speedup_high": lambda of: of.error["high"],
        "mean_success_rate": lambda of: of.success_rate,
        "num_benchmarks": lambda of: json_count(of.sums.num_benchmarks),
        "num_valid_benchmarks": lambda of: json_count(of.sums.num_valid_benchmarks),
        "mean_cost_per_task": lambda of: of.cost,
        "cost_weighted_advantage": lambda of: of.weighted_advantage,
        "mean_trajectory_length": lambda of: of.of.unruled.sums["trajectory_length"].mean(),
        "agent_advantages_gmean": lambda of: (
            None if of.of.group_id.agent == NOP else {name: _json(of.sums.gmean(name)) for name in ADVANTAGES}
        ),
        "fallbacks": lambda of: of.sums.fallbacks,
        "claimed": lambda of: of.sums.claimed,
        "missing": lambda of: of.of.missing.sums.trials,
        "coverage": lambda of: {
            "task_speedup": of.sums.speedup.count,
            "agent_advantage": of.sums.advantages[ADVANTAGES[0]].count,
        },
    },
)

COUNTED: dict[str, Field] = {
    "tasks": lambda of: of.counted.tasks,
    "verdict_trials": lambda of: of.verdict_trials,
    "resolved": lambda of: of.counted.resolved,
    "unresolved": lambda of: of.verdict_trials - of.counted.resolved,
    "no_verdict": lambda of: of.counted.no_verdict,
    "accuracy": lambda of: of.share(of.verdict_trials),
    "accuracy_excluding_infrastructure": lambda of: of.share(
        of.verdict_trials - of.counted.infrastructure_failures
    ),
    "infrastructure_failures": lambda of: of.counted.infrastructure_failures,
    "pass_at_k": _pass_at_k,
    "total_cost": lambda of: of.costs.total() if of.costs.count else None,
    "estimated_cost": lambda of: of.counted.sums[ESTIMATED].total() if of.costs.count else None,
    "tokens": _tokens,
    "failure_modes": lambda of: most_frequent(of.counted.failure_modes),
    "coverage": lambda of: of.counted.coverage,
    "score_out_of_range": lambda of: of.counted.scores_out_of_range,
    "in_flight": lambda of: of.evidence.in_flight,
    "grading_profile": lambda of: of.profile.name,
}

GROUP: dict[str, GroupField] = {
    **COUNTED,
    **{mark: attrgetter(f"counted.{mark}") for mark in MARKS},
    "trials": lambda of: of.counted.trials,
    "runs_planned": lambda of: of.planned.trials,
    "provisional": lambda of: (
        of.planned.incomplete or (of.planned.trials is not None and of.counted.trials < of.planned.trials)
    ),
    "mean_cost": lambda of: of.counted.distributions["cost_usd"].mean(),
    "cost_of_pass": lambda of: of.counted.cost_of_pass(),
    "mean_trajectory_length": lambda of: of.counted.sums["trajectory_length"].mean(),
    "statistics": statistics,
    "metrics": named,
    "grade": lambda of: of.profile.grade(of.grade_score),
    "grade_basis": lambda of: of.grade_basis,
    "grade_score": lambda of: of.grade_score,
    "grade_provisional": lambda of: (
        of.grade_basis == "composite_median" and of.counted.unscored > 0 and of.planned.awaits_scores
    ),
    "uncertainty": lambda of: uncertainty_body(
        of.evidence, of.counted, of.group_id, of.planned, of.run.queue, of.profile
    ),
}

AGENT_MODEL = bound(
    AgentModelSummary,
    {
        **GROUP,
        "agent_model": lambda of: of.group_id.agent_model,
        "agent": lambda of: of.owner[0],
        "model": lambda of: of.owner[1],
        "baseline": lambda of: of.run.scores.is_baseline(of.owner[0]),
        "formulacode": formulacode,
    },
)

TIER = bound(
    TierSummary,
    {
        **GROUP,
        "tier": lambda of: of.group_id.tier,
        "agent_model": lambda of: of.group_id.agent_model,
        "runs_completed": lambda of: of.counted.trials,
        "baseline_tier": lambda of: of.at.plan.baseline_tier,
        "tier_uplift": lambda of: uplift(of.scores),
        "tier_delta": lambda of: delta(of.scores),
    },
)

RUN_FIELDS: dict[str, RunField] = bound(
    RunSummary,
    {
        **COUNTED,
        **{mark: attrgetter(f"run.{mark}") for mark in MARKS},
        **{name: _of_plan(name) for name in _SAID},
        "labels": lambda of: first_by_name(of.at.plan.labels, _LABEL_BYTES),
        "provenance": lambda of: of.at.plan.get("provenance") or {},
        "varies": lambda of: of.at.plan.get("varies") or [],
        "metrics": lambda of: {name: reading(metric) for name, metric in of.at.metrics.items()},
        "primary_metric": lambda of: primary_metric(
            of.at.plan, has_verdicts=not of.at.numeric or of.verdict_trials > 0
        ),
        "ledger": lambda of: ledger_entry(of.at.run),
        "status": lambda of: of.at.finished and (of.at.finished.status or "finished"),
        "started_at": lambda of: _instant(of.at.plan.get("started_at")),
        "finished_at": lambda of: _instant(of.at.finished.finished_at) if of.at.finished else None,
        "provisional": _is_provisional,
        "trials": lambda of: of.counted.trials,
        "cost_by_agent_model": lambda of: costs_by_agent_model(of.at.agents),
        "mean_speedup_percentage": lambda of: of.counted.mean_speedup_percentage(),
        "agent_models": lambda of: len(of.at.agents),
        "tiers": lambda of: len(of.at.tiers),
        "cross_tier": cross_tier,
        "progress": _progress,
    },
)
