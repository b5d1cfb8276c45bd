"""Two agents matched trial by trial: against the worker's own comparison, and in any order of events."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.folding.pairs import Contestant
from streamer.folding.pairs.contest import Matched, Unmatched
from streamer.schemas.base import GroupId
from streamer.statistics.final import FinalMissing
from streamer.statistics.pairs import Attempts, Pair, PairedTask, final_difference
from tests.folding import compared
from tests.folding.matched import ORDER, TASKS, both, side, the_plan, trial
from tests.support.events import a_plan, a_start, an_end, folded
from tests.support.examples import examples

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
def test_unnamed_tasks_are_common_as_far_as_they_can_be(
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
