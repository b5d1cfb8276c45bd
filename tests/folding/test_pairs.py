"""One side of a gate: which trials it has, and in which order."""

from __future__ import annotations

from hashlib import sha256

import pytest

from streamer.folding.pairs import by_place
from streamer.statistics.final import FinalMissing
from streamer.statistics.pairs import Attempts, Ends, Pairing
from tests.folding.compared import END, tasks_of, the_comparison
from tests.folding.compared import trial as trial_of_tasks
from tests.folding.matched import ORDER, TASKS, side, the_plan, trial
from tests.support.events import a_plan, a_start, a_trial, an_end


def test_a_plan_that_names_its_tasks_lists_trials_that_have_not_begun() -> None:
    result = side([the_plan("r"), trial("r", "a", "t03", True)], "r", "a")
    assert sorted(one.task_id for one in result.outcomes) == TASKS
    assert (result.known, result.passed, result.declared, result.over) == (1, 1, 20, False)
    assert result.all_named


def test_a_plan_that_only_counts_its_tasks_names_none() -> None:
    result = side([the_plan("r", tasks=20, order=None), trial("r", "a", "t03", True)], "r", "a")
    assert (len(result.outcomes), result.declared, result.all_named) == (1, 20, False)


def test_planned_tasks_without_a_name_are_unknown_also_after_the_end() -> None:
    seen = [trial("r", "a", task, True) for task in TASKS[:5]]
    end = an_end(run_id="r")
    for plan in ({"tasks": 20, "order": None}, {"tasks": 20, "order": None, "attempts": None}):
        result = side([the_plan("r", **plan), *seen, end], "r", "a")
        assert (result.over, result.known, result.unnamed) == (True, 5, 15)
    subtests = the_plan("r", tasks=["x"], order=None, tiers=["T0"], subtests={"T0": 4})
    result = side([subtests, trial("r", "a", "x", True, tier="T0", subtest="1"), end], "r", "a")
    assert (result.declared, result.unnamed) == (4, 3)
    assert side([the_plan("r"), *seen, end], "r", "a").unnamed == 0


def test_tasks_with_numbers_alone_have_names_too() -> None:
    """R31: they are left out of the pairs, but they came."""
    plan = the_plan("r", tasks=12, order=None, attempts=None)
    judged = [trial("r", "a", task, True) for task in TASKS[:3]]
    numbers = [trial("r", "a", task, None, metrics={"loss": 0.5}) for task in TASKS[3:12]]
    result = side([plan, *judged, *numbers, an_end(run_id="r")], "r", "a")
    assert (len(result.outcomes), result.unnamed) == (3, 0)


def test_a_counted_plan_names_the_missing_attempts_at_tasks_that_were_seen() -> None:
    result = side([the_plan("r", tasks=4, attempts=3, order=None), trial("r", "a", "x", True)], "r", "a")
    assert set(result.outcomes) == {Pairing("x", number, None, None) for number in (1, 2, 3)}
    assert (result.declared, result.unnamed) == (12, 3)


def test_planned_tiers_multiply_the_tasks_and_subtests_without_names_hide_them() -> None:
    plan = a_plan(run_id="r", tasks=["x", "y"], attempts=1, tiers=["T0", "T1"])
    done = trial("r", "a", "x", True, tier="T0")
    result = side([plan, done], "r", "a")
    assert {(one.tier, one.task_id) for one in result.outcomes} == {
        (tier, task) for tier in ("T0", "T1") for task in "xy"
    }
    hidden = side([plan, trial("r", "a", "x", True, tier="T0", subtest="s")], "r", "a")
    assert (len(hidden.outcomes), hidden.all_named) == (1, False)


def test_repeats_are_numbered_by_the_harness_or_in_the_order_of_their_shards() -> None:
    plan = a_plan(run_id="r", tasks=["x"], attempts=3)
    numbered = side([plan, trial("r", "a", "x", True, attempt=3)], "r", "a")
    three = [Pairing("x", number, None, None) for number in (1, 2, 3)]
    assert set(numbered.outcomes) == set(three)
    shards = [trial("r", "a", "x", shard == "b", shard=shard) for shard in "cba"]
    by_shard = side([plan, *shards], "r", "a")
    assert [by_shard.outcome(one) for one in three] == [False, True, False]


