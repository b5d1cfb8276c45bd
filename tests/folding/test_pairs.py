"""One side of a gate: its trials and their order; and two agents matched trial by trial."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.folding.pairs import Contestant, by_place
from streamer.folding.pairs.contest import Matched, Unmatched
from streamer.schemas.base import GroupId
from streamer.statistics.final import FinalMissing
from streamer.statistics.pairs import Attempts, Ends, Pair, PairedTask, Pairing, final_difference
from tests.folding import compared
from tests.folding.compared import END, tasks_of, the_comparison
from tests.folding.compared import trial as trial_of_tasks
from tests.folding.matched import ORDER, TASKS, both, side, the_plan, trial
from tests.support.events import Event, a_plan, a_start, a_trial, an_end, folded
from tests.support.examples import examples


def ours(*events: Event, **options: Any) -> Contestant:
    return side(events, "r", "a", **options)


def of_a(task: str, passed: bool | None = True, **fields: Any) -> Event:
    return trial("r", "a", task, passed, **fields)


PLAN, COUNTED, OVER = the_plan("r"), the_plan("r", tasks=20, order=None), an_end(run_id="r")
SUBTESTS = the_plan("r", tasks=["x"], order=None, tiers=["T0"], subtests={"T0": 4})
TIERS = a_plan(run_id="r", tasks=["x", "y"], attempts=1, tiers=["T0", "T1"])
TWICE, THRICE = (a_plan(run_id="r", tasks=tasks, attempts=n) for tasks, n in ((["x", "y"], 2), (["x"], 3)))
FIVE, ALL = [of_a(task) for task in TASKS[:5]], [of_a(task) for task in TASKS]
JUDGED = [the_plan("r", tasks=12, order=None, attempts=None), *FIVE[:3], OVER]
JUDGED += [of_a(task, None, metrics={"loss": 0.5}) for task in TASKS[3:12]]
"""R31: tasks with numbers alone are left out of the pairs, but they came, so they have names too."""


@pytest.mark.parametrize(
    ("events", "names", "values"),
    [
        ([PLAN, ALL[3]], "known passed declared over all_named", (1, 1, 20, False, True)),
        ([COUNTED, ALL[3]], "declared all_named", (20, False)),
        ([COUNTED, *FIVE, OVER], "over known unnamed", (True, 5, 15)),
        ([COUNTED | {"attempts": None}, *FIVE, OVER], "over known unnamed", (True, 5, 15)),
        ([SUBTESTS, of_a("x", tier="T0", subtest="1"), OVER], "declared unnamed", (4, 3)),
        ([PLAN, *FIVE, OVER], "unnamed", (0,)),
        (JUDGED, "unnamed", (0,)),
        ([the_plan("r", tasks=4, attempts=3, order=None), of_a("x")], "declared unnamed", (12, 3)),
        ([TIERS, of_a("x", tier="T0", subtest="s")], "all_named", (False,)),
        ([a_plan(run_id="r", tasks=1, attempts=1), *FIVE[:2]], "exceeded declared", (True, None)),
        ([PLAN, *ALL], "over", (True,)),
        ([PLAN, *FIVE[:1]], "over", (False,)),
        ([*FIVE[:1], OVER], "over", (True,)),
        (FIVE[:1], "over", (False,)),
    ],
)
def test_a_side_knows_what_is_declared_named_and_over(
    events: list[Event], names: str, values: tuple[Any, ...]
) -> None:
    result = ours(*events)
    assert tuple(getattr(result, name) for name in names.split()) == values
    assert ours(*events, fixed=True).over


@pytest.mark.parametrize(
    ("events", "outcomes"),
    [
        ([PLAN, ALL[3]], {(None, task, 1) for task in TASKS}),
        ([COUNTED, ALL[3]], {(None, "t03", 1)}),
        (JUDGED, {(None, task, 1) for task in TASKS[:3]}),
        ([the_plan("r", tasks=4, attempts=3, order=None), of_a("x")], {(None, "x", n) for n in (1, 2, 3)}),
        ([TIERS, of_a("x", tier="T0")], {(tier, task, 1) for tier in ("T0", "T1") for task in "xy"}),
        ([TIERS, of_a("x", tier="T0", subtest="s")], {("T0", "x", 1)}),
        ([THRICE, of_a("x", attempt=3)], {(None, "x", n) for n in (1, 2, 3)}),
        ([TWICE, of_a("x", shard="w1")], {(None, task, n) for task in "xy" for n in (1, 2)}),
        (
            [TWICE, of_a("x", shard="w1"), of_a("y", shard="w2", attempt=2)],
            {(None, task, n) for task in "xy" for n in (1, 2)},
        ),
    ],
    ids=["named", "counted", "R31: numbers", "attempts", "tiers", "subtests", "repeats", "a shard", "shards"],
)
def test_trials_that_the_plan_names_are_outcomes_before_they_begin(
    events: list[Event], outcomes: set[tuple[str | None, str, int]]
) -> None:
    assert {(one.tier, one.task_id, one.attempt) for one in ours(*events).outcomes} == outcomes


def test_repeats_are_numbered_in_the_order_of_their_shards() -> None:
    by_shard = ours(THRICE, *(of_a("x", shard == "b", shard=shard) for shard in "cba"))
    three = [Pairing("x", number, None, None) for number in (1, 2, 3)]
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


def test_what_is_still_possible_is_exact() -> None:
    result = ours(PLAN, of_a("t00"), of_a("t01", False)).reach()
    assert result == Ends(Fraction(1, 20), Fraction(19, 20))
    assert ours(a_plan(run_id="r", tasks=1, attempts=1), *FIVE[:2]).reach() is None


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
    for listed in (tied, tied[::-1]):
        assert by_place("r", [(one, 2) for one in listed], 8, {1}) == [None, *hashed]


# -----------------------------------------------------------------------------
# Two agents matched trial by trial: against the worker's own comparison, and in any order of events.


OUTCOMES = st.dictionaries(
    st.tuples(st.sampled_from(compared.AGENTS), st.sampled_from(compared.TASKS)), st.booleans(), max_size=36
)


KNOWN_WITHOUT_A_PLACE = {
    ("b", "t2"): False,
    ("b", "t4"): False,
    ("b", "t5"): False,
    ("a", "t1"): True,
    ("a", "t2"): True,
    ("a", "t3"): True,
    ("b", "t1"): False,
    ("b", "t3"): False,
}
"""Agent a began later; two tasks of b have no place in a's order yet."""


