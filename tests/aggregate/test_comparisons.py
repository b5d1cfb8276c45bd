"""The comparison of a run's agents against a batch oracle: counts, final differences, ranks, tasks."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.aggregate import comparison_table, comparisons
from streamer.inference.comparisons import Pair, evidence_worse, final_difference
from streamer.inference.paired import Attempts, TaskPair, paired
from streamer.inference.ranks import places
from streamer.pipeline import Pipeline
from streamer.schemas.comparison import RunComparison
from tests.support.events import a_plan, a_retraction, a_start, a_trial, folded, records
from tests.support.examples import examples

Event = dict[str, Any]
TASKS = [f"t{number}" for number in range(12)]
ORDER = random.Random(5).sample(TASKS, len(TASKS))
AGENTS = ["a", "b", "c"]
PLAN = a_plan(tasks=TASKS, attempts=1, order=ORDER, order_kind="shuffled", judged=False)
END = {"type": "run_finished", "run_id": "run-1", "revision": 9}

outcomes = st.dictionaries(
    st.tuples(st.sampled_from(AGENTS), st.sampled_from(TASKS)), st.booleans(), max_size=36
)


def trial(agent: str, task: str, passed: bool, **more: Any) -> Event:
    return a_trial(task_id=task, agent=agent, model="m", resolved=passed, score=None, **more)


def compared(events: list[Event]) -> Event | None:
    """The comparison of the run; it keeps to its schema."""
    found = [c for c in folded(events)[0].run("run-1").summaries() if c.kind == "comparison"]
    for change in found:
        RunComparison.model_validate_json(change.value or b"")
    return found[0].summary if found else None


def the_comparison(events: list[Event]) -> Event:
    found = compared(events)
    assert found is not None
    return found


def ranks(found: Event) -> dict[str, tuple[int, int] | None]:
    return {one["agent"]: one["rank"] and tuple(one["rank"].values()) for one in found["agents"]}


def tasks_of(events: list[Event]) -> dict[str, Any]:
    tasks = folded(events)[0].run("run-1").comparisons.tasks()
    return {task: json.loads(held) for task, held in tasks.items()}


def by_evidence(pairs: dict[tuple[str, str], list[Pair]]) -> Callable[[Fraction], list[tuple[str, str]]]:
    return lambda level: [
        one for one, listed in pairs.items() if Fraction(evidence_worse(listed, len(listed))) * level >= 1
    ]


@examples(60)
@given(outcomes)
def test_a_running_plan_gives_what_the_pure_functions_give(known: dict[tuple[str, str], bool]) -> None:
    first = {(agent, "t0"): False for agent in AGENTS}
    found = the_comparison([PLAN, *(trial(a, t, passed) for (a, t), passed in (first | known).items())])
    known = first | known
    pairs = {
        (a, b): [Pair(known.get((a, task)), known.get((b, task))) for task in ORDER]
        for a, b in permutations(AGENTS, 2)
    }
    for pair, (a, b) in zip(found["pairs"], combinations(AGENTS, 2), strict=True):
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
    if not found["ended"]:
        assert ranks(found) == places(AGENTS, by_evidence(pairs))


def test_an_agent_that_loses_ten_in_a_row_is_last_while_the_run_goes_on() -> None:
    done = [trial(a, task, a != "c") for a in AGENTS for task in ORDER[:10]]
    found = the_comparison([PLAN, *done])
    assert ranks(found) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    assert (found["ended"], found["planned"], found["rank_missing"]) == (False, 12, None)


def test_prefixes_show_what_the_whole_plan_does_not_yet() -> None:
    """Seven straight losses of two agents; the five tasks that are still open would hide them."""
    done = [trial(a, task, a == "a") for a in ("a", "b") for task in ORDER[:7]]
    assert ranks(the_comparison([PLAN, *done])) == {"a": (1, 2), "b": (1, 2)}
    done += [trial(a, task, a == "a") for a in ("a", "b") for task in ORDER[7:9]]
    assert ranks(the_comparison([PLAN, *done])) == {"a": (1, 1), "b": (2, 2)}
    without_order = a_plan(tasks=TASKS, attempts=1)
    assert ranks(the_comparison([without_order, *done])) == {"a": (1, 2), "b": (1, 2)}


def test_at_the_end_the_sign_test_ranks() -> None:
    """Six wins of six: p = 1/64, below .05/2. Five of five: 1/32, above it."""
    for wins, expected in ((6, {"a": (1, 1), "b": (2, 2)}), (5, {"a": (1, 2), "b": (1, 2)})):
        won = set(ORDER[::2][:wins])
        done = [trial(a, task, a == "a" and task in won) for a in ("a", "b") for task in TASKS]
        found = the_comparison([PLAN, *done])
        assert found["ended"]
        assert ranks(found) == expected
        assert found["pairs"][0]["final"] == {"low": wins, "high": wins}


def test_without_a_plan_nobody_is_ranked_before_the_run_has_finished() -> None:
    done = [trial(a, task, a == "a") for a in ("a", "b") for task in TASKS]
    found = the_comparison(done)
    assert (ranks(found), found["rank_missing"]) == ({"a": None, "b": None}, "no_plan")
    assert found["pairs"][0]["final_missing"] == "no_plan"
    finished = the_comparison([*done, END])
    assert (ranks(finished), finished["ended"]) == ({"a": (1, 1), "b": (2, 2)}, True)


def test_an_order_that_starts_tell_is_that_of_the_side_that_began_later() -> None:
    """Agent b begins after a; its trials start in the reverse order of the list."""
    plan = a_plan(tasks=TASKS, attempts=1, order_kind="shuffled")
    reverse = TASKS[::-1]
    starts = [a_start(task_id=task, agent="a", model="m", position=n) for n, task in enumerate(TASKS)]
    starts += [a_start(task_id=task, agent="b", model="m", position=12 + n) for n, task in enumerate(reverse)]
    won = [trial(a, task, a == "a") for a in ("a", "b") for task in reverse[:9]]
    found = the_comparison([plan, *starts, *won])
    pairs = [Pair(True, False)] * 9 + [Pair(None, None)] * 3
    listed = final_difference(pairs, 12)
    assert found["pairs"][0]["final"] == {"low": listed.low, "high": listed.high}
    assert ranks(found) == {"a": (1, 1), "b": (2, 2)}
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
    found = the_comparison([plan, *done])
    pairs = [TaskPair(Attempts(3, sum(ours)), Attempts(3, sum(theirs))) for ours, theirs in both]
    oracle = paired(pairs)
    assert found["pairs"][0]["wins"] - found["pairs"][0]["losses"] == round((oracle.difference or 0) * 36)
    assert found["ended"]
    assert oracle.p_value is not None
    decided = oracle.p_value / 2 <= 0.025  # one side of the two-sided test, Holm over two directions
    first = ranks(found)["a"]
    assert (first in ((1, 1), (2, 2))) is decided


def test_repeats_that_only_shards_tell_apart_are_paired() -> None:
    """As Harbor names them: each trial has a name of its own, and attempt 1."""
    plan = a_plan(tasks=["x", "y"], attempts=2)
    done = [
        trial(agent, task, agent == "a", shard=f"{task}__{agent}{number}")
        for agent in ("a", "b")
        for task in ("x", "y")
        for number in range(2)
    ]
    [pair] = the_comparison([plan, *done])["pairs"]
    assert (pair["pairs"], pair["wins"], pair["losses"], pair["unknown"]) == (4, 4, 0, 0)
    assert tasks_of([plan, *done]) == {task: {"a:m": [2, 2, 0], "b:m": [2, 0, 0]} for task in ("x", "y")}


def test_tasks_say_what_is_known_of_each_agent() -> None:
    events = [
        a_plan(tasks=["a/b", "y"], attempts=2),
        trial("a", "a/b", passed=True),
        trial("b", "a/b", passed=False, attempt=2),
        a_start(task_id="y", agent="a", model="m"),
    ]
    assert tasks_of(events) == {
        "a%2Fb": {"a:m": [1, 1, 1], "b:m": [1, 0, 1]},
        "y": {"a:m": [0, 0, 2]},
    }
    tiered = [trial("a", "x", passed=True, tier="T0", subtest="s|1"), trial("a", "x", passed=True, tier="T1")]
    assert tasks_of(tiered) == {"T0|s%7C1|x": {"a:m": [1, 1, 0]}, "T1||x": {"a:m": [1, 1, 0]}}


def test_a_trial_that_may_run_again_is_unknown_until_the_run_has_finished() -> None:
    crashed = trial("a", "x", passed=False, failure_mode="infrastructure_error")
    other = trial("b", "x", passed=True)
    events = [
        a_plan(tasks=["x"], attempts=1, infrastructure_failures=["infrastructure_error"]),
        crashed,
        other,
    ]
    assert the_comparison(events)["pairs"][0]["unknown"] == 1
    assert the_comparison([*events, END])["pairs"][0]["losses"] == 1


def test_baselines_and_single_agents_are_not_compared() -> None:
    one = [PLAN, trial("a", "t1", passed=True), trial("nop", "t1", passed=False)]
    assert compared(one) is None
    assert tasks_of(one) == {"t1": {"a:m": [1, 1, 0]}}
    with_planned = [a_plan(agent_models=["a:m", "b:m"], revision=7), *one]
    assert [agent["agent"] for agent in the_comparison(with_planned)["agents"]] == ["a", "b"]


def test_what_was_retracted_leaves_no_trace() -> None:
    kept = [PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)]
    gone = [trial("c", "t2", passed=True), a_retraction(task_id="t2", agent="c", model="m", revision=5)]
    found, plain = the_comparison([*kept, *gone]), the_comparison(kept)
    assert found["digest"] == plain["digest"]
    assert tasks_of([*kept, *gone]) == tasks_of(kept)


def test_beyond_sixty_agents_and_too_many_trials_there_is_none_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [trial(f"a{number:02}", "t1", passed=True) for number in range(61)]
    found = the_comparison([PLAN, *many])
    assert (found["missing"], found["rank_missing"]) == ("too_many_agents",) * 2
    assert (found["pairs"], len(found["agents"]), found["agents_total"]) == ([], 60, 61)
    assert tasks_of([PLAN, *many]) == {}
    assert len(the_comparison([PLAN, *many[1:]])["pairs"]) == 60 * 59 // 2
    monkeypatch.setattr(comparisons, "MOST_CELLS", 59)
    assert the_comparison([PLAN, *many[1:]])["missing"] == "too_many_trials"
    monkeypatch.setattr(comparison_table, "MOST_RANKED_TASKS", 11)
    assert the_comparison([PLAN, *many[:2]])["rank_missing"] == "too_many_trials"


def test_more_trials_than_planned_count_as_seen() -> None:
    events = [a_plan(tasks=1, attempts=1), *(trial(a, t, passed=True) for a in "ab" for t in ("x", "y"))]
    found = the_comparison(events)
    assert (found["planned"], found["rank_missing"]) == (None, "plan_exceeded")
    assert found["pairs"][0]["pairs"] == 2


def test_a_comparison_that_waits_is_taken_later_and_only_if_it_differs() -> None:
    pipeline = Pipeline()
    events = [PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)]
    for record in records(events):
        pipeline.fold([record])
        update = pipeline.run("run-1").take_changes(comparison=False)
        assert update.tasks is None
        assert all(change.kind != "comparison" for change in update.summaries)
    run = pipeline.run("run-1")
    assert run.comparison_waits
    update = run.take_changes()
    assert [change.kind for change in update.summaries] == ["comparison"]
    assert update.tasks == run.comparisons.tasks_taken
    assert not run.comparison_waits
    assert (run.take_changes().summaries, run.take_changes().tasks) == ([], None)
