"""The checks of an order: what they catch, and how often a shuffled order fails them."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations
from math import comb, sqrt

import pytest

from streamer.statistics.exact import normal
from streamer.statistics.final import (
    DIFFICULTY_LEVEL,
    OUTCOME_LEVEL,
    Outcome,
    _centred,
    follows_difficulty,
    follows_outcome,
)

TASKS = [f"t{number}" for number in range(89)]


def test_an_order_by_declared_difficulty_is_caught_in_both_directions() -> None:
    difficulty = {task: number / 89 for number, task in enumerate(TASKS)}
    assert follows_difficulty(TASKS, difficulty)
    assert follows_difficulty(TASKS[::-1], difficulty)


def test_an_order_that_only_leans_towards_difficulty_is_caught() -> None:
    choice = random.Random(7)
    difficulty = {task: number / 89 + choice.uniform(0, 1) for number, task in enumerate(TASKS)}
    assert follows_difficulty(TASKS, difficulty)


def test_shuffled_orders_fail_in_one_percent() -> None:
    choice = random.Random(18)
    difficulty = {task: choice.choice([0.0, 0.1, 0.5, 1.0]) for task in TASKS}
    failed = sum(follows_difficulty(choice.sample(TASKS, 89), difficulty) for _ in range(2_000))
    assert 8 <= failed <= 34  # 20 expected, and three standard deviations


def test_of_all_orders_of_seven_tasks_few_fail() -> None:
    tasks = TASKS[:7]
    difficulty = {task: number / 7 for number, task in enumerate(tasks)}
    orders = list(permutations(tasks))
    assert sum(follows_difficulty(order, difficulty) for order in orders) <= DIFFICULTY_LEVEL * len(orders)


def test_the_score_is_spearmans() -> None:
    """Against 1 - 6 sum d^2 / (m (m^2 - 1)), which holds without ties."""
    choice = random.Random(5)
    for _ in range(300):
        m = choice.randrange(4, 40)
        ranks = choice.sample(range(m), m)
        blend = sorted(range(m), key=lambda at: ranks[at] + at * choice.random())
        distance = sum((place - rank) ** 2 for place, rank in enumerate(blend))
        rho = 1 - 6 * distance / (m * (m * m - 1))
        tasks = [f"t{number}" for number in range(m)]
        expected = abs(rho) * sqrt(m - 1) > normal(DIFFICULTY_LEVEL)
        assert follows_difficulty(tasks, dict(zip(tasks, map(float, blend), strict=True))) == expected


@pytest.mark.parametrize("difficulty", [{}, {"t1": 0.5}, dict.fromkeys(TASKS, 0.5), {"elsewhere": 1.0}])
def test_with_no_two_difficulties_nothing_is_followed(difficulty: dict[str, float]) -> None:
    assert not follows_difficulty(TASKS, difficulty)
    assert not follows_difficulty([], difficulty)


def test_a_task_that_comes_again_counts_where_it_came_first() -> None:
    difficulty = {task: number / 89 for number, task in enumerate(TASKS)}
    assert follows_difficulty([*TASKS, *TASKS[::-1]], difficulty)


def test_equal_values_share_their_mean_rank() -> None:
    """Ranks 1, 2.5, 2.5, 4, 5 of mean 3, twice."""
    assert _centred([0.2, 0.3, 0.3, 0.7, 0.9]) == [-4, -1, -1, 2, 4]


def exact_share_that_fails(size: int, passed: int) -> float:
    """Of all places that so many passes can have, the share at which the rank-sum test fails."""
    sums: Counter[tuple[int, int]] = Counter({(0, 0): 1})
    for place in _centred(list(range(size))):
        for (held, score), ways in list(sums.items()):
            if held < passed:
                sums[held + 1, score + place] += ways
    limit = normal(OUTCOME_LEVEL) ** 2 * passed * (size - passed) * (size + 1) / 3
    failing = sum(ways for (held, score), ways in sums.items() if held == passed and score**2 > limit)
    return failing / comb(size, passed)


@pytest.mark.parametrize(("size", "passed"), [(5, 2), (10, 5), (23, 10), (23, 3), (45, 19)])
def test_a_shuffled_order_fails_one_look_at_outcomes_seldom_enough(size: int, passed: int) -> None:
    assert exact_share_that_fails(size, passed) <= OUTCOME_LEVEL


def test_passes_that_come_first_or_last_are_caught() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    assert follows_outcome(early, 88)
    assert follows_outcome(early[::-1], 88)


def test_a_look_takes_exactly_its_prefix_once_that_is_closed() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    assert not follows_outcome(early[:21], 88)
    assert not follows_outcome([*early[:5], None, *early[6:], *early], 88)
    assert follows_outcome([*early, None, *[True] * 30], 88)
    assert not follows_outcome([*[True, False] * 11, *[True] * 10, *[False] * 11], 88)  # the half is not in


def test_a_look_that_failed_stays_failed() -> None:
    early: list[Outcome] = [*[True] * 11, *[False] * 11]
    later: list[Outcome] = [False, True] * 33
    assert follows_outcome([*early, *later], 88)


def test_shuffled_orders_fail_in_at_most_one_percent() -> None:
    choice = random.Random(18)
    outcomes: list[Outcome] = [*[True] * 38, *[False] * 51]
    failed = sum(follows_outcome(choice.sample(outcomes, 89), 89) for _ in range(2_000))
    assert failed <= 0.01 * 2_000 + 13  # and three standard deviations


@pytest.mark.parametrize("outcomes", [[], [None] * 89, [True] * 89, [False] * 89])
def test_where_all_outcomes_are_the_same_nothing_is_followed(outcomes: list[Outcome]) -> None:
    assert not follows_outcome(outcomes, 89)
