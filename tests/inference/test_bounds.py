"""Hard bounds: every way in which the missing trials can end stays between them, and both ends are
reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score import grading_profile
from streamer.statistics.ability import (
    Attempted,
    PassAtK,
    Reach,
    cannot_be_overtaken,
    decided,
    median,
    pass_rate,
    reachable_pass_at_k,
)
from streamer.statistics.distribution import Distribution
from streamer.statistics.exact import StatsError
from tests.support.examples import examples

SHARES = st.lists(st.floats(0.0, 1.0), max_size=8)


def test_missing_trials_all_fail_or_all_pass() -> None:
    assert pass_rate(20, 25, 89) == Reach(20 / 89, 64 / 89)
    assert pass_rate(0, 0, 3) == Reach(0.0, 1.0)
    assert pass_rate(38, 51, 89) == Reach(38 / 89, 38 / 89)


def ends_of(
    known: Sequence[float], missing: int, number: Callable[[Sequence[float]], float | None]
) -> tuple[float, float]:
    """The least and the most that a number can be, with each missing value at an end."""
    every = [number([*known, *filled]) for filled in product([0.0, 1.0], repeat=missing)]
    found = [value for value in every if value is not None]
    return min(found), max(found)


def of(values: Sequence[float]) -> Distribution:
    distribution = Distribution()
    distribution.extend(values)
    return distribution


@examples(200)
@given(known=SHARES, missing=st.integers(0, 4))
def test_the_ends_of_the_median_are_those_of_all_ways_to_end(known: list[float], missing: int) -> None:
    if not known and not missing:
        return
    planned = len(known) + missing
    assert median(sorted(known), planned) == ends_of(known, missing, lambda values: of(values).median())


def test_a_known_value_beyond_0_and_1_keeps_its_rank() -> None:
    assert median([-1.0, 2.0], planned=3) == Reach(0.0, 1.0)
    assert median([1.5, 2.0], planned=3) == Reach(1.5, 1.5)


PER_TASK = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=3)
"""(failed, passed, missing) of each task."""


@examples(100)
@given(tasks=PER_TASK)
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_ends_of_pass_at_k_are_those_of_all_ways_to_end(k: int, tasks: list[tuple[int, ...]]) -> None:
    missing = [task for task, (_, _, left) in enumerate(tasks) for _ in range(left)]
    found: list[Any] = []
    for ways in product([False, True], repeat=len(missing)):
        attempts = PassAtK()
        for task, (failed, passed, _) in enumerate(tasks):
            attempts.merge(PassAtK.of([(task, False)] * failed + [(task, True)] * passed))
        attempts.merge(PassAtK.of(zip(missing, ways, strict=True)))
        found.append(attempts.summary(planned_attempts=4).get(str(k), {}).get("value"))
    planned = [Attempted(failed + passed, passed, left) for failed, passed, left in tasks]
    reach = reachable_pass_at_k(k, planned)
    if reach is None:
        assert set(found) == {None}
    else:
        assert (reach.low, reach.high) == (min(found), max(found))


def test_tasks_that_are_alike_are_counted_together() -> None:
    apart = [Attempted(1, 1, 1), Attempted(1, 1, 1), Attempted(0, 0, 2)]
    assert reachable_pass_at_k(2, apart) == reachable_pass_at_k(
        2, [Attempted(1, 1, 1, tasks=2), Attempted(0, 0, 2)]
    )


def test_a_plan_that_is_smaller_than_what_is_known_is_refused() -> None:
    refused: list[Callable[[], object]] = [
        lambda: pass_rate(2, 1, 2),
        lambda: pass_rate(0, 0, 0),
        lambda: median([0.5, 0.5], 1),
        lambda: median([], 0),
    ]
    for ask in refused:
        with pytest.raises(StatsError, match="a plan of at least"):
            ask()


def test_a_grade_is_decided_when_both_ends_have_it() -> None:
    grade = grading_profile("specified").grade
    assert decided(Reach(0.85, 0.94), grade)
    assert not decided(Reach(0.84, 0.94), grade)
    assert decided(pass_rate(19, 0, 20), grade)
    assert not decided(pass_rate(18, 0, 20), grade)


def test_only_a_higher_lower_end_cannot_be_overtaken() -> None:
    leader, other = pass_rate(60, 20, 100), pass_rate(30, 41, 100)
    assert (leader.low, other.high) == (0.6, 0.59)
    assert cannot_be_overtaken(leader, other)
    assert not cannot_be_overtaken(other, leader)
    assert not cannot_be_overtaken(leader, pass_rate(30, 40, 100))
