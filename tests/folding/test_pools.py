"""The groups of a run read values that lie in cells (agent, model, tier), as if each group had its own."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.folding import groups
from streamer.folding.groups import Counts, GroupState
from streamer.folding.score import Scored
from streamer.folding.slots import SlotKey, slot_key
from streamer.schemas.base import GroupId, groups_of
from tests.folding.build import a_trial, scored
from tests.support.examples import any_of

Trial = tuple[SlotKey, Scored]
BASELINE = "nop"

FIELDS = any_of(
    {"agent": ["a", "a", "b", BASELINE], "tier": [None, "T0", "T1"], "resolved": [True, False, None]}
    | {"score": [None, 0.0, 0.5, 1.0], "cost_usd": [None, 0.0, 0.1, 0.25, 1.0, 1e300, 1e-300]}
    | {"metrics": st.dictionaries(st.sampled_from(["loss", "cost_usd"]), st.floats(0, 9), max_size=2)}
)
STEPS = st.lists(st.one_of(FIELDS, st.sampled_from(["count", "read", "leave"])), min_size=15, max_size=60)


@pytest.fixture(autouse=True)
def _keep_few_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_JOINED", 5)


@given(steps=STEPS, rest=st.integers(0, 60))
@example(
    steps=[
        *({"agent": "a", "tier": tier, "cost_usd": 0.1, "metrics": {"loss": 1}} for tier in (None, "T0")),
        "read",
        {"agent": "a", "tier": "T0", "cost_usd": 0.25, "metrics": {"loss": 2}},
        "read",
        {"agent": "a", "tier": "T1", "cost_usd": 1.0, "metrics": {"loss": 3}},
    ],
    rest=1,
)
def test_groups_that_share_their_values_have_those_of_their_own_trials(steps: list[Any], rest: int) -> None:
    counts, inside = Counts(), list[Trial]()
    for number, step in enumerate([*steps, *["leave"] * rest]):
        if isinstance(step, dict):
            inside.append(_trial(number, step))
            counts.enter(*inside[-1], single=True)
        elif step == "leave" and inside:
            counts.leave(*inside.pop(number % len(inside)), single=True)
        else:
            counts.count(BASELINE.__eq__)
            for group in counts.groups.values() if step == "read" else ():
                _numbers(group)
                group.let_go()
    counts.count(BASELINE.__eq__)

    of = {group: _numbers(GroupState.of(trials)) for group, trials in _by_group(inside).items()}
    assert {group: _numbers(pool) for group, pool in counts.groups.items()} == of


def test_values_cannot_be_merged_into_a_pool() -> None:
    counts = Counts()
    counts.enter(*_trial(0, {"agent": "a", "tier": "T0", "cost_usd": 0.25}), single=True)
    counts.count(BASELINE.__eq__)
    for pool in counts.groups.values():
        with pytest.raises(TypeError, match="lie in cells"):
            pool.merge(GroupState())


def test_only_small_distributions_stay_joined() -> None:
    counts = Counts()
    for number in range(8):
        fields = {"agent": "a", "tier": f"T{number % 2}", "cost_usd": number / 8}
        counts.enter(*_trial(number, fields), single=True)
    counts.enter(*_trial(8, {"agent": "b", "tier": "T0", "cost_usd": 1.0}), single=True)
    counts.count(BASELINE.__eq__)
    agent, tier = counts.groups[GroupId(None, "a", "unknown")], counts.groups[GroupId("T1")]
    in_one_tier, small = counts.groups[GroupId("T1", "a", "unknown")], counts.groups[GroupId("T0")]

    joined, kept = agent.distributions["cost_usd"], small.distributions["cost_usd"]
    assert tier.distributions["cost_usd"] is in_one_tier.distributions["cost_usd"]
    for group in counts.groups.values():
        group.let_go()
    assert agent.distributions["cost_usd"] is not joined
    assert agent.distributions["cost_usd"].ascending() == joined.ascending() == [n / 8 for n in range(8)]
    assert small.distributions["cost_usd"] is kept


def _trial(number: int, fields: dict[str, Any]) -> Trial:
    event = {"task_id": f"t{number}", **fields}
    return slot_key(a_trial(**event)), scored(**event)


def _by_group(trials: Iterable[Trial]) -> dict[GroupId, list[Trial]]:
    by_group: dict[GroupId, list[Trial]] = {}
    for key, trial in trials:
        for group in groups_of(key.agent, key.model, key.tier, baseline=key.agent == BASELINE):
            by_group.setdefault(group, []).append((key, trial))
    return by_group


def _numbers(group: GroupState) -> dict[str, Any]:
    ruled = group.as_ruled(None)
    return {
        "statistics": {name: part.summary() for name, part in ruled.distributions.items()},
        "named": {name: group.named[name].summary() for name in sorted(group.named)},
        "coverage": ruled.coverage,
        "costs": ruled.costs.summary(),
        "cost_of_pass": ruled.cost_of_pass(),
        "grade": ruled.grade_score(None),
    }
