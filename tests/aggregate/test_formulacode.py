"""FormulaCode in a run: late, corrected and retracted oracles; what means rest on; removal."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.canonical import NOT_DIGESTED, canonical_json
from schemas.events import EVENT, TrialResult
from schemas.summaries import SUMMARY
from streamer.aggregate.formulacode import FormulaCodeState
from streamer.pipeline import Pipeline
from streamer.score import ADVANTAGES, PriceTable, Scored, grading_profile, score_trial
from tests.support.events import Event, a_plan, a_retraction, a_trial, digests, folded, records, summarised

Json = dict[str, Any]
PROFILE, PRICES = grading_profile(None), PriceTable.default()
AGENT = "agent_model run-1|terminus:gpt-5"
PASSED, BROKEN = {"status": "passed"}, {"status": "failed"}
FASTER = {"m.f": {"agent/nop": 3.0, "oracle/nop": 2.0}}


def a_suite(failed: int) -> Json:
    return {"status": "failed" if failed else "ok", "failed": failed, "error": 0}


def the_oracle(failed: int, **fields: Any) -> Event:
    return a_trial(agent="oracle", model="oracle", agent_index=2, tests=a_suite(failed), **fields)


def the_agent(failed: int, **fields: Any) -> Event:
    return a_trial(agent_index=3, tests=a_suite(failed), benchmarks=FASTER, **fields)


def no_oracle(revision: int) -> Event:
    return a_retraction(agent="oracle", model="oracle", revision=revision)


class Published:
    """What a subscriber of the topics has after each event: the last value of each key, the last news."""

    def __init__(self) -> None:
        self.pipeline = Pipeline()
        self.scored: dict[str, Json] = {}
        self.summaries: dict[str, Json] = {}
        self.news: list[Json] = []
        self._offset = 0

    def fold(self, event: Event) -> None:
        (record,) = records([event])
        record = type(record)(record.value, self._offset, timestamp_ms=record.timestamp_ms)
        self._offset += 1
        self.news = []
        for run_id in self.pipeline.fold([record]).touched:
            cut = self.pipeline.cut(run_id)
            for trial in cut.scored:
                keep(self.scored, trial.key, trial.value)
            for change in cut.summaries:
                keep(self.summaries, f"{change.kind} {change.key}", change.value)
            self.news += [json.loads(item.value) for item in cut.news]

    def rescorings(self) -> list[Json]:
        return [item for item in self.news if item["type"] == "rescored"]


def keep(held: dict[str, Json], key: str, value: bytes | None) -> None:
    """As a compacted topic: the last value of a key, without what tells only the way to it."""
    if value is None:
        held.pop(key, None)
        return
    SUMMARY.validate_json(value)
    held[key] = {name: part for name, part in json.loads(value).items() if name not in NOT_DIGESTED}


def published(*events: Event) -> Published:
    stream = Published()
    for event in events:
        stream.fold(event)
    return stream


# The oracle, late, corrected, retracted (R9)


def test_an_oracle_that_comes_late_re_scores_the_agent_and_says_so() -> None:
    stream = published(the_agent(2))
    assert stream.summaries[AGENT]["formulacode"]["mean_success_rate"] == 0.0
    stream.fold(the_oracle(2))
    (news,) = stream.rescorings()
    assert (news["trial"]["agent"], news["because"]["agent"]) == ("terminus", "oracle")
    before, after = news["before"]["formulacode"], news["after"]["formulacode"]
    assert (before["pytest_failed"], before["fallback"], before["task_speedup"]) == (True, True, 1.0)
    assert (after["pytest_failed"], after["fallback"]) == (False, False)
    assert after["task_speedup"] == pytest.approx(3.0)
    summary = stream.summaries[AGENT]["formulacode"]
    assert (summary["mean_success_rate"], summary["fallbacks"]) == (1.0, 0)
    assert summary["agent_advantage"] == pytest.approx(1.0)


def test_a_corrected_oracle_moves_the_agent_back_and_forth() -> None:
    stream = published(the_oracle(2), the_agent(2))
    assert stream.rescorings() == []
    stream.fold(the_oracle(1, revision=1))
    assert [news["after"]["success"] for news in stream.rescorings()] == [False]
    stream.fold(the_oracle(5, revision=2))
    assert [news["after"]["success"] for news in stream.rescorings()] == [True]
    stream.fold(the_oracle(5, revision=3, cost_usd=1.0))
    assert stream.rescorings() == []


def test_a_retracted_oracle_leaves_the_agent_to_be_judged_absolutely() -> None:
    stream = published(the_oracle(2), the_agent(2), no_oracle(0))
    (news,) = stream.rescorings()
    assert (news["because"]["agent"], news["after"]["success"]) == ("oracle", False)
    assert set(stream.scored) == {"run-1||task-1|1|terminus|gpt-5||"}


def test_only_sub_trials_whose_score_moves_are_news() -> None:
    bystander = a_trial(agent="openhands", agent_index=4, tests=a_suite(0), benchmarks=FASTER)
    stream = published(the_agent(2), bystander, the_oracle(2))
    assert [news["trial"]["agent"] for news in stream.rescorings()] == ["terminus"]


def test_another_attempt_has_another_oracle() -> None:
    stream = published(the_agent(2), the_agent(2, attempt=2), the_oracle(2, attempt=2))
    assert [news["trial"]["attempt"] for news in stream.rescorings()] == [2]
    assert stream.summaries[AGENT]["formulacode"]["mean_success_rate"] == 0.5


failures = st.sampled_from([a_suite(1), a_suite(2), a_suite(0), None, {"status": "missing"}])
snapshots = st.sampled_from([PASSED, PASSED, PASSED, None, BROKEN])
suites = st.sampled_from(
    [
        FASTER,
        None,
        {},
        {
            "m.f": {"agent/nop": 0.5, "oracle/nop": 1.5},
            "m.C.g(1)": {"agent/nop": 7.0, "oracle/nop": 3.0},
            "x": 1,
        },
        {"m.f": {"agent/nop": 0.3}},
    ]
)
attempts = st.sampled_from([1, 1, 1, 2])
sub_trials = st.builds(
    lambda agent, index, revision, attempt, verdict, **sections: a_trial(
        agent=agent,
        model="m",
        agent_index=index,
        revision=revision,
        attempt=attempt,
        resolved=verdict,
        **sections,
    ),
    agent=st.sampled_from(["terminus", "openhands", "terminus", "nop"]),
    index=st.sampled_from([1, 3, 4]),
    revision=st.integers(0, 1),
    attempt=attempts,
    verdict=st.sampled_from([True, False, None]),
    tests=failures,
    snapshot=snapshots,
    benchmarks=suites,
    cost_usd=st.sampled_from([None, 0.0, 0.1, 2.5]),
)
oracles = st.builds(
    lambda revision, attempt, index, **sections: a_trial(
        agent="oracle", model="m", agent_index=index, revision=revision, attempt=attempt, **sections
    ),
    revision=st.integers(0, 3),
    attempt=attempts,
    index=st.sampled_from([2, 2, 2, None]),
    tests=failures,
    benchmarks=suites,
)
retractions = st.builds(
    lambda agent, revision, attempt: a_retraction(agent=agent, model="m", revision=revision, attempt=attempt),
    st.sampled_from(["oracle", "oracle", "terminus"]),
    st.integers(0, 3),
    attempts,
)
plans = st.builds(
    a_plan, revision=st.integers(0, 1), baselines=st.sampled_from([["nop"], ["terminus"], None])
)
groups = st.builds(
    lambda subs, references, rest: subs + references + rest,
    st.lists(sub_trials, min_size=2, max_size=4),
    st.lists(st.one_of(oracles, oracles, retractions), min_size=2, max_size=4),
    st.lists(st.one_of(sub_trials, retractions, plans), max_size=2),
).flatmap(st.permutations)


def test_all_orders_of_a_group_with_a_corrected_and_then_retracted_oracle_end_in_the_same_bytes() -> None:
    """The agent fails where the oracle's one failure stands, or none; it passes while there are two."""
    events = [
        a_trial(agent="nop", model="nop", agent_index=1, tests=a_suite(1), snapshot=PASSED),
        the_oracle(2, benchmarks=FASTER),
        the_agent(2, cost_usd=0.1, snapshot=PASSED),
        the_oracle(1, revision=1, benchmarks=FASTER),
        no_oracle(1),
    ]
    wanted = published(*events)
    told = 0
    for order in itertools.permutations(events):
        stream = Published()
        for event in order:
            stream.fold(event)
            told += len(stream.rescorings())
        assert canonical_json(stream.scored) == canonical_json(wanted.scored)
        assert canonical_json(stream.summaries) == canonical_json(wanted.summaries)
    assert told > len(events)