@examples(60)
@example(KNOWN_WITHOUT_A_PLACE, True)
@given(OUTCOMES, st.booleans())
def test_two_agents_of_a_run_have_the_difference_that_the_worker_publishes(
    known: dict[tuple[str, str], bool], by_starts: bool
) -> None:
    events = [compared.PLAN, *(compared.trial(a, task, passed) for (a, task), passed in known.items())]
    events += [compared.trial(agent, "t0", False) for agent in compared.AGENTS]
    if by_starts:
        plan = {name: value for name, value in compared.PLAN.items() if name != "order"}
        starts = [
            a_start(task_id=event["task_id"], agent=event["agent"], model="m", position=place)
            for place, event in enumerate(events[1:])
        ]
        events = [plan, *starts, *events[1:]]
    run = folded(events)[0].run("run-1")
    published = compared.the_comparison(events)
    for pair, (a, b) in zip(published["pairs"], combinations(compared.AGENTS, 2), strict=True):
        result = Matched(*(Contestant(run.state, GroupId(None, agent, "m")) for agent in (a, b)))
        assert result.planned == pair["pairs"]
        known_pairs = sum(None not in one for one in result.pairs)
        assert result.planned - known_pairs == pair["unknown"]
        assert result.order_missing == pair["final_missing"] or pair["final_missing"] == "empty"
        if pair["final"]:
            assert result.ordered is not None
            ends = final_difference(result.ordered, result.planned, every=result.pairs)
            assert (ends.low, ends.high) == (pair["final"]["low"], pair["final"]["high"])


@examples(40)
@given(st.data())
def test_the_order_of_events_and_duplicates_never_matter(data: st.DataObject) -> None:
    known = data.draw(st.dictionaries(st.sampled_from(TASKS), st.booleans()))
    events = [the_plan("r"), the_plan("s"), *(trial("r", "a", task, p) for task, p in known.items())]
    events += [trial("s", "b", task, task < "t11") for task in TASKS]
    shuffled = data.draw(st.permutations([*events, *events[:5]]))
    first, second = both(events), both(shuffled)
    assert (first.ordered, first.planned, first.tasks) == (second.ordered, second.planned, second.tasks)
    assert sorted(first.pairs, key=str) == sorted(second.pairs, key=str)


def test_a_pair_is_the_same_task_in_the_order_of_the_side_that_began_later() -> None:
    plans = [
        the_plan("r", started_at="2026-02-01T00:00:00Z"),
        the_plan("s", started_at="2026-01-01T00:00:00Z", order=TASKS, order_kind="chosen"),
    ]
    done = [trial("s", "b", task, True) for task in TASKS] + [trial("r", "a", ORDER[0], False)]
    done = [one | {"started_at": "2026-02-02T00:00:00Z"} for one in done]
    result = both([*plans, *done])
    assert result.ordered == [Pair(False, True), *[Pair(None, True)] * 19]
    assert (result.kind, result.unmatched, result.over) == ("shuffled", None, False)
    later = [the_plan("r", started_at="2025-01-01T00:00:00Z"), plans[1]]
    assert both([*later, *done]).order_missing is FinalMissing.ORDER_CHOSEN


