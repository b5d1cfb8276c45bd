"""Places of many agents: Holm's method, and how many losses show that an agent is worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from math import comb
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import (
    Attempts,
    Direction,
    e_value,
    least_losses,
    least_losses_at_end,
    places,
    places_at_end,
)
from tests.support.examples import examples

LEVELS = [ALPHA, ALPHA / 2, ALPHA / 6, ALPHA / 870, Fraction(1, 2)]


def shown_by(p_values: Mapping[Direction, float]) -> Callable[[Fraction], list[Direction]]:
    return lambda level: [pair for pair, p in p_values.items() if p <= level]


@pytest.mark.parametrize("level", LEVELS)
def test_the_least_losses_are_those_whose_e_value_reaches_the_level(level: Fraction) -> None:
    for n, least in enumerate(least_losses(64, level)):
        reached = [
            losses
            for losses in range(n + 1)
            if Fraction(sum(comb(n + 1, j) for j in range(losses + 1)), (n + 1) * comb(n, losses))
            >= 1 / level
        ]
        assert reached == list(range(least, n + 1))


@pytest.mark.parametrize("level", LEVELS)
def test_at_the_end_the_least_losses_are_those_of_the_sign_test(level: Fraction) -> None:
    for n, least in enumerate(least_losses_at_end(64, level)):
        tails = [Fraction(sum(comb(n, j) for j in range(losses, n + 1)), 2**n) for losses in range(n + 1)]
        assert [losses for losses, tail in enumerate(tails) if tail <= level] == list(range(least, n + 1))


def test_the_published_e_values_show_at_their_levels() -> None:
    """(10, 30): 63.228; (0, 8): 56.778; seven straight losses: 31.875."""
    for wins, losses in ((10, 30), (0, 8), (0, 7)):
        reached = Fraction(e_value(wins, losses))
        for level, shows in ((1 / (reached - 1), True), (1 / (reached + 1), False)):
            assert (losses >= least_losses(wins + losses, level)[-1]) is shows


def test_places_follow_holm_over_all_directions() -> None:
    """Six directions: .05/6 = .0083, .05/5 = .01, .05/4 = .0125. The third fails, and all behind it."""
    p_values = {("c", "a"): 0.008, ("c", "b"): 0.0099, ("b", "a"): 0.0126, ("a", "b"): 0.0127}
    assert places("abc", shown_by(p_values)) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    del p_values["a", "b"]
    decided = shown_by(p_values | {("b", "a"): 0.0124})
    assert places("abc", decided) == {"a": (1, 1), "b": (2, 2), "c": (3, 3)}
    both = shown_by({("a", "b"): 0.001, ("b", "a"): 0.001})
    assert places("ab", both) == {"a": (1, 2), "b": (1, 2)}
    assert places("abc", shown_by({})) == dict.fromkeys("abc", (1, 3))
    assert places(["alone"], shown_by({})) == {"alone": (1, 1)}


@examples(200)
@given(
    st.dictionaries(
        st.sampled_from([pair for pair in product("abcd", repeat=2) if pair[0] != pair[1]]),
        st.sampled_from([0.001, 0.004, 0.0045, 0.006, 0.01, 0.02, 0.05, 0.2]),
    )
)
def test_places_reject_one_direction_after_the_other(p_values: dict[Direction, float]) -> None:
    """Against Holm's own words: the smallest p at alpha/m, the next at alpha/(m-1), until one fails."""
    rejected: set[Direction] = set()
    for number, (pair, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if Fraction(p) * (12 - number) > ALPHA:
            break
        rejected.add(pair)
    found = places("abcd", shown_by(p_values))
    for agent in "abcd":
        behind = sum((agent, other) in rejected and (other, agent) not in rejected for other in "abcd")
        ahead = sum((other, agent) in rejected and (agent, other) not in rejected for other in "abcd")
        assert found[agent] == (1 + behind, 4 - ahead)


PASSED, FAILED, UNKNOWN = Attempts(1, 1), Attempts(1, 0), Attempts(0, 0, 1)


def tasks(*trials: Attempts) -> dict[str, list[Attempts]]:
    """One run."""
    return {f"t{number}": [one] for number, one in enumerate(trials)}


@pytest.mark.parametrize(("differing", "told_apart"), [(5, False), (6, True)])
def test_two_agents_are_told_apart_from_six_tasks_that_differ_one_way(
    differing: int, told_apart: bool
) -> None:
    """Two directions, so the first is asked at .025: 2^-5 is above it, and 2^-6 below."""
    same = [PASSED, FAILED] * 3
    found = places_at_end(
        {"a": tasks(*same, *[PASSED] * differing), "b": tasks(*same, *[FAILED] * differing)}
    )
    assert found == {"a": (1, 1), "b": (2, 2)} if told_apart else {"a": (1, 2), "b": (1, 2)}


def test_an_unknown_trial_counts_against_both_claims() -> None:
    """Six sure losses with one task that may yet be a win: p = 8/128 = .0625."""
    agents = {"a": tasks(*[PASSED] * 6, FAILED), "b": tasks(*[FAILED] * 6, UNKNOWN)}
    assert places_at_end(agents) == {"a": (1, 2), "b": (1, 2)}
    agents["b"]["t6"] = [FAILED]
    assert places_at_end(agents) == {"a": (1, 1), "b": (2, 2)}


def test_agents_without_a_common_task_are_never_told_apart() -> None:
    apart = {"a": {f"a{n}": [PASSED] for n in range(20)}, "b": {f"b{n}": [FAILED] for n in range(20)}}
    assert places_at_end(apart) == {"a": (1, 2), "b": (1, 2)}
    assert places_at_end({}) == {}
    assert places_at_end({"a": tasks(PASSED)}) == {"a": (1, 1)}


TOLD_APART, NOT_TOLD_APART = {"a": (1, 1), "b": (2, 2)}, {"a": (1, 2), "b": (1, 2)}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([Attempts(3, 2)], [Attempts(3, 1)], TOLD_APART),
        ([Attempts(3, 3)], [Attempts(2, 0)], NOT_TOLD_APART),
        ([Attempts(2, 2), Attempts(1, 1)], [FAILED, FAILED], TOLD_APART),
        ([PASSED, FAILED, FAILED], [FAILED], TOLD_APART),
        ([FAILED, PASSED, PASSED], [FAILED], NOT_TOLD_APART),
        ([PASSED, FAILED], [FAILED, PASSED], NOT_TOLD_APART),
        ([Attempts(5, 5)], [FAILED] * 4, NOT_TOLD_APART),
    ],
)
def test_as_many_of_the_newest_runs_count_as_give_equal_attempts(
    a: list[Attempts], b: list[Attempts], expected: dict[str, tuple[int, int]]
) -> None:
    names = "abcdefgh"
    assert places_at_end({"a": dict.fromkeys(names, a), "b": dict.fromkeys(names, b)}) == expected
    mirrored = places_at_end({"b": dict.fromkeys(names, b), "a": dict.fromkeys(names, a)})
    assert mirrored == expected


@pytest.mark.parametrize("runs", [([1], [5]), ([1], [1] * 5), ([1], [1] * 2), ([2, 1, 3], [1, 1, 1])])
def test_equal_agents_with_unequal_attempts_keep_all_places(runs: tuple[list[int], list[int]]) -> None:
    """89 tasks at 20 %. At most 5 % of boards may leave out a place of either agent."""
    random, boards = Random(3), 200

    def agent(attempts: list[int]) -> dict[str, list[Attempts]]:
        return {
            f"t{task}": [Attempts(n, sum(random.random() < 0.2 for _ in range(n))) for n in attempts]
            for task in range(89)
        }

    wrong = sum(
        places_at_end({"a": agent(runs[0]), "b": agent(runs[1])}) != NOT_TOLD_APART for _ in range(boards)
    )
    assert wrong <= boards * 0.05