@settings(max_examples=120, deadline=None)
@given(groups, st.randoms(use_true_random=False))
def test_sub_trials_and_their_oracles_end_in_the_same_bytes_in_any_order(
    events: list[Event], rng: random.Random
) -> None:
    shuffled = events + rng.sample(events, len(events) // 3)
    rng.shuffle(shuffled)
    one, other = published(*events), published(*shuffled)
    assert canonical_json(one.scored) == canonical_json(other.scored)
    assert canonical_json(one.summaries) == canonical_json(other.summaries)
    assert digests(one.pipeline) == digests(other.pipeline) == digests(folded(shuffled)[0])


@settings(max_examples=120, deadline=None)
@given(groups)
def test_news_tells_every_move_of_a_sub_trial_by_another_ones_event_and_no_other(events: list[Event]) -> None:
    stream = Published()
    for event in events:
        before = dict(stream.scored)
        stream.fold(event)
        if event["type"] == "run_started":
            continue
        place = slot_of(event)
        moved = {
            key
            for key in before.keys() & stream.scored.keys()
            if before[key] != stream.scored[key] and slot_of(stream.scored[key]) != place
        }
        told = {
            key for news in stream.rescorings() for key in stream.scored if tells(news, stream.scored[key])
        }
        assert moved == told
        for news in stream.rescorings():
            assert slot_of(news["because"]) == place
            assert news["before"] != news["after"]


def slot_of(held: Json) -> tuple[Any, ...]:
    return held.get("shard", ""), held["task_id"], held.get("attempt", 1), held["agent"], held["model"]


def tells(news: Json, trial: Json) -> bool:
    """True if the news is about this trial and its `after` is what now stands."""
    if slot_of(news["trial"]) != slot_of(trial):
        return False
    score, payload = news["after"]["formulacode"], trial["formulacode"]
    assert news["after"]["success"] is trial["success"]
    assert (score["task_speedup"], score["fallback"]) == (
        payload["task_speedup"],
        payload["fallback_to_baseline"],
    )
    return True


def test_the_order_of_the_keys_inside_an_event_makes_it_no_other_event() -> None:
    many = {f"m.C.f({i})": {"agent/nop": 1.0 + i / 7, "oracle/nop": 1.5} for i in range(40)}
    forward = the_agent(0) | {"benchmarks": many}
    backward = dict(reversed((forward | {"benchmarks": dict(reversed(many.items()))}).items()))
    assert json.dumps(forward) != json.dumps(backward)
    pipeline, result = folded([forward, backward])
    assert (result.counted, result.duplicates) == (1, 1)
    assert digests(pipeline) == digests(folded([backward])[0])
    assert published(forward).scored == published(backward).scored


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
    return score_trial(decoded, PROFILE, PRICES)


def body(state: FormulaCodeState) -> Json:
    return state.body(None, None, None, nop=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(counted_trials, max_size=8), st.randoms(use_true_random=False))
def test_what_is_taken_back_leaves_the_aggregate_of_the_rest(events: list[Event], rng: random.Random) -> None:
    trials = [(trial, trial.formulacode) for trial in map(scored, events)]
    known = [(trial, score) for trial, score in trials if score is not None]
    state, rest = FormulaCodeState(), FormulaCodeState()
    for trial, score in known:
        state.count(trial, score, 1)
    gone = rng.sample(range(len(known)), rng.randrange(len(known) + 1))
    for index in gone:
        state.count(*known[index], -1)
    for index in sorted(set(range(len(known))) - set(gone), reverse=True):
        rest.count(*known[index], 1)
    assert body(state) == body(rest)
    for index in set(range(len(known))) - set(gone):
        state.count(*known[index], -1)
    assert body(state) == body(FormulaCodeState())


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
    assert held["coverage"] == {"task_speedup": 3, "agent_advantage": 2, "cost_weighted_advantage": 0}
    assert held["mean_speedup"] == pytest.approx((3.0 + 1.0 + 5.0) / 3)
    assert held["agent_advantage"] == pytest.approx((1.0 + 0.0) / 2)


def test_a_trial_that_ended_without_any_payload_is_a_failure() -> None:
    held = formulacode(the_agent(0), a_trial(task_id="crash", resolved=None, failure_mode="agent_timeout"))
    assert held["mean_success_rate"] == 0.5
    assert held["coverage"]["task_speedup"] == 1


def test_the_cost_weighted_advantage_is_over_the_trials_that_have_both() -> None:
    costly, free = the_agent(0, cost_usd=4.0), the_agent(0, task_id="free", cost_usd=0.0)
    unpriced = the_agent(0, task_id="unpriced", model="gpt-5")
    unmeasured = a_trial(task_id="unmeasured", tests=a_suite(0), cost_usd=100.0)
    assert formulacode(costly, free, unpriced, unmeasured)["cost_weighted_advantage"] == pytest.approx(0.5)
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
