"""Oracles of FormulaCode: late, corrected, retracted, they re-score what they concern, in any order (R9)."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.wire import canonical_json
from tests.support.events import Event, a_plan, a_retraction, a_trial, digests, folded
from tests.support.examples import examples
from tests.support.formulacode_trials import (
    FASTER,
    PASSED,
    Json,
    Published,
    a_suite,
    failures,
    no_oracle,
    published,
    snapshots,
    suites,
    the_agent,
    the_oracle,
)

AGENT = "agent_model run-1|terminus:gpt-5"


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


@examples(120)
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


@examples(120)
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
    if score is None or payload is None:  # no section is left in the group
        assert score is payload
        return True
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
