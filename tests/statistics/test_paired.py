"""Two sets of trials at the same tasks: published p-values, differences by hand, what open tasks allow."""

from __future__ import annotations

from itertools import product
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.exact import student_t
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import Attempts, PairedTask, paired
from tests.support.examples import examples

PASSED, FAILED, RUNNING = Attempts(1, 1), Attempts(1, 0), Attempts(0, 0, 1)
WIN, LOSS, TIE = PairedTask(PASSED, FAILED), PairedTask(FAILED, PASSED), PairedTask(PASSED, PASSED)


@st.composite
def attempts(draw: st.DrawFn) -> Attempts:
    """Three planned trials, some of them unknown."""
    known = draw(st.integers(0, 3))
    return Attempts(known, draw(st.integers(0, known)), 3 - known)


@pytest.mark.parametrize(
    ("fewer", "more", "p"),
    [(18, 18, 1.000), (33, 31, 0.901), (37, 31, 0.545), (26, 25, 1.000), (31, 28, 0.795)],
)
def test_at_the_end_the_published_p_values_come_out(fewer: int, more: int, p: float) -> None:
    """McNemar's exact test; SWE-bench/experiments#466."""
    result = paired([WIN] * fewer + [LOSS] * more + [TIE] * 9)
    assert result.p_value is not None
    assert round(result.p_value, 3) == p
    assert (result.ahead, result.behind, result.equal, result.open) == (fewer, more, 9, 0)


def by_hand(tasks: list[tuple[int, int, int, int]]) -> tuple[float, float]:
    """Section 7's interval in plain floats, of (trials, passes, their trials, their passes) by task."""

    def wilson(trials: list[int], passes: list[int]) -> tuple[float, float, float]:
        many, count = len(trials), sum(trials)
        rate = sum(passes) / count
        spread = sum((c - n * rate) ** 2 for n, c in zip(trials, passes, strict=True))
        variance = many / (many - 1) * spread / count**2
        worth: float = many if rate in (0, 1) else count
        if 0 < rate < 1 and variance > 0:
            worth = min(count, rate * (1 - rate) / variance)
        quantile = float(student_t(ALPHA, many - 1))
        middle = (rate + quantile**2 / (2 * worth)) / (1 + quantile**2 / worth)
        half = sqrt(rate * (1 - rate) / worth + quantile**2 / (4 * worth**2)) * quantile
        half /= 1 + quantile**2 / worth
        return rate, middle - half, middle + half

    ours, passed, theirs, other = map(list, zip(*tasks, strict=True))
    (p1, l1, u1), (p2, l2, u2) = wilson(ours, passed), wilson(theirs, other)
    u = [a - n * p1 for n, a, _, _ in tasks]
    v = [b - k * p2 for _, _, k, b in tasks]
    m2 = sum(ours) / len(tasks) * sum(theirs) / len(tasks)
    c = sum(x * y for x, y in zip(u, v, strict=True)) / m2
    c = max(0.0, c - 0.5) if c > 0 else c
    varies = sqrt(sum(x * x for x in u) * sum(y * y for y in v))
    r = c * m2 / varies if varies else 0.0
    low = (p1 - l1) ** 2 - 2 * r * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    high = (u1 - p1) ** 2 - 2 * r * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    return p1 - p2 - sqrt(max(0.0, low)), p1 - p2 + sqrt(max(0.0, high))


SIDES = st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@examples(200)
@given(st.lists(st.tuples(SIDES, SIDES), min_size=5, max_size=30))
def test_the_interval_is_that_of_section_7_by_hand(
    tasks: list[tuple[tuple[int, int], tuple[int, int]]],
) -> None:
    result = paired([PairedTask(Attempts(*ours), Attempts(*theirs)) for ours, theirs in tasks]).interval
    assert result == pytest.approx(by_hand([(*ours, *theirs) for ours, theirs in tasks]), abs=1e-9)


def test_the_interval_needs_five_tasks_and_never_collapses() -> None:
    """Two tasks had [100, 100] once."""
    assert paired([WIN] * 4).interval is None
    five = paired([WIN] * 5).interval
    assert five is not None
    assert five.low == pytest.approx(1 - sqrt(2) * (1 - rate_low(5)))
    assert five.high == 1.0
    ties = paired([TIE] * 50).interval
    assert ties is not None
    assert ties.low < 0 < ties.high


def rate_low(tasks: int) -> float:
    """The lower end of section 6 where every task was passed."""
    square = float(student_t(ALPHA, tasks - 1)) ** 2
    return tasks / (tasks + square)


