"""What is planned: trials of each group and of the run (R26), and the agents that a trial lacks (R21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property
from math import prod

from streamer.aggregate.formulacode import FormulaCodeSums
from streamer.aggregate.group import GroupPlan
from streamer.aggregate.keys import GroupId, TrialGroupKey
from streamer.aggregate.plan import RUNS_PER_TIER
from streamer.aggregate.run_state import RunState
from streamer.schemas.limits import MAX_COUNT
from streamer.score import NOP


class Denominators:
    """Planned trials of each group of a run, from its plan and, where that is silent, from what was seen.

    A tiered run whose plan says nothing is held to the specification's 10 runs per tier (R26); an
    untiered one has no denominator (None). A plan beyond 2**53 trials is held to 2**53: the tiers and
    agents that were seen are factors, too, and have no limit.

    It answers for the run as it stands when it is made. What the answers share is worked out once: a plan
    may name thousands of agents, and each of the run's groups asks.

    Args:
        run: counted up to date.
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._each = run.plan.trials_per_subtest()
        self._task_count = run.plan.task_count
        seen_tiers = {group.tier for group in run.groups if group.tier is not None}
        self._tiers = set(run.plan.get("tiers") or seen_tiers)
        self.labels = set(run.plan.get("agent_models") or ())
        self._seen = {
            (group.agent, group.model or "") for group in run.groups if group.tier is None and group.agent
        }

    def of_group(self, trials: int | None) -> GroupPlan:
        """What the plan says of a group with so many planned trials."""
        plan = self._run.plan
        return GroupPlan(trials, plan.attempts, self._task_count, plan.judged, plan.finished is not None)

    def group(self, group: GroupId) -> int | None:
        """Any group but the run itself."""
        if group.tier is None:
            return self.agent_model(group.agent, group.model)
        return self.tier(group.tier) if group.agent is None else self.agent_model_in_tier(group.tier)

    def agent_model_in_tier(self, tier: str) -> int | None:
        """One agent:model within one tier."""
        return RUNS_PER_TIER if self._each is None else _product(self._each, self._subtests(tier))

    def tier(self, tier: str) -> int | None:
        """One tier, pooled over the agents that are compared."""
        if self._each is None:
            return RUNS_PER_TIER
        return _product(self._each, self._subtests(tier), self._compared)

    def subtest(self, *, pooled: bool) -> int | None:
        """One subtest of a tier, of one agent:model or pooled; None where the plan is silent."""
        if self._each is None:
            return None
        return _product(self._each, self._compared if pooled else 1)

    def agent_model(self, agent: str | None, model: str | None) -> int | None:
        """One agent:model over the whole run."""
        if self._each is not None:
            return _product(self._each, self._places)
        return RUNS_PER_TIER * self._tiers_of[agent, model] or None

    def run(self) -> int | None:
        """All slots of the run, those of baselines included; None where the plan does not say."""
        if self._each is None or not self._planned:
            return None
        return _product(self._each, self._places, len(self._planned))

    @cached_property
    def _tiers_of(self) -> Counter[tuple[str | None, str | None]]:
        """In how many tiers each agent:model was seen."""
        return Counter((group.agent, group.model) for group in self._run.groups if group.tier is not None)

    @cached_property
    def _planned(self) -> set[tuple[str, str]]:
        if self.labels:
            return self._run.plan.agent_models()
        return self._seen

    @cached_property
    def _compared(self) -> int:
        return max(1, sum(not self._run.scores.is_baseline(agent) for agent, _ in self._planned))

    @cached_property
    def _places(self) -> int:
        return sum(self._subtests(tier) for tier in self._tiers) if self._tiers else 1

    def _subtests(self, tier: str) -> int:
        pooled = self._run.groups.get(GroupId(tier))
        return self._run.plan.subtests(tier, len(pooled.subtests) if pooled else 0)


def _product(*factors: int) -> int:
    return min(prod(factors), MAX_COUNT)


AgentModel = tuple[str, str]
"""(agent, model)."""


def missing_sub_trials(run: RunState) -> dict[AgentModel, FormulaCodeSums]:
    """FormulaCode's sums over the multi-agent trials that lack a planned agent, by agent:model.

    Empty until the run has finished: before that, the sub-trial may still come. Empty too where no trial
    of the run carries FormulaCode's sections. nop is never failed, so it is left out. The plan of a pooled
    run names the agents of all its shards, so a shard only lacks agents that it has elsewhere.

    The work grows with the results there are, not with planned agents times trials: agents without any
    sub-trial share their sums, which are to be read only.
    """
    planned = {owner for owner in run.plan.agent_models() if owner[0] != NOP}
    if (
        run.plan.finished is None
        or not planned
        or not run.totals.with_formulacode
        or not run.scores.trial_groups()
    ):
        return {}
    missing: dict[AgentModel, FormulaCodeSums] = {}
    for shard in _shards(run, planned):
        for owner in shard.expected:
            if sums := shard.lacking(owner):
                others = missing.get(owner)
                missing[owner] = sums if others is None else others.plus(sums, 0)
    return missing


class _Shard:
    """The multi-agent trials of one shard.

    Attributes:
        groups: the trials.
        expected: the agents of which each should have a sub-trial.
        held: the trials that have a result of an agent, as a sub-trial or beside it (R10).
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self.groups: set[TrialGroupKey] = set()
        self.expected: set[AgentModel] = set()
        self.held: dict[AgentModel, set[TrialGroupKey]] = {}

    def lacking(self, owner: AgentModel) -> FormulaCodeSums | None:
        """Sums over the trials that lack an agent; None if there are no such trials."""
        held = self.held.get(owner, set())
        if not held:
            return self._all
        if len(held) == len(self.groups):
            return None
        if 2 * len(held) >= len(self.groups):
            return self._sums(self.groups - held)
        return self._all.minus(self._sums(held))

    @cached_property
    def _all(self) -> FormulaCodeSums:
        """Sums for an agent that all trials lack."""
        return self._sums(self.groups)

    def _sums(self, groups: Collection[TrialGroupKey]) -> FormulaCodeSums:
        scores = [self._run.scores.of_missing(group) for group in groups]
        return FormulaCodeSums.of(scores, failures=len(scores))


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
            shards[group.shard].held.setdefault(owner, set()).add(group)
    return list(shards.values())
