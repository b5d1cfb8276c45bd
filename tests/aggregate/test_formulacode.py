"""FormulaCode's aggregate of an agent:model: what its means rest on; it forgets what is taken back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.groups import FormulaCodeSums
from streamer.folding.score import Scored, score_trial
from streamer.schemas.events import ADVANTAGES, EVENT, TrialResult
from tests.score.build import RULES
from tests.support.events import (
    Event,
    a_plan,
    a_retraction,
    a_trial,
    digests,
    folded,
    records,
    summarised,
)
from tests.support.examples import examples
from tests.support.formulacode_trials import (
    FASTER,
    Json,
    a_suite,
    failures,
    published,
    snapshots,
    suites,
    the_agent,
    the_oracle,
)

AGENT = "agent_model run-1|terminus:gpt-5"

# The aggregate forgets


claims = st.dictionaries(
    st.sampled_from(ADVANTAGES), st.sampled_from([0.5, -0.25, -1.0, -3.0, 1e300]), min_size=1
)
counted_trials = st.builds(
    a_trial,
    tests=failures,
    snapshot=snapshots,
    benchmarks=suites,
    claimed=st.none() | claims,
    cost_usd=st.sampled_from([None, 0.0, 0.1, 2.5]),
    trajectory_length=st.sampled_from([None, 3, 10]),
)


def scored(event: Event) -> Scored:
    decoded = EVENT.validate_json(json.dumps(event))
    assert isinstance(decoded, TrialResult)
    return score_trial(decoded, RULES)


def body(state: FormulaCodeSums) -> Json:
    return state.body(None, None, None, nop=False)


@examples(150)
@given(st.lists(counted_trials, max_size=8), st.randoms(use_true_random=False))
def test_what_is_taken_back_leaves_the_aggregate_of_the_rest(events: list[Event], rng: random.Random) -> None:
    trials = [(trial, trial.formulacode) for trial in map(scored, events)]
    known = [
        FormulaCodeSums.of([score], failures=not trial.success)
        for trial, score in trials
        if score is not None
    ]
    state, rest = FormulaCodeSums(), FormulaCodeSums()
    for trial in known:
        state.merge(trial)
    gone = rng.sample(range(len(known)), rng.randrange(len(known) + 1))
    for index in gone:
        state.unmerge(known[index])
    for index in sorted(set(range(len(known))) - set(gone), reverse=True):
        rest.merge(known[index])
    assert body(state) == body(rest)
    for index in set(range(len(known))) - set(gone):
        state.unmerge(known[index])
    assert body(state) == body(FormulaCodeSums())


@examples(60)
@given(st.lists(counted_trials, min_size=4, max_size=12), st.booleans())
def test_trials_counted_many_at_once_count_as_one_by_one(events: list[Event], in_groups: bool) -> None:
    together = [
        e | {"task_id": f"t{n}", "agent_index": 1 if in_groups else None} for n, e in enumerate(events)
    ]
    assert digests(folded(together)[0]) == digests(published(*together).pipeline)


# What the means rest on


def formulacode(*events: Event) -> Json:
    held: Json = summarised(events)[AGENT]["formulacode"]
    return held


def test_trials_that_were_not_measured_are_left_out_of_speedups_and_advantages() -> None:
    held = formulacode(
        the_agent(0),
        a_trial(task_id="null", tests=a_suite(0)),
        a_trial(task_id="empty", benchmarks={}),
        a_trial(task_id="no oracle", benchmarks={"m.f": {"agent/nop": 5.0}}),
    )
    assert held["coverage"] == {"task_speedup": 3, "agent_advantage": 2}
    assert held["mean_speedup"] == pytest.approx((3.0 + 1.0 + 5.0) / 3)
    assert held["agent_advantage"] == pytest.approx((1.0 + 0.0) / 2)


def test_a_trial_that_ended_without_any_payload_is_a_failure() -> None:
    held = formulacode(the_agent(0), a_trial(task_id="crash", resolved=None, failure_mode="agent_timeout"))
    assert held["mean_success_rate"] == 0.5
    assert held["coverage"]["task_speedup"] == 2
    assert held["mean_speedup"] == pytest.approx((3.0 + 1.0) / 2)


def test_r25_the_cost_weighted_advantage_is_the_quotient_of_the_two_numbers_beside_it() -> None:
    costly, free = the_agent(0, cost_usd=4.0), the_agent(0, task_id="free", cost_usd=0.0)
    unpriced = the_agent(0, task_id="unpriced", model="gpt-5")
    unmeasured = a_trial(task_id="unmeasured", tests=a_suite(0), cost_usd=100.0)
    assert formulacode(costly, free, unpriced, unmeasured)["cost_weighted_advantage"] == pytest.approx(
        1.0 / (104.0 / 3)
    )
    assert formulacode(free)["cost_weighted_advantage"] == 0.0
    assert formulacode(unpriced)["cost_weighted_advantage"] is None


def test_a_geometric_mean_of_advantages_needs_every_advantage_above_minus_one() -> None:
    def claiming(task: str, advantage: float) -> Event:
        return a_trial(task_id=task, claimed=dict.fromkeys(ADVANTAGES, advantage))

    above = formulacode(claiming("a", 1.0), claiming("b", 7.0))
    assert above["agent_advantages_gmean"]["agent_advantage"] == pytest.approx(3.0)
    assert above["claimed"] == 2
    below = formulacode(claiming("a", 1.0), claiming("b", -1.0))
    assert below["agent_advantages_gmean"]["agent_advantage"] == 0.0


def test_r4_baselines_have_summaries_of_their_own_and_stay_out_of_the_runs_pass_at_k() -> None:
    group = [
        a_trial(agent="nop", model="nop", agent_index=1, tests=a_suite(0), benchmarks=FASTER),
        the_oracle(0, benchmarks=FASTER),
    ]
    held = summarised([*group, the_agent(0, resolved=False)])
    nop, oracle = held["agent_model run-1|nop:nop"], held["agent_model run-1|oracle:oracle"]
    assert nop["baseline"]
    assert oracle["baseline"]
    assert nop["formulacode"]["agent_advantages_gmean"] is None
    assert oracle["formulacode"]["agent_advantages_gmean"] is not None
    assert held["run run-1"]["pass_at_k"]["1"]["value"] == 0.0
    assert summarised(group)["run run-1"]["pass_at_k"] == {}


def test_the_largest_numbers_stop_no_summary() -> None:
    huge = {
        "m.f": {"agent/nop": 1.7e308, "oracle/nop": 1.0},
        "n.f": {"agent/nop": 1.7e308, "oracle/nop": 1.0},
    }
    claimed = {"total_benchmarks": 9 * 10**18, "num_valid_benchmarks": 1e300, "agent_advantage": 1.7e308}
    held = formulacode(
        *(a_trial(task_id=f"h{n}", benchmarks=huge, cost_usd=5e-324) for n in range(3)),
        *(a_trial(task_id=f"c{n}", claimed=claimed) for n in range(3)),
    )
    assert held["mean_speedup"] == pytest.approx(1.7e308)
    assert held["cost_weighted_advantage"] == "Infinity"
    assert (held["num_benchmarks"], held["num_valid_benchmarks"]) == (6, 6)


# Planned agents without a sub-trial (R21)


A_AND_B = ["a:m", "b:m"]
END: Event = {"type": "run_finished", "run_id": "run-1"}


def sub_trial(task: str, agent: str, index: int, **fields: Any) -> Event:
    shown = {"m.f": {"agent/nop": 1.2, "oracle/nop": 1.5}}
    return a_trial(task_id=task, agent=agent, model="m", agent_index=index, benchmarks=shown, **fields)


def stale(*batches: list[Event]) -> set[tuple[str, str]]:
    """Kinds and keys whose last published summary is not what the run says now; a cut follows each batch."""
    pipeline, offset = Pipeline(), 0
    published: dict[tuple[str, str], str] = {}
    for events in batches:
        made = [type(r)(r.value, offset + n, timestamp=r.timestamp) for n, r in enumerate(records(events))]
        pipeline.fold(made)
        offset += len(made)
        for change in pipeline.run("run-1").take_changes().summaries:
            published[change.kind, change.key] = change.digest
    now = {(change.kind, change.key): change.digest for change in pipeline.run("run-1").summaries()}
    return {key for key, digest in published.items() if digest != now.get(key, "")} | (now.keys() - published)


def test_an_agent_that_is_planned_no_more_is_published_no_more() -> None:
    plan, corrected = a_plan(agent_models=A_AND_B), a_plan(agent_models=["a:m"], revision=2)
    assert stale([plan, sub_trial("t1", "a", 1), END], [corrected]) == set()


def test_a_trial_that_is_retracted_lacks_nobody() -> None:
    events = [sub_trial("t1", "a", 1), sub_trial("t1", "b", 2), sub_trial("t2", "a", 1)]
    gone = a_retraction(task_id="t2", agent="a", model="m", revision=1)
    assert stale([a_plan(agent_models=A_AND_B), *events, END], [gone]) == set()


def test_a_deleted_plan_lacks_nobody() -> None:
    events = [a_plan(agent_models=A_AND_B, revision=1), sub_trial("t1", "a", 1, revision=9), END]
    assert stale(events, [{"type": "run_deleted", "run_id": "run-1", "revision": 5}]) == set()


def test_in_a_pooled_run_an_agent_is_missing_only_in_the_shards_that_have_it() -> None:
    """The plan of a pooled run names the agents of all its shards."""
    plan = a_plan(agent_models=["a:m", "b:m", "c:m"])
    first = [sub_trial("t1", "a", 1, shard="one"), sub_trial("t1", "b", 2, shard="one")]
    second = [sub_trial("t1", "a", 1, shard="two"), sub_trial("t1", "c", 2, shard="two")]
    lacking = [sub_trial("t2", "a", 1, shard="one")]
    held = summarised([plan, *first, *second, *lacking, END])
    missing = {name: held[f"agent_model run-1|{name}:m"]["formulacode"]["missing"] for name in "abc"}
    assert missing == {"a": 0, "b": 1, "c": 0}


def test_a_planned_label_without_a_model_means_the_unknown_model() -> None:
    plan = a_plan(agent_models=["a", "b:"])
    events = [sub_trial("t1", "a", 1) | {"model": None}, sub_trial("t1", "b", 2) | {"model": None}]
    held = summarised([plan, *events, END])
    agents = {key for key in held if key.startswith("agent_model")}
    assert agents == {"agent_model run-1|a:unknown", "agent_model run-1|b:unknown"}
    assert held["agent_model run-1|a:unknown"]["formulacode"]["missing"] == 0


def test_an_agent_with_a_trial_of_its_own_beside_the_group_is_not_missing() -> None:
    own = sub_trial("t1", "b", 1) | {"agent_index": None}
    held = summarised([a_plan(agent_models=A_AND_B), sub_trial("t1", "a", 1), own, END])
    assert held["agent_model run-1|b:m"]["formulacode"]["missing"] == 0