def test_unequal_attempts_have_an_interval() -> None:
    """47 of 80 against 77 of 400: five attempts at each of the same 80 tasks."""
    theirs = [1] * 77 + [0] * 3
    sides = [PairedTask(Attempts(1, n < 47), Attempts(5, theirs[n])) for n in range(80)]
    result = paired(sides)
    assert result.difference == 47 / 80 - 77 / 400
    assert result.interval is not None
    assert result.interval.low > 0.25
    assert (result.p_value, result.uneven) == (None, 80)
    ones = [PairedTask(ours, Attempts(1, n % 5 == 0)) for n, (ours, _) in enumerate(sides)]
    tested = paired(sides, tested=ones)
    assert (tested.interval, tested.p_value) == (result.interval, paired(ones).p_value)


@pytest.mark.parametrize(
    "done", [[WIN] * 20 + [LOSS] * 2 + [TIE] * 10, [PairedTask(FAILED, FAILED)] * 3 + [TIE]], ids=["33", "5"]
)
def test_missing_trials_widen_interval_and_p_value_and_no_more(done: list[PairedTask]) -> None:
    """With five tasks, the upper end is .44 if the missing trial fails, but .39 if it passes."""
    unknown = paired([*done, PairedTask(RUNNING, PASSED)], over=True)
    ends = [paired([*done, end]) for end in (LOSS, TIE)]
    lows, highs = zip(*(one.interval for one in ends if one.interval), strict=True)
    assert unknown.interval == (min(lows), max(highs))
    assert unknown.p_value == max(one.p_value or 0 for one in ends)
    assert paired([*done, PairedTask(RUNNING, PASSED)]).interval is None


def test_with_several_attempts_signs_and_means_may_disagree() -> None:
    """Two tasks are won by one of three attempts each, one task is lost by all three."""
    narrow = PairedTask(Attempts(3, 1), Attempts(3, 0))
    result = paired([narrow, narrow, PairedTask(Attempts(3, 0), Attempts(3, 3))])
    assert (result.ahead, result.behind) == (2, 1)
    assert result.difference == pytest.approx(-1 / 9)
    assert not result.agrees
    assert paired([narrow, narrow]).agrees


def test_the_sign_test_leaves_out_tasks_with_unequal_attempts() -> None:
    uneven = PairedTask(Attempts(5, 5), Attempts(1, 0))
    mixed = paired([WIN] * 6 + [uneven] * 20 + [PairedTask(Attempts(1, 1), Attempts(0, 0, 2))])
    assert (mixed.ahead, mixed.behind, mixed.equal, mixed.open, mixed.uneven) == (6, 0, 0, 0, 21)
    assert paired([WIN] * 6 + [uneven] * 20).p_value == paired([WIN] * 6).p_value == 2 / 64
    assert paired([uneven] * 20).p_value is None, "nothing was tested"


def test_nothing_in_common_says_nothing() -> None:
    result = paired([])
    assert (result.tasks, result.difference, result.reachable, result.ended) == (0, None, None, False)
    assert (result.p_value, result.interval) == (None, None)


def test_an_incomplete_list_of_tasks_never_ends() -> None:
    result = paired([WIN, LOSS], complete=False)
    assert (result.ended, result.reachable, result.p_value) == (False, None, None)


@examples(200)
@given(st.lists(st.builds(PairedTask, attempts(), attempts()), min_size=1, max_size=8), st.data())
def test_results_only_narrow_what_is_reachable(pairs: list[PairedTask], data: st.DataObject) -> None:
    def finished(side: Attempts) -> Attempts:
        more = data.draw(st.integers(0, side.unknown))
        passed = data.draw(st.integers(0, more))
        return Attempts(side.known + more, side.passed + passed, side.unknown - more)

    before = paired(pairs)
    after = paired([PairedTask(finished(pair.ours), finished(pair.theirs)) for pair in pairs])
    assert before.reachable is not None
    assert after.reachable is not None
    assert before.reachable[0] <= after.reachable[0] <= after.reachable[1] <= before.reachable[1]
    assert before.open >= after.open


@examples(100)
@given(st.lists(st.builds(PairedTask, attempts(), attempts()), max_size=8))
def test_the_other_side_sees_the_mirror_image(pairs: list[PairedTask]) -> None:
    ours, theirs = paired(pairs), paired([PairedTask(theirs, ours) for ours, theirs in pairs])
    assert (ours.ahead, ours.behind, ours.equal, ours.open) == (
        theirs.behind,
        theirs.ahead,
        theirs.equal,
        theirs.open,
    )
    assert ours.p_value == theirs.p_value
    assert (ours.difference and -ours.difference) == pytest.approx(theirs.difference)


@pytest.mark.parametrize(("ours", "theirs"), list(product((PASSED, FAILED, RUNNING), repeat=2)))
def test_a_task_with_one_attempt_is_a_pair(ours: Attempts, theirs: Attempts) -> None:
    pair = PairedTask(ours, theirs)
    can_win = {PASSED: True, FAILED: False, RUNNING: True}[ours] and theirs != PASSED
    assert pair.won() is (True if (ours, theirs) == (PASSED, FAILED) else None if can_win else False)
