"""The trials of agents task by task: which are pairs, what is known, what leaves no trace."""

from __future__ import annotations

from hashlib import sha256

from streamer.folding.pairs import Pairing, by_place
from tests.aggregate.compared import (
    END,
    PLAN,
    tasks_of,
    the_comparison,
    trial,
)
from tests.support.events import a_plan, a_retraction, a_start


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


def test_what_was_retracted_leaves_no_trace() -> None:
    kept = [PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)]
    gone = [trial("c", "t2", passed=True), a_retraction(task_id="t2", agent="c", model="m", revision=5)]
    found, plain = the_comparison([*kept, *gone]), the_comparison(kept)
    assert found["digest"] == plain["digest"]
    assert tasks_of([*kept, *gone]) == tasks_of(kept)


def test_trials_of_one_place_follow_a_hash_and_never_their_names() -> None:
    tied = [Pairing(name, 1, None, None) for name in "abcdef"]
    hashed = sorted(tied, key=lambda one: sha256(f"r\0{one}".encode()).digest())
    assert hashed not in (tied, tied[::-1])
    for given in (tied, tied[::-1]):
        assert by_place("r", [(one, 2) for one in given], 8, {1}) == [None, *hashed]
