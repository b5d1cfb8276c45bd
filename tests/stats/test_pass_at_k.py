"""pass@k: which k, over which tasks, and whether that is final."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from streamer.statistics.ability import PassAtK, sizes
from streamer.statistics.exact import StatsError
from tests.stats import oracles


def tried(**tasks: str) -> PassAtK:
    """Tasks by name, their attempts as text: "+" passed, "-" not."""
    result = PassAtK()
    for task, attempts in tasks.items():
        for attempt in attempts:
            result.add(task, attempt == "+")
    return result


def test_one_attempt_gives_k_1_where_the_harness_gives_nothing() -> None:
    assert tried(a="+", b="-").summary() == {"1": {"value": 0.5, "tasks_covered": 2, "partial": False}}


def test_of_nothing_there_is_no_k_even_with_a_plan() -> None:
    assert PassAtK().summary(planned_attempts=8, planned_tasks=3) == {}


def test_each_task_weighs_the_same() -> None:
    # k=1: (1/4 + 1/1) / 2; k=2 and 4 over task a alone: 1 - C(3,2)/C(4,2) = 1/2, then 1
    assert tried(a="+---", b="+").summary() == {
        "1": {"value": 0.625, "tasks_covered": 2, "partial": False},
        "2": {"value": 0.5, "tasks_covered": 1, "partial": True},
        "4": {"value": 1.0, "tasks_covered": 1, "partial": True},
    }


def test_k_goes_up_to_the_larger_of_plan_and_sight() -> None:
    assert list(tried(a="+" * 5).summary()) == ["1", "2", "4", "5"]
    assert list(tried(a="+").summary(planned_attempts=5)) == ["1", "2", "4", "5"]
    assert list(tried(a="+" * 5).summary(planned_attempts=2)) == ["1", "2", "4", "5"]
    assert sizes(20) == [1, 2, 4, 5, 8, 10, 16]
    assert sizes(3) == [1, 2]


def test_a_k_that_no_task_covers_yet_is_unknown_and_partial() -> None:
    two = tried(a="+", b="-").summary(planned_attempts=2)["2"]
    assert two == {"value": None, "tasks_covered": 0, "partial": True}


def test_planned_tasks_that_are_missing_make_it_partial() -> None:
    summary = tried(a="+").summary(planned_tasks=2)
    assert summary == {"1": {"value": 1.0, "tasks_covered": 1, "partial": True}}
    assert not tried(a="+", b="+", c="+").summary(planned_tasks=2)["1"]["partial"]


def test_merging_pools_the_attempts_of_a_task() -> None:
    pooled = tried(a="+-", b="-")
    pooled.merge(tried(a="--", c="+"))
    assert pooled.summary() == tried(a="+---", b="-", c="+").summary()
    assert pooled.tasks == 3


def test_a_task_without_attempts_left_is_gone() -> None:
    held = tried(a="+", b="-")
    held.remove("a", True)
    assert (held.tasks, held.summary()["1"]["value"]) == (1, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_unequal_attempts_are_averaged_exactly(seed: int) -> None:
    choice = random.Random(seed)
    attempts = [(f"t{choice.randrange(9)}", choice.random() < 0.3) for _ in range(150)]
    held = PassAtK()
    for task, passed in attempts:
        held.add(task, passed)
    assert held.summary(40, 12) == oracles.pass_at_k(attempts, 40, 12)


def test_thirds_are_rounded_once() -> None:
    # 1/3 + 2/3 + 1/3 over 3 tasks = 4/9
    assert tried(a="+--", b="++-", c="+--").summary()["1"]["value"] == float(Fraction(4, 9))


@pytest.mark.parametrize("tasks", [3, 40, 5_000])
def test_attempts_in_parts_are_counted_by_task_like_one_by_one(tasks: int) -> None:
    """Few tasks, as many as attempts, and far more."""
    choice = random.Random(tasks)
    attempts = [(f"t{choice.randrange(tasks)}", choice.random() < 0.3) for _ in range(700)]
    bounds = [0, 5, 5, 300, 420, 700]
    parts = [PassAtK.of(attempts[first:end]) for first, end in pairwise(bounds)]
    together, one_by_one, apart = PassAtK(), PassAtK(), PassAtK()
    together.merge(*parts, tried(more="+"))
    for part in parts:
        apart.merge(part)
    for task, result in [*attempts, ("more", True)]:
        one_by_one.add(task, result)
    apart.add("more", True)
    assert together.summary(9) == apart.summary(9) == one_by_one.summary(9)
    for part in parts:
        together.unmerge(part)
    assert together.summary() == tried(more="+").summary()
    with pytest.raises(StatsError, match="more"):
        together.unmerge(tried(more="-"))
