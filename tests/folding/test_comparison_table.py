"""Every two agents counted and ranked, against a batch oracle of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.base import MAX_PLANNED_ATTEMPTS, canonical_json
from streamer.schemas.summaries import SUMMARY
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import (
    Attempts,
    Pair,
    PairedTask,
    e_value,
    evidence_worse,
    final_difference,
    is_behind,
    paired,
    places,
)
from tests.folding.build import AGENT, RUN, TIER, WITHIN
from tests.folding.compared import AGENTS, END, ORDER, PLAN, TASKS, Event, ranks, the_comparison, trial
from tests.support.events import (
    a_deletion,
    a_plan,
    a_retraction,
    a_start,
    a_trial,
    digests,
    folded,
    records,
    summarised,
)
from tests.support.examples import examples

outcomes = st.dictionaries(
    st.tuples(st.sampled_from(AGENTS), st.sampled_from(TASKS)), st.booleans(), max_size=36
)


def by_evidence(pairs: dict[tuple[str, str], list[Pair]]) -> Callable[[Fraction], list[tuple[str, str]]]:
    return lambda level: [
        one
        for one, listed in pairs.items()
        if Fraction(evidence_worse(listed, len(listed))) * level >= 1
        and is_behind(listed, listed, len(listed))
    ]


@examples(60)
@given(outcomes)
def test_a_running_plan_gives_what_the_pure_functions_give(known: dict[tuple[str, str], bool]) -> None:
    first = {(agent, "t0"): False for agent in AGENTS}
    result = the_comparison([PLAN, *(trial(a, t, passed) for (a, t), passed in (first | known).items())])
    known = first | known
    pairs = {
        (a, b): [Pair(known.get((a, task)), known.get((b, task))) for task in ORDER]
        for a, b in permutations(AGENTS, 2)
    }
    for pair, (a, b) in zip(result["pairs"], combinations(AGENTS, 2), strict=True):
        listed = pairs[a, b]
        wins, losses = (
            [one() for one in both] for both in zip(*((p.won, p.lost) for p in listed), strict=True)
        )
        assert (pair["wins"], pair["losses"]) == (wins.count(True), losses.count(True))
        assert pair["unknown"] == sum(None in one for one in listed)
        assert sum(pair[name] for name in ("wins", "ties", "losses", "unknown")) == pair["pairs"] == 12
        final = final_difference(listed, 12)
        if pair["final_missing"] is None:
            assert pair["final"] == {"low": final.low, "high": final.high}
        else:
            assert pair["final_missing"] in ("order_follows_outcome", "empty")
        opposite = [Pair(theirs, ours) for ours, theirs in listed]
        behind = [is_behind(one, one, 12) for one in (opposite, listed)]
        assert pair["evidence"] == {
            "better": evidence_worse(opposite, 12),
            "worse": evidence_worse(listed, 12),
            "ahead": next((side for side, is_ahead in zip("ab", behind, strict=True) if is_ahead), None),
        }
    if not result["ended"]:
        assert ranks(result) == places(AGENTS, by_evidence(pairs), ALPHA / 2)


def test_an_agent_that_loses_eleven_in_a_row_is_last_while_the_run_goes_on() -> None:
    """Six directions, half of alpha: evidence of 240 is needed, and eleven losses are 341."""
    done = [trial(a, task, a != "c") for a in AGENTS for task in ORDER[:11]]
    result = the_comparison([PLAN, *done])
    assert ranks(result) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    assert (result["ended"], result["planned"], result["rank_missing"]) == (False, 12, None)


def test_prefixes_show_what_the_whole_plan_does_not_yet() -> None:
    """Seven straight losses of two agents; the five tasks that are still open would hide them."""
    done = [trial(a, task, a == "a") for a in ("a", "b") for task in ORDER[:7]]
    assert ranks(the_comparison([PLAN, *done])) == {"a": (1, 2), "b": (1, 2)}
    done += [trial(a, task, a == "a") for a in ("a", "b") for task in ORDER[7:9]]
    assert ranks(the_comparison([PLAN, *done])) == {"a": (1, 1), "b": (2, 2)}
    without_order = a_plan(tasks=TASKS, attempts=1)
    assert ranks(the_comparison([without_order, *done])) == {"a": (1, 2), "b": (1, 2)}


# -----------------------------------------------------------------------------
# Trials of one task that were made in different ways are no pair (R36, inference 10).


def made_apart(known: dict[tuple[str, str, int], bool], apart: set[str], **plan: Any) -> list[Event]:
    """Trials of a and b, by task and attempt; b's at some tasks had twice the timeout."""
    own = {"provenance": {"timeout": "20m"}}
    done = [
        trial(agent, task, passed, attempt=attempt, **(own if agent == "b" and task in apart else {}))
        for (agent, task, attempt), passed in known.items()
    ]
    return [PLAN | {"provenance": {"timeout": "600"}, "agent_models": ["a:m", "b:m"]} | plan, *done]


