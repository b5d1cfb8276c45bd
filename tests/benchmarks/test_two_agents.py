"""Simulated comparisons: abilities differ by what was asked, and what becomes known is complete."""

from __future__ import annotations

from collections import Counter
from math import inf, isfinite
from random import Random

import pytest

from benchmarks.two_agents import MEAN_CHANCE, PLANS, WAYS, Plan, Sides, Way, order_of, shifted, two_runs

SMALL = Plan("small", tasks=40, attempts=3)


@pytest.mark.parametrize("better", [0.0, 0.02, 0.1, -0.02, -0.2])
def test_the_mean_over_all_tasks_differs_by_what_was_asked(better: float) -> None:
    """The shift is linear in a task's chance, so it is enough to look at the mean and at both ends."""
    assert shifted(MEAN_CHANCE, better) == pytest.approx(MEAN_CHANCE + better)
    assert shifted(0.25, better) + shifted(0.75, better) == pytest.approx(2 * shifted(0.5, better))
    assert 0 <= shifted(0.0, better) <= shifted(1.0, better) <= 1


def test_with_several_attempts_each_round_has_every_task_once() -> None:
    tasks = order_of(SMALL, Random(1))
    rounds = [tasks[start : start + 40] for start in (0, 40, 80)]
    assert [sorted(one) for one in rounds] == [list(range(40))] * 3
    assert rounds[0] != rounds[1] != rounds[2] != sorted(rounds[2])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_result_is_known_from_its_own_number_on(way: Way) -> None:
    runs = two_runs(SMALL, way, -0.1, Random(2))
    numbers = [known for known in runs.ours_known + runs.theirs_known if known and isfinite(known)]
    assert sorted(numbers) == list(range(1, runs.results + 1))
    alone = way.sides is Sides.FINISHED
    assert (runs.theirs_known == [0] * 120, runs.planned) == (alone, 120 if alone else 240)
    ours, theirs = runs.at(0)
    assert (ours, theirs) == ([None] * 120, runs.theirs if alone else [None] * 120)
    ours, theirs = runs.at(runs.results)
    assert theirs == runs.theirs
    assert [now for now in ours if now is not None] == [
        outcome for outcome, known in zip(runs.ours, runs.ours_known, strict=True) if known < inf
    ]
    assert (None in ours) == any(way.scenario.cancel)


def test_a_tenth_stays_unknown_and_mostly_failures() -> None:
    [way] = [way for way in WAYS if any(way.scenario.cancel)]
    lost: Counter[bool] = Counter()
    for seed in range(40):
        runs = two_runs(PLANS[2], way, 0.0, Random(seed))
        lost += Counter(o for o, known in zip(runs.ours, runs.ours_known, strict=True) if known == inf)
    assert lost.total() / (40 * 500) == pytest.approx(0.1, abs=0.01)
    assert lost[False] > 3 * lost[True]


def test_a_pair_is_the_same_attempt_at_the_same_task_whatever_the_order_of_the_other_side() -> None:
    """All pairs of a task that always passes are passed on both sides."""
    [way] = [way for way in WAYS if way.sides is Sides.APART]
    runs = two_runs(SMALL, way, 0.0, Random(3))
    order = sorted(range(120), key=lambda pair: runs.theirs_known[pair])
    first_of_task: dict[int, list[int]] = {}
    for pair in order:
        first_of_task.setdefault(runs.tasks[pair], []).append(pair)
    assert {len(pairs) for pairs in first_of_task.values()} == {3}
    assert runs.ours_known != runs.theirs_known