def test_without_a_start_our_own_order_counts() -> None:
    result = both([the_plan("r"), the_plan("s", order_kind="chosen", started_at="2026-01-01T00:00:00Z")])
    assert (result.kind, result.unmatched) == ("shuffled", None)


def test_what_is_not_common_is_listed_and_left_out() -> None:
    plans = [the_plan("r", tasks=[*TASKS, "new"], order=[*ORDER, "new"]), the_plan("s", order=None)]
    result = both([*plans, trial("s", "b", "t00", True)])
    assert (result.planned, result.only_ours, result.only_theirs) == (20, [(None, None, "new")], [])
    assert result.ordered is not None
    assert len(result.ordered) == 20


def test_a_finished_side_without_a_plan_is_fixed_numbers() -> None:
    finished = [*(trial("s", "b", task, True) for task in TASKS[:5]), an_end(run_id="s")]
    result = both([the_plan("r"), *finished])
    assert (result.planned, result.unmatched, len(result.only_ours)) == (5, None, 15)


@pytest.mark.parametrize(
    ("ours", "theirs", "unseen"),
    [
        (("t00", "t01"), (), 20),
        (("t00", "t01"), TASKS, 18),
        (("t00", "t01"), TASKS[:5], 18),
        (TASKS[:15], TASKS[15:], 20),
        (TASKS, (), 20),
        (TASKS, TASKS, 0),
    ],
)
def test_unnamed_tasks_are_common_where_possible(
    ours: tuple[str, ...], theirs: tuple[str, ...], unseen: int
) -> None:
    plans = [the_plan(run, tasks=20, order=None) for run in "rs"]
    done = [trial("r", "a", task, True) for task in ours] + [trial("s", "b", task, True) for task in theirs]
    result = both([*plans, *done], fixed=True)
    assert (result.planned_tasks - len(result.tasks), result.planned - len(result.pairs)) == (unseen, unseen)
    assert (result.planned_tasks, result.ended) == (20, not unseen)
    assert (result.only_ours, result.only_theirs) == ([], [])


def test_unnamed_tasks_are_not_common_with_a_side_that_has_fixed_ones() -> None:
    done = [trial(run, agent, task, True) for run, agent in ("ra", "sb") for task in TASKS[:5]]
    result = both([the_plan("r", tasks=20, order=None), *done], fixed=True)
    assert (result.planned, result.planned_tasks, result.ended) == (5, 5, True)


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        ({"tasks": ["x"], "order": ["x"]}, {}, Unmatched.NOTHING_IN_COMMON),
        ({"tasks": 20}, {}, Unmatched.TASKS_UNNAMED),
        ({"tasks": 0}, {}, Unmatched.PLAN_EXCEEDED),
    ],
)
def test_what_does_not_match_is_compared_at_the_end_only(
    ours: dict[str, object], theirs: dict[str, object], reason: Unmatched
) -> None:
    seen = [trial("r", "a", "x", True)] if reason is Unmatched.PLAN_EXCEEDED else []
    result = both([the_plan("r", **ours), the_plan("s", **theirs), *seen])
    assert (result.unmatched, result.pairs, result.ordered) == (reason, [], None)


def test_it_has_ended_when_all_common_trials_have_final_values() -> None:
    plans = [the_plan("r"), the_plan("s")]
    done = [trial(run, agent, task, True) for run, agent in (("r", "a"), ("s", "b")) for task in TASKS]
    assert both([*plans, *done]).ended
    assert not both([*plans, *done[1:]]).ended
    assert not both([*plans, *done[1:]], fixed=True).ended
    assert both([*plans, *done[1:]], fixed=True).over


def test_of_unequal_attempts_the_numbers_that_both_plan_are_the_pairs() -> None:
    rounds = [(task, attempt) for attempt in (1, 2, 3) for task in ORDER]
    plans = [the_plan("r", attempts=3, order=rounds), the_plan("s")]
    done = [trial("s", "b", task, True) for task in TASKS]
    done += [trial("r", "a", ORDER[0], False, attempt=n) for n in (1, 2, 3)]
    result = both([*plans, *done])
    assert (result.planned, result.unpaired, result.unmatched) == (20, 40, None)
    assert result.ordered == [Pair(False, True), *[Pair(None, True)] * 19]
    assert result.tasks[None, None, ORDER[0]] == PairedTask(Attempts(3, 0), Attempts(1, 1))


def test_two_agents_of_a_run_share_its_plan_even_where_it_names_no_task() -> None:
    plan = a_plan(run_id="r", tasks=20, attempts=1)
    events = [plan, trial("r", "a", "x", True), trial("r", "b", "y", True)]
    run = folded(events)[0].run("r").state
    result = Matched(*(Contestant(run, GroupId(None, agent, "m")) for agent in ("a", "b")))
    assert (result.unmatched, result.planned, result.planned_tasks, len(result.tasks)) == (None, 20, 20, 2)
    assert (result.only_ours, result.only_theirs) == ([], [])
    assert side(events, "r", "a").declared == 20
