"""The order of planned trials: places first, hashes for ties, gaps as unknown trials."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.final import Trial, attempts_together, hash_shuffled, in_order, sequence
from tests.support.examples import examples

TASKS = [f"task-{number}" for number in range(12)]


def trials_of(places: list[int | None]) -> list[Trial]:
    return [Trial(f"s{number}", f"t{number}", None, place) for number, place in enumerate(places)]


@examples(100)
@given(tasks=st.lists(st.sampled_from(TASKS), max_size=30), seed=st.text(max_size=5), data=st.data())
def test_a_shuffle_hangs_on_the_seed_and_the_tasks_alone(
    tasks: list[str], seed: str, data: st.DataObject
) -> None:
    shuffled = hash_shuffled(tasks, seed)
    assert Counter(shuffled) == Counter(tasks)
    assert hash_shuffled(data.draw(st.permutations(tasks)), seed) == shuffled


@examples(50)
@given(tasks=st.lists(st.sampled_from(TASKS), unique=True, min_size=1), data=st.data())
def test_a_task_less_leaves_the_order_of_the_others(tasks: list[str], data: st.DataObject) -> None:
    missing = data.draw(st.sampled_from(tasks))
    others = [task for task in hash_shuffled(tasks, "seed") if task != missing]
    assert hash_shuffled([task for task in tasks if task != missing], "seed") == others


def test_every_task_is_first_about_equally_often() -> None:
    first = Counter(hash_shuffled(TASKS, str(seed))[0] for seed in range(1_200))
    assert set(first) == set(TASKS)
    assert all(60 < times < 140 for times in first.values())


def test_attempts_at_a_task_are_shuffled_as_trials_of_their_own() -> None:
    order = hash_shuffled(TASKS * 4, "seed")
    assert set(order[: len(TASKS)]) != set(TASKS), "no rounds"
    assert not attempts_together(order)


@examples(100)
@given(places=st.lists(st.none() | st.integers(0, 6), max_size=12), data=st.data())
def test_the_order_of_arrival_changes_nothing(places: list[int | None], data: st.DataObject) -> None:
    trials = trials_of(places)
    ordered = in_order("run", trials)
    assert in_order("run", data.draw(st.permutations(trials))) == ordered
    numbers = [99 if trial.place is None else trial.place for trial in ordered]
    assert numbers == sorted(numbers)


def test_ties_do_not_follow_the_names() -> None:
    """Of 40 trials at one place, and in a hundred runs: the first is another one each time."""
    trials = trials_of([3] * 40)
    orders = [[trial.slot for trial in in_order(f"run {number}", trials)] for number in range(100)]
    assert len({order[0] for order in orders}) > 30
    assert all(order != sorted(order) for order in orders)


def test_a_missing_place_is_an_unknown_trial() -> None:
    ordered = [Trial("a", "a", True, 1), Trial("b", "b", False, 4)]
    assert sequence(ordered, 10) == [None, True, None, None, False]


def test_no_more_trials_are_put_into_gaps_than_the_plan_has_left() -> None:
    """A trial that was started again took a number of the count, and kept its first one."""
    ordered = [Trial("a", "a", True, 0), Trial("b", "b", False, 2), Trial("c", "c", True, 1_000_000_000)]
    assert sequence(ordered, 5) == [True, None, False, None, True]
    assert sequence(ordered, 4) == [True, None, False, True]
    assert sequence(ordered, 3) == [True, False, True]


def test_places_of_others_are_no_gaps() -> None:
    ordered = [Trial("a", "a", True, 2), Trial("b", "b", False, 5)]
    assert sequence(ordered, 9, others={0, 1, 4}) == [True, None, False]


def test_trials_without_a_place_come_last_and_make_no_gap() -> None:
    ordered = in_order("run", [Trial("x", "x", True), Trial("a", "a", False, 0)])
    assert sequence(ordered, 9) == [False, True]


@examples(200)
@given(data=st.data())
def test_a_start_that_comes_late_only_moves_known_trials_forward(data: st.DataObject) -> None:
    """So each prefix knows at least what it knew before: the interval narrows."""
    places = data.draw(st.lists(st.integers(0, 20), unique=True, min_size=1, max_size=10))
    planned = len(places) + data.draw(st.integers(0, 15))
    all_trials = [Trial(f"s{place}", f"s{place}", place % 2 == 0, place) for place in places]
    fewer = all_trials[: data.draw(st.integers(0, len(all_trials)))]
    before, after = (sequence(in_order("run", trials), planned) for trials in (fewer, all_trials))
    for length in range(planned + 1):
        for outcome in (True, False):
            assert before[:length].count(outcome) <= after[:length].count(outcome)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("", False),
        ("abc", False),
        ("aa", True),
        ("bbaac", True),
        ("abca", False),
        ("abccba", False),
        ("abab", False),
        ("aabbab", False),
        ("abbac", False),
    ],
)
def test_attempts_lie_together_or_anywhere(order: str, expected: bool) -> None:
    assert attempts_together(order) is expected
