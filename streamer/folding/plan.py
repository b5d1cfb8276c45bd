"""The plan of a run: the fields of its `run_started` events, merged, and the trials they imply (R26)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

from streamer.folding.groups import GroupState
from streamer.folding.prices import PriceTable
from streamer.folding.score import ORACLE, ScoringRules, grading_profile
from streamer.folding.slots import SlotKey
from streamer.schemas.base import (
    MAX_COUNT,
    NO_TIME,
    RUN,
    UNKNOWN,
    GroupId,
    microseconds,
    model_of_agent,
    split_label,
)
from streamer.schemas.events import BROKEN_OFF, Ledger, RunFinished, RunStarted
from streamer.statistics.final import (
    DeclaredOrder,
    FinalMissing,
    OrderEntry,
    OrderKind,
    OrderPlan,
    declared_order,
    flaw_of,
)

T = TypeVar("T")

DEFAULT_BASELINE_TIER = "T0"
RUNS_PER_TIER = 10
"""Planned runs per tier if no plan says otherwise, by the specification (R26)."""

_NOT_PLAN = frozenset({"type", "schema_version", "run_id", "revision", "labels", "part"})

_OF_ORDER = frozenset({"order", "order_kind", "concurrency", "tasks", "attempts", "plan_complete", "parts"})

_ORDERING = frozenset({"tasks", "attempts", "order", "order_kind"})

MOST_PLANS = 32
"""How many complete plans are kept, those with the greatest revisions. With more, no order counts."""

PlanRank = tuple[int, str]
"""(revision, fingerprint) of the event that set a field; the greater one wins."""


class Declared(NamedTuple, Generic[T]):
    """A declaration in a plan, and its time in microseconds since 1970, if known."""

    value: T
    at: int | None

    def precedes(self, began: int | None) -> bool:
        """Whether it was declared before the first trial, which began at `Roster.began`."""
        return self.at is not None and (began is None or self.at <= began)


class Plan:
    """The plan events of a run, merged: for each field the greatest (revision, fingerprint) wins.

    The merge is associative, commutative and idempotent, so the order of events never matters.
    """

    def __init__(self) -> None:
        self._fields: dict[str, tuple[PlanRank, Any]] = {}
        self._labels: dict[str, tuple[PlanRank, str]] = {}
        self._complete: dict[PlanRank, RunStarted] = {}
        """All complete plans: any of them may become the first once the earlier ones are deleted."""
        self._ledgers: dict[PlanRank, Declared[Ledger]] = {}
        """The ledgers of all complete plans, including the earliest one (inference 8a)."""
        self._agents: dict[PlanRank, Declared[list[str]]] = {}
        self._ends: list[tuple[tuple[int, *PlanRank], RunFinished]] = []
        """The greatest wins. Others with a greater revision stay, in case a deletion removes it."""
        self._parts: dict[str, Plan] = {}
        self._joined: dict[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self._fields or self._labels or self._ends or self._parts)

    def join(self, event: RunStarted, fingerprint: str) -> bool:
        """Merge a plan event of the run or of a part; true if it now decides a field."""
        self._joined = None
        if event.part is None:
            return self._join_fields(event, fingerprint)
        rank, part = (event.revision, fingerprint), self._parts.setdefault(event.part, Plan())
        count = event.parts is not None and _join(self._fields, "parts", rank, event.parts)
        return part._join_fields(event, fingerprint) or count

    def _join_fields(self, event: RunStarted, fingerprint: str) -> bool:
        rank = (event.revision, fingerprint)
        changed = False
        for name in event.model_fields_set - _NOT_PLAN:
            value = getattr(event, name, None)
            if value is not None and name in RunStarted.model_fields:
                changed |= _join(self._fields, name, rank, value)
        for label, text in (event.labels or {}).items():
            changed |= _join(self._labels, label, rank, text)
        if event.plan_complete is not False and any(getattr(event, name) is not None for name in _ORDERING):
            changed |= _keep(self._complete, rank, event)
        at = _declared_at(event)
        if event.ledger is not None:
            changed |= _keep_first(self._ledgers, rank, Declared(event.ledger, at))
        if event.plan_complete is not False and event.agent_models is not None:
            changed |= _keep_first(self._agents, rank, Declared(event.agent_models, at))
        return changed

    def finish(self, event: RunFinished, fingerprint: str) -> bool:
        """Merge the end of the run or of a part; the last try counts (R34). True if it is kept."""
        self._joined = None
        if event.part is None:
            return self._finish(event, fingerprint)
        return self._parts.setdefault(event.part, Plan())._finish(event, fingerprint)

    def _finish(self, event: RunFinished, fingerprint: str) -> bool:
        rank = (event.try_number or 0, event.revision, fingerprint)
        if any(kept >= rank and kept[1] >= event.revision for kept, _ in self._ends):
            return False
        lesser = [end for end in self._ends if end[0] > rank or end[0][1] > event.revision]
        self._ends = sorted([*lesser, (rank, event)], key=lambda end: end[0])
        return True

    def get(self, name: str) -> Any:
        """Value of a plan field, or the combined value of all parts (R34); None if no event set it."""
        entry = self._fields.get(name)
        if entry or not self._parts:
            return entry[1] if entry else None
        if self._joined is None:
            parts = [{field: of for field, (_, of) in plan._fields.items()} for plan in self._in_order]
            self._joined = _joined(parts, self._part_count)
        return self._joined.get(name)

    def first(self, name: str) -> Any:
        """Value of `tasks` or `attempts` in the first complete plan that sets it, else the current value."""
        complete = self._declaring._complete.items()
        plans = sorted(complete, key=lambda plan: (_of_order(plan[1]).place, plan[0]))
        values = (getattr(event, name) for _, event in plans)
        return next((value for value in values if value is not None), self.get(name))

    @property
    def order(self) -> DeclaredOrder:
        """The order that counts, out of all complete plans. Several parts have no common order (R34)."""
        plans = [_of_order(event) for _, event in sorted(self._declaring._complete.items())]
        if not plans and self._parts:
            return DeclaredOrder(kind=OrderKind(self.get("order_kind") or OrderKind.UNKNOWN))
        return declared_order(plans, too_many=len(plans) == MOST_PLANS)

    @property
    def ledger(self) -> Declared[Ledger] | None:
        """The ledger named first, by `planned_at`, so that a later plan moves no candidate.

        Its time is unknown if no plan has one.
        """
        sources = [one._ledgers for one in (self, *self._in_order)]
        plans = [plan for one in sources for plan in one.items()]
        return min(plans, key=_by_time)[1] if plans else None

    def agents_before(self, began: int | None) -> set[tuple[str, str]]:
        """The agents that a complete plan named in `agent_models` before the first trial."""
        plans = [of for one in (self, *self._in_order) for of in one._agents.values()]
        return {agent for of in plans if of.precedes(began) for agent in _agents_of(of.value)}

    @property
    def _declaring(self) -> Plan:
        return self if self._complete or len(self._parts) != 1 else self._in_order[0]

    def ranks(self) -> set[PlanRank]:
        set_by = (*self._fields.values(), *self._labels.values())
        ranks = {rank for rank, _ in set_by}
        ends = {end[1:] for end, _ in self._ends}
        kept = (self._complete, self._ledgers, self._agents, ends)
        return ranks.union(*kept, *(part.ranks() for part in self._in_order))

    @property
    def labels(self) -> dict[str, str]:
        of_parts: dict[str, tuple[PlanRank, str]] = {}
        for part in self._in_order:
            for label, (rank, text) in part._labels.items():
                _join(of_parts, label, rank, text)
        return {label: text for label, (_, text) in (of_parts | self._labels).items()}

    @property
    def finished(self) -> RunFinished | None:
        """The end of the whole run, declared once or by all of its parts (R34)."""
        end = self._ends[-1][1] if self._ends else None
        if not self._parts or (end and (end.status or "").lower() not in BROKEN_OFF):
            return end
        ends = [part.finished for part in self._in_order]
        if None in ends or len(ends) < self._part_count:
            return end
        return _joined_end([of for of in ends if of is not None])

    @property
    def parts(self) -> dict[str, int] | None:
        seen = len(self._parts)
        return {"seen": seen, "planned": max(seen, self._part_count)} if seen else None

    @property
    def _part_count(self) -> int:
        return self._fields["parts"][1] if "parts" in self._fields else 0

    @property
    def _in_order(self) -> list[Plan]:
        return [self._parts[name] for name in sorted(self._parts, key=lambda name: (len(name), name))]

    @property
    def is_incomplete(self) -> bool:
        return self.get("plan_complete") is False and self.finished is None

    @property
    def task_count(self) -> int | None:
        tasks = self.get("tasks")
        return len(set(tasks)) if isinstance(tasks, list) else tasks

    @property
    def attempts(self) -> int | None:
        attempts: int | None = self.get("attempts")
        return attempts

    @property
    def baseline_tier(self) -> str:
        return self.get("baseline_tier") or DEFAULT_BASELINE_TIER

    def agent_models(self) -> set[tuple[str, str]]:
        """Planned agents with their models, spelled as in slots; empty if the plan names no agent."""
        return _agents_of(self.get("agent_models") or ())

    @property
    def judged(self) -> bool | None:
        """Whether trials get a judge's score; None: judge by the trials (R13)."""
        judged: bool | None = self.get("judged")
        return judged

    @property
    def verdicts(self) -> bool | None:
        """Whether every trial has a verdict or waits for one; None: judge by the trials (R31)."""
        verdicts: bool | None = self.get("verdicts")
        return True if verdicts is None and self.judged else verdicts

    @property
    def has_ended(self) -> bool:
        """Whether the harness said that the run is over and not aborted (R19)."""
        return self.finished is not None and (self.finished.status or "").lower() not in BROKEN_OFF

    @property
    def awaits_scores(self) -> bool:
        """Whether scores may still arrive: the run is not over, or a judge works after its end (R13)."""
        if self.finished is None:
            return True
        pending = self.finished.scores_pending
        return self.judged is True if pending is None else pending

    def scoring_rules(self, prices: PriceTable) -> ScoringRules:
        named, agents = self.get("infrastructure_failures"), self.agent_models()
        return ScoringRules(
            prices,
            grading_profile(self.get("grading_profile")),
            frozenset(self.get("baselines") or ()),
            None if named is None else frozenset(named),
            self.get("harness"),
            oracle_planned=any(agent == ORACLE for agent, _ in agents),
            sole_agent=len(agents) == 1,
            verdicts=self.verdicts,
        )

    def trials_per_subtest(self) -> int | None:
        """Planned trials per agent:model in one subtest; None if tasks or attempts are not declared."""
        if self.task_count is None or self.attempts is None:
            return None
        return self.task_count * self.attempts

    def subtests(self, tier: str | None, seen: int) -> int:
        declared = (self.get("subtests") or {}).get(tier)
        return max(1, seen if declared is None else declared)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plan for one group.

    Attributes:
        trials: planned trials; None: no plan (R26).
        declared: the same, if the plan states all of it; None: a part is assumed or was only seen.
        undeclared: the plan states trials, but leaves out tiers or subtests that were seen.
        incomplete: the plan is not complete, so the number of missing trials is unknown.
    """

    trials: int | None
    declared: int | None
    undeclared: bool
    attempts: int | None
    tasks: int | None
    judged: bool | None
    awaits_scores: bool
    incomplete: bool

    @property
    def attempts_per_task(self) -> int | None:
        return self.declared // self.tasks if self.declared and self.tasks else None


class Denominators:
    """Planned trials of each group of a run, from its plan, or from the trials where the plan is silent.

    A tiered run without a plan gets the specification's 10 runs per tier (R26). There is no denominator
    (None) in an untiered run without a plan, or while a plan is incomplete. The maximum is 2**53.

    The answers are valid for the moment when this object was created.
    """

    def __init__(
        self, plan: Plan, groups: Mapping[GroupId, GroupState], is_baseline: Callable[[str], bool]
    ) -> None:
        self._plan, self._groups, self._is_baseline = plan, groups, is_baseline
        self._each = plan.trials_per_subtest()
        self._complete = self._each is not None and plan.get("plan_complete") is not False
        self._task_count = plan.task_count
        self.incomplete = plan.is_incomplete
        seen_tiers = {group.tier for group in groups if group.tier is not None}
        self._tiers = set(plan.get("tiers") or seen_tiers)
        self.labels = set(plan.get("agent_models") or ())
        self._seen = {
            (group.agent, group.model or "") for group in groups if group.tier is None and group.agent
        }

    def of(self, group: GroupId) -> GroupPlan:
        if group == RUN:
            return self.of_group(self.run())
        trials, undeclared = self.group(group), self.undeclared(group)
        declared = trials if self._complete and not undeclared else None
        return self.of_group(trials, declared, undeclared=undeclared)

    def of_group(
        self, trials: int | None, declared: int | None = None, *, undeclared: bool = False
    ) -> GroupPlan:
        plan, declared_trials = self._plan, None if self.incomplete else trials
        facts = (plan.attempts, self._task_count, plan.judged, plan.awaits_scores, self.incomplete)
        return GroupPlan(declared_trials, declared, undeclared, *facts)

    def group(self, group: GroupId) -> int | None:
        if group.tier is None:
            return self.agent_model(group.agent, group.model)
        return self.tier(group.tier) if group.agent is None else self.agent_model_in_tier(group.tier)

    def declared(self, group: GroupId) -> int | None:
        """Planned trials of a group other than the run, if a complete plan fixes them."""
        return self.of(group).declared

    def undeclared(self, group: GroupId) -> bool:
        if not self._complete:
            return False
        if group.tier is None and self._tiers and not self._plan.get("tiers"):
            return True
        tiers = {group.tier} if group.tier is not None else self._tiers
        named = self._plan.get("subtests") or {}
        return any(tier not in named and self._seen_subtests(tier) for tier in tiers)

    def agent_model_in_tier(self, tier: str) -> int | None:
        return RUNS_PER_TIER if self._each is None else _product(self._each, self._subtests(tier))

    def tier(self, tier: str) -> int | None:
        if self._each is None:
            return RUNS_PER_TIER
        return _product(self._each, self._subtests(tier), self._compared)

    def subtest(self, *, pooled: bool) -> int | None:
        """Planned trials of one subtest, per agent:model or pooled; None if the plan is silent."""
        if self._each is None:
            return None
        return _product(self._each, self._compared if pooled else 1)

    def agent_model(self, agent: str | None, model: str | None) -> int | None:
        if self._each is not None:
            return _product(self._each, self._places)
        return RUNS_PER_TIER * self._tiers_of[agent, model] or None

    def run(self) -> int | None:
        if self._each is None or not self._planned or self.incomplete:
            return None
        return _product(self._each, self._places, len(self._planned))

    @cached_property
    def _tiers_of(self) -> Counter[tuple[str | None, str | None]]:
        return Counter((group.agent, group.model) for group in self._groups if group.tier is not None)

    @cached_property
    def _planned(self) -> set[tuple[str, str]]:
        if self.labels:
            return self._plan.agent_models()
        return self._seen

    @cached_property
    def _compared(self) -> int:
        return max(1, sum(not self._is_baseline(agent) for agent, _ in self._planned))

    @cached_property
    def _places(self) -> int:
        return sum(self._subtests(tier) for tier in self._tiers) if self._tiers else 1

    def _subtests(self, tier: str) -> int:
        return self._plan.subtests(tier, self._seen_subtests(tier))

    def _seen_subtests(self, tier: str) -> int:
        pooled = self._groups.get(GroupId(tier))
        return len(pooled.subtests) if pooled else 0


def _declared_at(event: RunStarted) -> int | None:
    at = microseconds(event.planned_at or event.started_at)
    return None if at == NO_TIME else at


def _of_order(event: RunStarted) -> OrderPlan:
    return OrderPlan(
        _declared_at(event),
        event.revision,
        None if event.order is None else tuple(event.order),
        None if event.order_kind is None else OrderKind(event.order_kind),
        event.concurrency,
        lists_trials=event.tasks is not None or event.order is not None,
    )


def _keep(plans: dict[PlanRank, T], rank: PlanRank, value: T) -> bool:
    if rank in plans:
        return False
    plans[rank] = value
    if len(plans) > MOST_PLANS:
        del plans[min(plans)]
    return rank in plans


def _keep_first(plans: dict[PlanRank, Declared[T]], rank: PlanRank, value: Declared[T]) -> bool:
    """Keep a plan if its revision is among the greatest, or if it is the earliest; true if it is new."""
    if rank in plans:
        return False
    plans[rank] = value
    if len(plans) > MOST_PLANS:
        first = min(plans.items(), key=_by_time)[0]
        del plans[min(plans.keys() - {first})]
    return rank in plans


def _by_time(plan: tuple[PlanRank, Declared[Any]]) -> tuple[bool, int, PlanRank]:
    rank, of = plan
    return of.at is None, of.at or 0, rank


def _agents_of(labels: Iterable[str]) -> set[tuple[str, str]]:
    split = map(split_label, labels)
    return {(agent or UNKNOWN, model_of_agent(agent, model or UNKNOWN)) for agent, model in split}


def _join(fields: dict[str, Any], name: str, rank: PlanRank, value: Any) -> bool:
    stored = fields.get(name)
    if stored and stored[0] >= rank:
        return False
    fields[name] = (rank, value)
    return True


def _joined(parts: Sequence[Mapping[str, Any]], count: int) -> dict[str, Any]:
    """The fields of a run in parts: all their tasks and agents, and the values that they agree on (R34).

    Several parts have no common order. A `count` of 0 means the parts seen.
    """
    names = set[str]().union(*parts)
    agreed = {
        name: parts[0].get(name) for name in names if all(p.get(name) == parts[0].get(name) for p in parts)
    }
    if len(parts) > 1:
        agreed = {name: value for name, value in agreed.items() if name not in _OF_ORDER}
        agreed |= {name: _union(parts, name) for name in ("tasks", "agent_models", "tiers")}
        agreed["attempts"] = _attempts(parts, agreed["tasks"])
        agreed["started_at"] = min((p["started_at"] for p in parts if p.get("started_at")), default=None)
        agreed["order_kind"] = next(
            (kind for p in parts if (kind := p.get("order_kind")) == OrderKind.CHOSEN), None
        )
        agreed["plan_complete"] = not any(p.get("plan_complete") is False for p in parts)
    if len(parts) < count:
        agreed["plan_complete"] = False
    return agreed


def _union(parts: Sequence[Mapping[str, Any]], name: str) -> list[str] | None:
    lists = [part.get(name) for part in parts]
    if not all(isinstance(items, list) for items in lists):
        return None
    return list(dict.fromkeys(item for items in lists for item in items or ()))


def _attempts(parts: Sequence[Mapping[str, Any]], tasks: list[str] | None) -> int | None:
    """Attempts at each task by each agent, over all parts; None unless they are equal everywhere.

    If the agents of a part are unknown, its attempts at a task cannot be added to another part's.
    """
    if tasks is None or any(part.get("attempts") is None for part in parts):
        return None
    totals: Counter[tuple[str | None, str]] = Counter()
    for part in parts:
        for agent in part.get("agent_models") or (None,):
            totals.update(dict.fromkeys(((agent, task) for task in part["tasks"]), part["attempts"]))
    agents = {agent for agent, _ in totals}
    each = set(totals.values())
    if len(each) != 1 or len(totals) != len(agents) * len(tasks):
        return None
    return None if None in agents and each != {parts[0]["attempts"]} else min(each)


def _joined_end(ends: Sequence[RunFinished]) -> RunFinished:
    times = [end.finished_at for end in ends if end.finished_at is not None]
    pending = [end.scores_pending for end in ends]
    shown = next((end for end in ends if (end.status or "").lower() in BROKEN_OFF), ends[0])
    return shown.model_copy(
        update={
            "finished_at": max(times) if len(times) == len(ends) else None,
            "scores_pending": True if True in pending else False if None not in pending else None,
        }
    )


def _product(*factors: int) -> int:
    return min(prod(factors), MAX_COUNT)


# -----------------------------------------------------------------------------
# The queue in which a run starts its trials, by its plan (inference 3).


class Queue:
    """Each trial's place in the queue of its run, and whether the first plan had this trial.

    `places` has the entries of the first plan that are still planned; None: the plan has no order.
    """

    def __init__(self, run_id: str, plan: Plan, began: Callable[[], int | None]) -> None:
        self.run_id = run_id
        self.began = began
        self.order = plan.order
        self._kind_at = lru_cache(maxsize=1)(self.order.kind_at)
        self.difficulty: dict[str, float] = plan.get("task_difficulty") or {}
        self._growth = _Growth.of(plan)
        self._has_rounds = False
        self._places = None if self.order.entries is None else self._numbered(self.order.entries)

    @property
    def places(self) -> int | None:
        return None if self._places is None else len(self._places)

    @cached_property
    def order_flaw(self) -> FinalMissing | None:
        """What the declared order shows before any result; None without an order."""
        tasks = [entry if isinstance(entry, str) else entry[0] for entry in self._places or ()]
        return flaw_of(tasks, self.difficulty)

    @property
    def kind(self) -> OrderKind:
        """The source of the order; a shuffle declared after the first start is `unknown`."""
        return self._kind_at(self.began())

    @property
    def has_grown(self) -> bool:
        return self._growth is not None

    def place(self, key: SlotKey) -> int | None:
        """A slot's place in the planned order, from 0; None if it has no place.

        All tiers and subtests of a task share a place. In an order of several rounds, a trial whose shard
        names the round has no place.
        """
        if key.shard and self._has_rounds:
            return None
        places = self._places or {}
        return places.get((key.task_id, key.attempt), places.get(key.task_id))

    def is_later(self, key: SlotKey) -> bool:
        return self._growth is not None and not self._growth.had(key.task_id, key.attempt)

    def first_trials(self, planned: int) -> int | None:
        return planned if self._growth is None else self._growth.first_trials(planned)

    def _numbered(self, order: Iterable[OrderEntry]) -> dict[OrderEntry, int]:
        attempts: dict[str, int] = {}
        entries: list[OrderEntry] = []
        for entry in order:
            if isinstance(entry, str):
                attempts[entry] = attempts.get(entry, 0) + 1
                entries.append((entry, attempts[entry]))
            else:
                entries.append((entry[0], entry[1]))
        if max(attempts.values(), default=0) == 1:  # each task once: its attempts share the place
            entries = [entry[0] if entry[0] in attempts else entry for entry in entries]
        self._has_rounds = max(attempts.values(), default=0) > 1
        kept = (entry for entry in entries if self._is_planned(entry))
        return {entry: place for place, entry in enumerate(dict.fromkeys(kept))}

    def _is_planned(self, entry: OrderEntry) -> bool:
        task, attempt = (entry, 1) if isinstance(entry, str) else entry
        return self._growth is None or self._growth.keeps(task, attempt)


@dataclass(frozen=True, slots=True)
class _Growth:
    first: frozenset[str] | None
    now: frozenset[str] | None
    first_attempts: int
    now_attempts: int

    @classmethod
    def of(cls, plan: Plan) -> _Growth | None:
        tasks, now_tasks = plan.first("tasks"), plan.get("tasks")
        attempts, now_attempts = plan.first("attempts") or 1, plan.attempts or 1
        if (_names(tasks) or tasks, attempts) == (_names(now_tasks) or now_tasks, now_attempts):
            return None
        return cls(_names(tasks), _names(now_tasks), attempts, now_attempts)

    def had(self, task: str, attempt: int) -> bool:
        return (self.first is None or task in self.first) and attempt <= self.first_attempts

    def keeps(self, task: str, attempt: int) -> bool:
        planned = (self.now is None or task in self.now) and attempt <= self.now_attempts
        return planned and self.had(task, attempt)

    def first_trials(self, planned: int) -> int | None:
        if self.first is None or self.now is None or not self.now:
            return None
        attempts = min(self.first_attempts, self.now_attempts)
        return planned * len(self.first & self.now) * attempts // (len(self.now) * self.now_attempts)


def _names(tasks: list[str] | int | None) -> frozenset[str] | None:
    return frozenset(tasks) if isinstance(tasks, list) else None
