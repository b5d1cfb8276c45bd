"""FormulaCode's aggregate of an agent:model: what its means rest on; it forgets what is taken back."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import EVENT, TrialResult
from streamer.aggregate.formulacode import FormulaCodeSums, FormulaCodeTrials
from streamer.score import ADVANTAGES, Scored, score_trial
from tests.score.build import RULES
from tests.support.events import Event, a_trial, digests, folded, summarised
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


@settings(max_examples=150, deadline=None)
@given(st.lists(counted_trials, max_size=8), st.randoms(use_true_random=False))
def test_what_is_taken_back_leaves_the_aggregate_of_the_rest(events: list[Event], rng: random.Random) -> None:
    trials = [(trial, trial.formulacode) for trial in map(scored, events)]
    known = [FormulaCodeTrials([(trial, score)]) for trial, score in trials if score is not None]
    state, rest = FormulaCodeSums(), FormulaCodeSums()
    for trial in known:
        state.count(trial.sums, 1)
    gone = rng.sample(range(len(known)), rng.randrange(len(known) + 1))
    for index in gone:
        state.count(known[index].sums, -1)
    for index in sorted(set(range(len(known))) - set(gone), reverse=True):
        rest.count(known[index].sums, 1)
    assert body(state) == body(rest)
    for index in set(range(len(known))) - set(gone):
        state.count(known[index].sums, -1)
    assert body(state) == body(FormulaCodeSums())


@settings(max_examples=60, deadline=None)
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
