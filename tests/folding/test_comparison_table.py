"""Every two agents counted and ranked, against a batch oracle of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.folding import pairs
from streamer.folding.fold import Pipeline
from streamer.schemas.base import MAX_PLANNED_ATTEMPTS
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
from tests.folding.compared import (
    AGENTS,
    END,
    ORDER,
    PLAN,
    TASKS,
    Event,
    compared,
    ranks,
    tasks_of,
    the_comparison,
    trial,
)
from tests.support.events import a_plan, a_start, records
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


ELEVEN_LOST = {(agent, task): agent != "c" for agent in AGENTS for task in ORDER[:11]}
"""Six directions, half of alpha: evidence of 240 is needed, and eleven losses are 341."""


@examples(60)
@example(ELEVEN_LOST)
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
    assert known != ELEVEN_LOST or ranks(result) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


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


ALL_BUT_ONE = {(agent, task, 1): agent == "a" for agent in "ab" for task in TASKS}
"""One passes all tasks but the first, and the other none of them."""


@examples(80)
@example(ALL_BUT_ONE, set(TASKS[1:8]), False, False)
@example(ALL_BUT_ONE, set(TASKS[1:8]), True, False)
@example(ALL_BUT_ONE, set(TASKS[1:7]), True, False)
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
    if 2 * (12 - len(left)) > total:  # inference 10: then neither stands before the other
        counts = [pair[name] for name in ("pairs", "wins", "ties", "losses", "unknown", "left_out", "final")]
        assert counts == [0, 0, 0, 0, 0, total, None]
        assert pair["evidence"] == {"better": 1.0, "worse": 1.0, "ahead": None}
        assert ranks(result) == {"a": (1, 2), "b": (1, 2)}
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
def test_an_order_of_pairs_may_not_follow_a_sides_own_results(
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
# The comparison as it is published: when there is one, what limits it, when it is taken.


def test_baselines_and_single_agents_are_not_compared() -> None:
    one = [PLAN, trial("a", "t1", passed=True), trial("nop", "t1", passed=False)]
    assert compared(one) is None
    assert tasks_of(one) == {"t1": {"a:m": [1, 1, 0]}}
    with_planned = [a_plan(agent_models=["a:m", "b:m"], revision=7), *one]
    assert [agent["agent"] for agent in the_comparison(with_planned)["agents"]] == ["a", "b"]


def test_of_too_many_agents_or_trials_there_is_none_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [trial(f"a{number:02}", "t1", passed=True) for number in range(61)]
    result = the_comparison([PLAN, *many])
    assert (result["missing"], result["rank_missing"]) == ("too_many_agents",) * 2
    assert (result["pairs"], len(result["agents"]), result["agents_total"]) == ([], 60, 61)
    assert tasks_of([PLAN, *many]) == {}
    assert len(the_comparison([PLAN, *many[1:]])["pairs"]) == 60 * 59 // 2
    monkeypatch.setattr(pairs, "MOST_CELLS", 59)
    assert the_comparison([PLAN, *many[1:]])["missing"] == "too_many_trials"
    monkeypatch.setattr(pairs, "MOST_RANKED_TASKS", 11)
    assert the_comparison([PLAN, *many[:2]])["rank_missing"] == "too_many_trials"


def test_a_comparison_is_taken_where_it_is_wanted_and_only_if_it_differs() -> None:
    pipeline = Pipeline()
    *before, last = records([PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)])
    run_id = "run-1"
    pipeline.fold(before)
    update = pipeline.run(run_id).take_changes(comparison=False)
    assert update.tasks is None
    assert all(change.kind != "comparison" for change in update.summaries)
    pipeline.fold([last])
    run = pipeline.run(run_id)
    update = run.take_changes()
    assert "comparison" in [change.kind for change in update.summaries]
    assert update.tasks == run.comparisons.tasks_taken
    assert (run.take_changes().summaries, run.take_changes().tasks) == ([], None)