def test_a_repeat_has_no_number_until_the_names_of_all_are_known() -> None:
    """inference 3: a rank among the trials so far would depend on which trials are fast."""
    plan = the_plan("r", tasks=["x"], attempts=3, order=None)
    two = [trial("r", "a", "x", True, shard=shard, position=at) for at, shard in enumerate("bc")]
    early = side([plan, *two], "r", "a")
    assert (early.known, early.attempts((None, None, "x"))) == (2, Attempts(2, 2, 1))
    assert {early.outcome(one) for one in early.outcomes} == {None}
    assert early.ordered(early.outcomes, 3, 3) is None
    last = a_start(run_id="r", agent="a", model="m", task_id="x", shard="a", position=2)
    complete = side([plan, *two, last], "r", "a")
    first, *others = (Pairing("x", number, None, None) for number in (1, 2, 3))
    assert complete.outcome(first) is None
    assert [complete.outcome(one) for one in others] == [True, True]


def test_attempts_of_a_run_with_shards_that_numbers_them_are_named_by_number() -> None:
    plan = a_plan(run_id="r", tasks=["x", "y"], attempts=2)
    numbered = {Pairing(task, number, None, None) for task in "xy" for number in (1, 2)}
    one = side([plan, trial("r", "a", "x", True, shard="w1")], "r", "a")
    later = [trial("r", "a", task, True, shard=f"w{n}", attempt=n) for task, n in (("x", 1), ("y", 2))]
    assert set(one.outcomes) == set(side([plan, *later], "r", "a").outcomes) == numbered


@pytest.mark.parametrize(
    ("events", "fixed", "over"),
    [
        ([the_plan("r"), *(trial("r", "a", task, True) for task in TASKS)], False, True),
        ([the_plan("r"), trial("r", "a", "t00", True)], False, False),
        ([the_plan("r"), trial("r", "a", "t00", True)], True, True),
        ([trial("r", "a", "t00", True), an_end(run_id="r")], False, True),
        ([trial("r", "a", "t00", True)], False, False),
    ],
)
def test_a_side_is_over_once_nothing_more_is_awaited(events: list[dict], fixed: bool, over: bool) -> None:
    assert side(events, "r", "a", fixed=fixed).over is over


def test_more_trials_than_planned_leave_no_plan() -> None:
    result = side(
        [a_plan(run_id="r", tasks=1, attempts=1), *(trial("r", "a", t, True) for t in "xy")], "r", "a"
    )
    assert (result.exceeded, result.declared, result.reach()) == (True, None, None)


def test_what_is_still_possible_is_exact() -> None:
    events = [the_plan("r"), trial("r", "a", "t00", True), trial("r", "a", "t01", False)]
    result = side(events, "r", "a").reach()
    assert result is not None
    assert result == Ends(result.low, result.high)
    assert (result.low * 20, result.high * 20) == (1, 19)


def test_the_queue_orders_all_trials_and_starts_order_those_that_began() -> None:
    queue = side([the_plan("r")], "r", "a")
    expected = queue.outcomes
    ordered = queue.ordered(expected, 20, 20)
    assert ordered is not None
    assert [one and one.task_id for one in ordered] == ORDER
    starts = [
        a_start(run_id="r", agent="a", model="m", task_id=task, position=at)
        for task, at in (("t05", 0), ("t01", 3))
    ]
    started = side([the_plan("r", order=None), *starts], "r", "a").ordered(expected, 20, 20)
    assert started is not None
    assert [one and one.task_id for one in started] == ["t05", None, None, "t01"]


def test_a_trial_without_a_place_or_a_grown_plan_leaves_no_order() -> None:
    without = side([the_plan("r", order=None), trial("r", "a", "t00", True)], "r", "a")
    assert without.ordered(without.outcomes, 20, 20) is None
    assert without.order_missing() is FinalMissing.ORDER_UNKNOWN_IN_PART
    grown = side([the_plan("r"), the_plan("r", revision=1, tasks=[*TASKS, "late"])], "r", "a")
    assert grown.ordered(grown.outcomes, 21, 21) is None