@examples(80)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.sampled_from(TASKS), st.sampled_from((1, 2))), st.booleans()
    ),
    st.sets(st.sampled_from(TASKS[1:]), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_a_pair_is_that_of_a_run_without_the_tasks_that_were_made_in_different_ways(
    known: dict[tuple[str, str, int], bool], apart: set[str], finished: bool, repeated: bool
) -> None:
    """R36. A task with results of one agent alone is not made in any way yet by the other."""
    known = {one: passed for one, passed in known.items() if repeated or one[2] == 1}
    known |= {("a", "t0", 1): False, ("b", "t0", 1): True}
    both = {task for task in TASKS if all(any(one[:2] == (a, task) for one in known) for a in "ab")}
    left = [task for task in TASKS if task not in both & apart]
    end, plan = [END] if finished else [], {"attempts": 2 if repeated else 1}
    result = the_comparison([*made_apart(known, apart, **plan), *end])
    [pair] = result["pairs"]
    total = len(both) if finished else 12
    if 2 * (12 - len(left)) > total:
        assert (pair["pairs"], pair["left_out"]) == (0, total)
        return
    without = {one: passed for one, passed in known.items() if one[1] in left}
    order = [task for task in ORDER if task in left]
    expected = the_comparison([*made_apart(without, apart, tasks=left, order=order, **plan), *end])
    assert pair.pop("left_out", 0) == 12 - len(left)
    assert [pair] == expected["pairs"]
    assert result["agents"] == expected["agents"]
    assert result["ended"] == expected["ended"]


def test_a_slow_agent_is_not_worse_because_its_first_results_came_from_short_trials() -> None:
    """Both agents have the timeout of their trials, which is not the run's: nothing else is left out."""
    own = {"provenance": {"timeout": "20m"}}
    done = [trial("a", task, task in ORDER[:3], **own) for task in ORDER]
    done += [trial("b", task, False, **own) for task in ORDER[:3]]
    [pair] = the_comparison([PLAN | {"provenance": {"timeout": "600"}}, *done])["pairs"]
    assert (pair["pairs"], pair["unknown"], pair.get("left_out")) == (12, 9, None)
    assert pair["evidence"] == {"better": e_value(0, 3), "worse": 1.0, "ahead": "a"}


def test_what_is_known_beyond_the_order_counts_also_where_a_task_is_left_out() -> None:
    """Where starts tell the order, the last prefix has the trials of all places: a failed the last two."""
    for apart in (set[str](), {ORDER[0]}):
        own, done = {"provenance": {"timeout": "20m"}}, list[Event]()
        for place, task in enumerate(ORDER):
            done += [a_start(task_id=task, agent="a", model="m", position=place), trial("a", task, False)]
        for place, task in enumerate(ORDER[:10]):
            done.append(a_start(task_id=task, agent="b", model="m", position=12 + place))
            done.append(trial("b", task, 0 < place < 4, **(own if task in apart else {})))
        first = a_plan(tasks=TASKS, attempts=1, order_kind="shuffled", judged=False)
        [pair] = the_comparison([first | {"provenance": {"timeout": "600"}}, *done])["pairs"]
        assert pair.get("left_out", 0) == len(apart)
        assert -5 <= pair["final"]["low"] <= pair["final"]["high"] <= -3


def test_agents_are_not_compared_where_fewer_than_half_of_their_tasks_were_made_alike() -> None:
    """Inference 10: then neither stands before the other, though one passes all and the other none."""
    known = {(agent, task, 1): agent == "a" for agent in "ab" for task in TASKS}
    for events in (made_apart(known, set(TASKS[:7])), [*made_apart(known, set(TASKS[:7])), END]):
        result = the_comparison(events)
        [pair] = result["pairs"]
        counts = [pair[name] for name in ("pairs", "wins", "ties", "losses", "unknown", "left_out")]
        assert counts == [0, 0, 0, 0, 0, 12]
        assert pair["final"] is None
        assert pair["evidence"] == {"better": 1.0, "worse": 1.0, "ahead": None}
        assert ranks(result) == {"a": (1, 2), "b": (1, 2)}


@pytest.mark.parametrize(
    "plan", [{"varies": ["timeout"]}, {"provenance": {"timeout": "1200 s"}}], ids=["declared", "one value"]
)
def test_a_difference_that_is_tried_or_is_only_spelt_leaves_every_pair(plan: dict[str, Any]) -> None:
    known = {(agent, task, 1): agent == "a" for agent in "ab" for task in TASKS}
    every = set(TASKS) if "varies" in plan else set(TASKS[:7])
    [pair] = the_comparison(made_apart(known, every, **plan))["pairs"]
    assert (pair["pairs"], pair["wins"], pair.get("left_out")) == (12, 12, None)


def test_only_the_two_agents_that_differ_lose_their_pairs() -> None:
    own = {"provenance": {"task_digest": "2"}}
    done = [trial(a, task, a == "a", **(own if a == "b" else {})) for a in AGENTS for task in TASKS[:3]]
    first = PLAN | {"provenance": {"task_digest": "1"}}
    pairs = the_comparison([first, *done])["pairs"]
    counts = {(one["a"], one["b"]): (one.get("left_out", 0), one["wins"], one["pairs"]) for one in pairs}
    assert counts == {(0, 1): (3, 0, 9), (0, 2): (0, 3, 12), (1, 2): (3, 0, 9)}


@pytest.mark.parametrize(
    ("order", "missing"),
    [
        ({"order_kind": "unknown"}, None),
        ({"order_kind": "chosen"}, "order_chosen"),
        ({"order_kind": "chosen", "order_reason": "longest first"}, None),
        ({"order_kind": "chosen", "order_history": ["earlier"]}, None),
        ({"order_kind": "chosen", "order_history": ["earlier", PLAN["run_id"]]}, "order_from_a_side"),
        ({"order_kind": "unknown", "order_history": [PLAN["run_id"]]}, "order_from_a_side"),
    ],
)
def test_an_order_of_pairs_may_be_any_but_one_of_a_sides_own_results(
    order: dict[str, Any], missing: str | None
) -> None:
    """Codes of inference 5. Where tasks that b has failed before may come first, nine losses show nothing."""
    done = [trial(a, task, a == "a") for a in ("a", "b") for task in ORDER[:9]]
    result = the_comparison([PLAN | order, *done])
    assert result.get("evidence_missing") == missing
    [pair], wins = result["pairs"], 3 if missing else 0
    assert pair["evidence"] == {"better": e_value(wins, 9), "worse": 1.0, "ahead": "a"}


def test_neither_is_ahead_where_the_whole_plan_is_decided_otherwise_than_its_first_tasks() -> None:
    """a wins first tasks, and one is open. b wins the other six, whatever becomes of that (inference 7)."""
    known = {("a", at): at < 5 for at in range(12) if at != 5} | {("b", at): at > 5 for at in range(12)}
    result = the_comparison([PLAN, *(trial(a, ORDER[at], passed) for (a, at), passed in known.items())])
    assert result["pairs"][0]["evidence"]["ahead"] == "a"
    del known["a", 4], known["b", 4]
    known["a", 4] = known["b", 4] = True
    result = the_comparison([PLAN, *(trial(a, ORDER[at], passed) for (a, at), passed in known.items())])
    assert result["pairs"][0]["evidence"]["ahead"] is None


def test_at_the_end_the_sign_test_ranks() -> None:
    """Two directions, half of alpha. Seven wins of seven: p = 1/128, below .05/4. Six of six: 1/64."""
    for wins, expected in ((7, {"a": (1, 1), "b": (2, 2)}), (6, {"a": (1, 2), "b": (1, 2)})):
        won = set((ORDER[::2] + ORDER[1:2])[:wins])
        done = [trial(a, task, a == "a" and task in won) for a in ("a", "b") for task in TASKS]
        result = the_comparison([PLAN, *done])
        assert result["ended"]
        assert ranks(result) == expected
        assert result["pairs"][0]["final"] == {"low": wins, "high": wins}


def test_without_a_plan_nobody_is_ranked_before_the_run_has_finished() -> None:
    done = [trial(a, task, a == "a") for a in ("a", "b") for task in TASKS]
    result = the_comparison(done)
    assert (ranks(result), result["rank_missing"]) == ({"a": None, "b": None}, "no_plan")
    assert result["pairs"][0]["final_missing"] == "no_plan"
    finished = the_comparison([*done, END])
    assert (ranks(finished), finished["ended"]) == ({"a": (1, 1), "b": (2, 2)}, True)


def test_at_the_end_unequal_attempts_are_ranked_by_those_that_both_have() -> None:
    """Without a plan an agent may have run more often. It passes all, and the other one none."""

    def run(more: int) -> Event:
        done = [trial(a, task, a == "a") for a in ("a", "b") for task in TASKS]
        done += [trial("a", task, passed=True, attempt=2) for task in TASKS[:more]]
        return the_comparison([*done, END])

    for more in (12, 7, 0):
        assert ranks(run(more)) == {"a": (1, 1), "b": (2, 2)}
    assert run(12)["pairs"][0]["wins"] == 12


def test_nobody_is_behind_an_agent_that_passes_less_often() -> None:
    """On eight tasks b passes one of three attempts and a none; on four a passes all three and b none."""
    passed = {("a", 8), ("a", 9), ("a", 10), ("a", 11)}
    done = [
        trial(a, task, (a, at) in passed or (a == "b" and at < 8 and n == 1), attempt=n)
        for a in ("a", "b")
        for at, task in enumerate(TASKS)
        for n in (1, 2, 3)
    ]
    plan = a_plan(tasks=TASKS, attempts=3, judged=False)
    assert ranks(the_comparison([plan, *done])) == {"a": (1, 2), "b": (1, 2)}
    done = [one for one in done if one["task_id"] in TASKS[:8]]
    assert ranks(the_comparison([*done, END])) == {"a": (2, 2), "b": (1, 1)}


def test_several_attempts_are_evidence_pair_by_pair_while_the_run_goes_on() -> None:
    """Two of twelve tasks are lost in all five attempts: with the task as unit two losses show nothing."""
    rounds = [(task, n) for n in range(1, 6) for task in ORDER]
    plan = a_plan(tasks=TASKS, attempts=5, order=rounds, order_kind="shuffled", judged=False)
    done = [
        trial(a, task, a == "a" or task not in ORDER[:2], attempt=n)
        for a in ("a", "b")
        for task, n in rounds[:58]
    ]
    assert ranks(the_comparison([plan, *done])) == {"a": (1, 1), "b": (2, 2)}


def test_the_losses_that_came_bound_the_work_of_a_rank_not_the_attempts_that_are_planned() -> None:
    """Without an order twelve million open pairs count against three losses."""
    plan = a_plan(tasks=TASKS, attempts=MAX_PLANNED_ATTEMPTS, order=ORDER, order_kind="shuffled")
    trials = [trial(agent, task, agent == "a") for agent in "ab" for task in ORDER[:3]]
    result = the_comparison([plan, *trials])
    assert result["planned"] == len(TASKS) * MAX_PLANNED_ATTEMPTS
    assert ranks(result) == {"a": (1, 2), "b": (1, 2)}
    assert result["pairs"][0]["evidence"] == {"better": 1.0, "worse": 1.0, "ahead": None}


def test_an_order_that_starts_tell_is_that_of_the_side_that_began_later() -> None:
    """Agent b begins after a; its trials start in the reverse order of the list."""
    plan = a_plan(tasks=TASKS, attempts=1, order_kind="shuffled")
    reverse = TASKS[::-1]
    starts = [a_start(task_id=task, agent="a", model="m", position=n) for n, task in enumerate(TASKS)]
    starts += [a_start(task_id=task, agent="b", model="m", position=12 + n) for n, task in enumerate(reverse)]
    won = [trial(a, task, a == "a") for a in ("a", "b") for task in reverse[:9]]
    result = the_comparison([plan, *starts, *won])
    pairs = [Pair(True, False)] * 9 + [Pair(None, None)] * 3
    listed = final_difference(pairs, 12)
    assert result["pairs"][0]["final"] == {"low": listed.low, "high": listed.high}
    assert ranks(result) == {"a": (1, 1), "b": (2, 2)}
    others = [trial(a, task, a == "a") for a in ("a", "b") for task in TASKS[:9]]
    assert ranks(the_comparison([plan, *starts, *others])) == {"a": (1, 2), "b": (1, 2)}


@examples(40)
@given(st.lists(st.tuples(*[st.lists(st.booleans(), min_size=3, max_size=3)] * 2), min_size=12, max_size=12))
def test_with_several_attempts_the_task_is_the_unit(both: list[tuple[list[bool], list[bool]]]) -> None:
    plan = a_plan(tasks=TASKS, attempts=3, judged=False)
    done = [
        trial(agent, task, passed, attempt=number)
        for task, sides in zip(TASKS, both, strict=True)
        for agent, side in zip("ab", sides, strict=True)
        for number, passed in enumerate(side, 1)
    ]
    result = the_comparison([plan, *done])
    pairs = [PairedTask(Attempts(3, sum(ours)), Attempts(3, sum(theirs))) for ours, theirs in both]
    oracle = paired(pairs)
    assert result["pairs"][0]["wins"] - result["pairs"][0]["losses"] == round((oracle.difference or 0) * 36)
    assert result["ended"]
    assert oracle.p_value is not None
    # One side of the two-sided test, Holm over two directions, and half of alpha at the end (inference 7).
    decided = oracle.p_value / 2 <= ALPHA / 2 / 2
    first = ranks(result)["a"]
    assert (first in ((1, 1), (2, 2))) is decided


def test_more_trials_than_planned_count_as_seen() -> None:
    events = [a_plan(tasks=1, attempts=1), *(trial(a, t, passed=True) for a in "ab" for t in ("x", "y"))]
    result = the_comparison(events)
    assert (result["planned"], result["rank_missing"]) == (None, "plan_exceeded")
    assert result["pairs"][0]["pairs"] == 2


# -----------------------------------------------------------------------------
# What the summaries of groups and runs say, claim by claim.


COSTS = [a_trial(cost_usd=2.0), a_trial(task_id="t2", cost_usd=4.0, resolved=False), a_trial(task_id="t3")]


@pytest.mark.parametrize(
    ("events", "cost"),
    [
        (COSTS, 6.0),
        (COSTS[1:], None),
        (COSTS[2:], None),
        ([a_trial(cost_usd=0.0)], 0.0),
        (COSTS[1:2], "Infinity"),
        ([a_trial(resolved=False)], "Infinity"),
    ],
    ids=["known", "unknown beside a failure", "unknown", "free", "no pass", "no pass at an unknown cost"],
)
def test_r14_cost_of_pass_of_a_group_is_known_cost_per_pass_at_a_known_cost(
    events: list[Event], cost: float | str | None
) -> None:
    assert summarised(events)[AGENT]["cost_of_pass"] == cost


def test_r23_of_two_bases_there_is_no_uplift_and_no_delta() -> None:
    tiers = [
        a_trial(tier="T0"),
        a_trial(tier="T1", resolved=False),
        a_trial(task_id="j", tier="T1", score=0.9),
    ]
    result = summarised(tiers)["tier run-1|T1"]
    assert (result["tier_uplift"], result["tier_delta"]) == (None, None)


REPEATED = [a_trial(attempt=n, tier="T0", resolved=n == 1) for n in (1, 2)]
TWO_AGENTS = [*REPEATED, a_trial(agent="other", tier="T0", resolved=False)]


@pytest.mark.parametrize(
    ("events", "values"),
    [
        (REPEATED, {AGENT: 1.0, RUN: 1.0, TIER: 1.0}),
        (TWO_AGENTS, {RUN: None, TIER: None, AGENT: 1.0, WITHIN: 1.0}),
        ([*REPEATED, a_trial(tier="T1")], {RUN: None, AGENT: None, TIER: 1.0}),
    ],
    ids=["one agent in one tier", "agents", "tiers"],
)
def test_r11_there_is_no_pass_at_k_over_a_mixture_of_agents_or_tiers(
    events: list[Event], values: dict[str, float | None]
) -> None:
    stored = summarised(events)
    passes = {key: stored[key]["pass_at_k"] for key in values}
    assert {key: of and of["2"]["value"] for key, of in passes.items()} == values


def test_models_are_normalised_before_the_slot_is_formed() -> None:
    _, result = folded([a_trial(model="@gpt-5"), a_trial(model="gpt-5")])
    assert (result.counted, result.duplicates) == (1, 1)


def test_grade_changes_are_news_once_and_silent_after_a_recovery() -> None:
    pipeline, _ = folded([a_trial(resolved=False)])
    assert pipeline.run("run-1").take_changes(notify=False).notifications == []
    pipeline.fold(records([a_trial(resolved=True, revision=1)]))
    [news] = pipeline.run("run-1").take_changes().notifications
    assert b'"from_grade":"F"' in news.value
    assert b'"to_grade":"A"' in news.value


def test_totals_beyond_exact_integers_are_floats_and_stop_nothing() -> None:
    events = [a_trial(task_id=f"t{n}", input_tokens=2**53) for n in range(1100)]
    summary = summarised(events)[AGENT]
    assert summary["tokens"]["input"] == 1100 * 2.0**53
    SUMMARY.validate_json(canonical_json(summary), extra="forbid")


# -----------------------------------------------------------------------------
# One slot holds one result, and the greatest (revision, finished_at, fingerprint) wins (R17).


def test_the_same_content_again_is_a_duplicate_whatever_its_revision() -> None:
    _, result = folded([a_trial(), a_trial(revision=7), a_trial()])
    assert (result.counted, result.duplicates) == (1, 2)


def test_equal_instants_and_explicit_defaults_are_the_same_content() -> None:
    ends = "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"
    other, same = (a_trial(finished_at=end) for end in ends)
    defaults = {"attempt": 1, "shard": "", "tier": None, "schema_version": 1}
    _, result = folded([other, same | defaults])
    assert (result.counted, result.duplicates) == (1, 1)


def test_a_correction_replaces_and_the_loser_is_counted_not_averaged() -> None:
    for order in permutations([a_trial(resolved=False, revision=1), a_trial(resolved=True, revision=2)]):
        summary = summarised(order)[AGENT]
        assert (summary["trials"], summary["resolved"], summary["superseded"]) == (1, 1, 1)
        assert summary["conflicts"] == 0
    alone = summarised([a_trial(resolved=True, revision=2)])[AGENT]
    assert (alone["superseded"], alone["digest"]) == (0, summary["digest"]), "it is not digested"


def test_of_equal_revisions_the_later_end_wins_and_no_end_is_lowest() -> None:
    ends = [
        a_trial(resolved=False),
        a_trial(resolved=False, finished_at="2026-01-01T00:00:00Z", cost_usd=1.0),
        a_trial(resolved=True, finished_at="2026-01-02T00:00:00Z"),
    ]
    for order in permutations(ends):
        summary = summarised(order)[AGENT]
        assert (summary["resolved"], summary["superseded"], summary["conflicts"]) == (1, 2, 0)


def test_a_slot_decided_by_the_fingerprint_alone_is_a_conflict() -> None:
    pair = [a_trial(cost_usd=1.0), a_trial(cost_usd=2.0)]
    seen = [summarised(order)[AGENT] for order in permutations(pair)]
    assert [summary["conflicts"] for summary in seen] == [1, 1]
    assert seen[0]["digest"] == seen[1]["digest"]


def test_a_retraction_is_a_floor_that_only_a_higher_revision_passes() -> None:
    events = [a_trial(revision=3), a_retraction(revision=3)]
    for order in permutations(events):
        assert AGENT not in summarised(order)
    for order in permutations([*events, a_trial(revision=4, cost_usd=1.0)]):
        assert summarised(order)[AGENT]["trials"] == 1


def test_a_deleted_run_is_gone_and_ignores_what_is_not_newer() -> None:
    first, later = a_trial(), a_trial(revision=5, cost_usd=2.0)
    events = [first, a_plan(tasks=3, attempts=1), a_deletion(revision=5), later]
    for order in permutations(events):
        assert digests(folded(order)[0]) == {}
    assert summarised([*events, a_trial(revision=6)])[AGENT]["trials"] == 1


def test_deleting_a_run_leaves_its_marker_page_and_tombstones_all_else() -> None:
    pipeline, _ = folded([a_trial(tier="T0")], writer="w")
    run = pipeline.run("run-1")
    published = {change.key for change in run.take_changes().summaries}
    assert {write.key for write in run.take_pages()} == {"run-1/w/1"}
    pipeline.fold(records([a_deletion()]))
    cut = run.take_changes()
    assert {change.key for change in cut.summaries if change.value is None} == published
    assert [trial.value for trial in cut.scored] == [None]
    pages = [(write.key, write.value is None) for write in run.take_pages()]
    assert pages == [("run-1/w/0", False), ("run-1/w/1", True)]
