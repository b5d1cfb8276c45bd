"""Every two agents counted and ranked, against a batch oracle of pure functions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.pairs import (
    Attempts,
    Pair,
    PairedTask,
    evidence_worse,
    final_difference,
    paired,
    places,
)
from tests.aggregate.compared import (
    AGENTS,
    END,
    ORDER,
    PLAN,
    TASKS,
    Event,
    ranks,
    the_comparison,
    trial,
)
from tests.support.events import a_plan, a_start
from tests.support.examples import examples

outcomes = st.dictionaries(
    st.tuples(st.sampled_from(AGENTS), st.sampled_from(TASKS)), st.booleans(), max_size=36
)


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


def test_unequal_attempts_rank_nobody() -> None:
    """Without a plan an agent may have run more often. It passes all, and the other one none."""

    def run(more: int) -> Event:
        done = [trial(a, task, a == "a") for a in ("a", "b") for task in TASKS]
        done += [trial("a", task, passed=True, attempt=2) for task in TASKS[:more]]
        return the_comparison([*done, END])

    assert ranks(run(12)) == ranks(run(7)) == {"a": (1, 2), "b": (1, 2)}
    assert ranks(run(6)) == ranks(run(0)) == {"a": (1, 1), "b": (2, 2)}
    assert run(12)["pairs"][0]["wins"] == 12


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
    pairs = [PairedTask(Attempts(3, sum(ours)), Attempts(3, sum(theirs))) for ours, theirs in both]
    oracle = paired(pairs)
    assert found["pairs"][0]["wins"] - found["pairs"][0]["losses"] == round((oracle.difference or 0) * 36)
    assert found["ended"]
    assert oracle.p_value is not None
    decided = oracle.p_value / 2 <= 0.025  # one side of the two-sided test, Holm over two directions
    first = ranks(found)["a"]
    assert (first in ((1, 1), (2, 2))) is decided


def test_more_trials_than_planned_count_as_seen() -> None:
    events = [a_plan(tasks=1, attempts=1), *(trial(a, t, passed=True) for a in "ab" for t in ("x", "y"))]
    found = the_comparison(events)
    assert (found["planned"], found["rank_missing"]) == (None, "plan_exceeded")
    assert found["pairs"][0]["pairs"] == 2