def test_values_of_a_metric_are_those_that_trials_have() -> None:
    plain = {"run_id": "r", "agent": "a", "model": "m"}
    events = [a_trial(**plain, task_id="x", metrics={"reward": 0.5}), a_trial(**plain, task_id="y")]
    result = side(events, "r", "a")
    assert result.values("metrics/reward") == {(None, None, "x"): [0.5]}
    assert result.values("metrics/absent") == {}
    assert result.mean_cost() is None


# -----------------------------------------------------------------------------
# The trials of agents task by task: which are pairs, what is known, what leaves no trace.


def test_repeats_that_only_shards_tell_apart_are_paired() -> None:
    """As Harbor names them: each trial has a name of its own, and attempt 1."""
    plan = a_plan(tasks=["x", "y"], attempts=2)
    done = [
        trial_of_tasks(agent, task, agent == "a", shard=f"{task}__{agent}{number}")
        for agent in ("a", "b")
        for task in ("x", "y")
        for number in range(2)
    ]
    [pair] = the_comparison([plan, *done])["pairs"]
    assert (pair["pairs"], pair["wins"], pair["losses"], pair["unknown"]) == (4, 4, 0, 0)
    assert tasks_of([plan, *done]) == {task: {"a:m": [2, 2, 0], "b:m": [2, 0, 0]} for task in ("x", "y")}


def test_pairs_of_repeats_are_unknown_until_their_names_are_known() -> None:
    plan = a_plan(tasks=["x"], attempts=2)
    one = trial_of_tasks("a", "x", passed=True, shard="x__b1")
    two = [trial_of_tasks("b", "x", passed=False, shard=f"x__{name}") for name in ("c1", "c2")]
    [pair] = the_comparison([plan, one, *two])["pairs"]
    assert (pair["wins"], pair["losses"], pair["unknown"]) == (0, 0, 2)
    assert tasks_of([plan, one, *two]) == {"x": {"a:m": [1, 1, 1], "b:m": [2, 0, 0]}}
    begun = a_start(task_id="x", agent="a", model="m", shard="x__a9")
    [pair] = the_comparison([plan, one, *two, begun])["pairs"]
    assert (pair["wins"], pair["losses"], pair["unknown"]) == (1, 0, 1)


def test_tasks_say_what_is_known_of_each_agent() -> None:
    events = [
        a_plan(tasks=["a/b", "y"], attempts=2),
        trial_of_tasks("a", "a/b", passed=True),
        trial_of_tasks("b", "a/b", passed=False, attempt=2),
        a_start(task_id="y", agent="a", model="m"),
    ]
    assert tasks_of(events) == {"a%2Fb": {"a:m": [1, 1, 1], "b:m": [1, 0, 1]}, "y": {"a:m": [0, 0, 2]}}
    tiered = [
        trial_of_tasks("a", "x", passed=True, tier="T0", subtest="s|1"),
        trial_of_tasks("a", "x", passed=True, tier="T1"),
    ]
    assert tasks_of(tiered) == {"T0|s%7C1|x": {"a:m": [1, 1, 0]}, "T1||x": {"a:m": [1, 1, 0]}}


def test_a_trial_that_may_run_again_is_unknown_until_the_run_has_finished() -> None:
    crashed = trial_of_tasks("a", "x", passed=False, failure_mode="infrastructure_error")
    other = trial_of_tasks("b", "x", passed=True)
    events = [
        a_plan(tasks=["x"], attempts=1, infrastructure_failures=["infrastructure_error"]),
        crashed,
        other,
    ]
    assert the_comparison(events)["pairs"][0]["unknown"] == 1
    assert the_comparison([*events, END])["pairs"][0]["losses"] == 1


def test_trials_of_one_place_follow_a_hash_and_never_their_names() -> None:
    tied = [Pairing(name, 1, None, None) for name in "abcdef"]
    hashed = sorted(tied, key=lambda one: sha256(f"r\0{one}".encode()).digest())
    assert hashed not in (tied, tied[::-1])
    for given in (tied, tied[::-1]):
        assert by_place("r", [(one, 2) for one in given], 8, {1}) == [None, *hashed]
