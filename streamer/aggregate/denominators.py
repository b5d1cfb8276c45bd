"""How many trials are planned: for an agent:model, a tier, an agent:model within a tier, the run (R26)."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod

from streamer.aggregate.group import GroupPlan
from streamer.aggregate.group_id import GroupId
from streamer.aggregate.plan import RUNS_PER_TIER
from streamer.aggregate.run_state import RunState
from streamer.schemas.limits import MAX_COUNT


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
