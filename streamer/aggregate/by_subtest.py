"""Tiers broken down by subtest: derived from the slots of a run when somebody asks, never published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamer.aggregate.breakdown import broken_down
from streamer.aggregate.group import GroupState
from streamer.aggregate.group_summary import group_body
from streamer.aggregate.keys import GroupId, SlotKey
from streamer.aggregate.plan import Denominators
from streamer.aggregate.run_state import RunState
from streamer.aggregate.run_summary import delta, uplift
from streamer.aggregate.slots import Slot
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import json_number
from streamer.schemas.identity import agent_model_label

SubtestId = tuple[str, str | None, str | None, str | None]
"""(tier, subtest, agent, model); agent and model None: pooled over the agents that are compared."""


def by_subtest(run: RunState) -> list[dict[str, Any]]:
    """What a tier summary says, per subtest of each tier; pooled first, then per agent:model.

    Each has the fields of a tier summary's numbers and `subtest`; uplift and delta are against the whole
    baseline tier. `runs_planned` is null where the plan does not say: 10 runs are planned per tier (R26),
    not per subtest. Trials without a tier are left out.
    """
    run.count()
    planned = run.denominators()
    groups = _groups(run)
    return [
        _subtest_body(run, groups[group_id], group_id, planned)
        for group_id in sorted(groups, key=_subtest_order)
    ]


def _groups(run: RunState) -> dict[SubtestId, GroupState]:
    def places(key: SlotKey, slot: Slot) -> Iterator[SubtestId]:
        for group in run.scores.groups_of(key):
            if group.tier is not None:
                yield (group.tier, key.subtest, group.agent, group.model)

    return broken_down(run, places)


def _subtest_body(
    run: RunState, group: GroupState, group_id: SubtestId, planned: Denominators
) -> dict[str, Any]:
    tier, subtest, agent, model = group_id
    baseline_tier = run.plan.baseline_tier
    baseline = run.groups.get(GroupId(baseline_tier, agent, model)) if tier != baseline_tier else None
    count = planned.subtest(pooled=agent is None)
    return group_body(run, group, planned.of_group(count)) | {
        "type": "subtest_summary",
        "run_id": run.run_id,
        "semantics_version": SEMANTICS_VERSION,
        "tier": tier,
        "subtest": subtest,
        "agent_model": None if agent is None else agent_model_label(agent, model or ""),
        "runs_completed": group.trials,
        "baseline_tier": baseline_tier,
        "tier_uplift": json_number(uplift(group, baseline, run.plan.judged)),
        "tier_delta": json_number(delta(group, baseline, run.plan.judged)),
        "superseded": group.superseded,
        "conflicts": group.conflicts,
    }


def _subtest_order(group_id: SubtestId) -> tuple[str, str, str, str]:
    tier, subtest, agent, model = group_id
    return (tier, subtest or "", agent or "", model or "")
