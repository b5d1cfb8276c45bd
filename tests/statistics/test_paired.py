"""Two sets of trials at the same tasks: published p-values, differences by hand, what open tasks allow."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.statistics.pairs import Attempts, Paired, PairedTask, e_value, paired
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


def test_the_interval_is_the_t_interval_of_the_differences_by_task() -> None:
    """Differences 1, 0, 0, -1, 1: mean 0.2, deviation sqrt(0.7), error sqrt(0.7/5); t(4) = 2.776445."""
    result = paired([WIN, TIE, TIE, LOSS, WIN])
    half = 2.776445105 * (0.7 / 5) ** 0.5
    assert result.difference == 0.2
    assert result.interval is not None
    assert result.interval == pytest.approx((max(-1, 0.2 - half), min(1, 0.2 + half)))


def test_with_several_attempts_signs_and_means_may_disagree() -> None:
    """Two tasks are won by one of three attempts each, one task is lost by all three."""
    narrow = PairedTask(Attempts(3, 1), Attempts(3, 0))
    result = paired([narrow, narrow, PairedTask(Attempts(3, 0), Attempts(3, 3))])
    assert (result.ahead, result.behind) == (2, 1)
    assert result.difference == pytest.approx(-1 / 9)
    assert not result.agrees
    assert paired([narrow, narrow]).agrees


def test_unequal_attempts_have_a_difference_and_are_no_evidence() -> None:
    uneven = PairedTask(Attempts(5, 5), Attempts(1, 0))
    result = paired([uneven] * 20)
    assert (result.difference, result.interval, result.ended) == (1.0, (1.0, 1.0), True)
    assert (result.p_value, result.better, result.worse, result.certain) == (None, 1.0, 1.0, False)
    assert (result.tasks, result.uneven) == (20, 20)
    mixed = paired([WIN] * 6 + [uneven] * 20 + [PairedTask(Attempts(1, 1), Attempts(0, 0, 2))])
    alone = paired([WIN] * 6)
    assert (mixed.ahead, mixed.behind, mixed.equal, mixed.open, mixed.uneven) == (6, 0, 0, 0, 21)
    assert (mixed.better, mixed.worse) == (alone.better, alone.worse)
    assert paired([WIN] * 6 + [uneven] * 20).p_value == alone.p_value == 2 / 64


def test_equal_agents_with_unequal_attempts_are_never_told_apart_too_often() -> None:
    """89 tasks at 20 %, with one attempt against five on all of them or on half of them."""
    random = Random(7)

    def side(trials: int) -> Attempts:
        return Attempts(trials, sum(random.random() < 0.2 for _ in range(trials)))

    looks = 200
    for theirs in ([5] * 89, [1, 5] * 44 + [1]):
        result = [paired([PairedTask(side(1), side(trials)) for trials in theirs]) for _ in range(looks)]
        assert sum(one.certain for one in result) <= looks * 0.05
        assert sum(max(one.worse, one.better) >= 40 for one in result) <= looks * 0.05


def test_open_tasks_speak_against_either_claim() -> None:
    result = paired([LOSS] * 7 + [PairedTask(RUNNING, RUNNING)] * 2 + [PairedTask(RUNNING, PASSED)])
    assert result.worse == e_value(2, 7)
    assert result.better == e_value(10, 0)
    assert (result.ended, result.p_value, result.interval) == (False, None, None)


def test_nothing_in_common_says_nothing() -> None:
    result = paired([])
    assert (result.tasks, result.difference, result.reachable, result.ended) == (0, None, None, False)
    assert (result.worse, result.better, result.p_value) == (1.0, 1.0, None)


def test_an_incomplete_list_of_tasks_never_ends() -> None:
    result = paired([WIN, LOSS], complete=False)
    assert (result.ended, result.reachable, result.p_value) == (False, None, None)


@examples(200)
@given(st.lists(st.builds(PairedTask, attempts(), attempts()), min_size=1, max_size=8), st.data())
def test_results_only_narrow_what_is_reachable_and_add_evidence(
    pairs: list[PairedTask], data: st.DataObject
) -> None:
    def finished(side: Attempts) -> Attempts:
        more = data.draw(st.integers(0, side.unknown))
        passed = data.draw(st.integers(0, more))
        return Attempts(side.known + more, side.passed + passed, side.unknown - more)

    before = paired(pairs)
    after = paired([PairedTask(finished(pair.ours), finished(pair.theirs)) for pair in pairs])
    assert before.reachable is not None
    assert after.reachable is not None
    assert before.reachable[0] <= after.reachable[0] <= after.reachable[1] <= before.reachable[1]
    assert before.worse <= after.worse
    assert before.better <= after.better
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
    assert (ours.worse, ours.better, ours.p_value) == (theirs.better, theirs.worse, theirs.p_value)
    assert _negated(ours) == pytest.approx(theirs.difference)


def _negated(result: Paired) -> float | None:
    return None if result.difference is None else -result.difference


@pytest.mark.parametrize(("ours", "theirs"), list(product((PASSED, FAILED, RUNNING), repeat=2)))
def test_a_task_with_one_attempt_is_a_pair(ours: Attempts, theirs: Attempts) -> None:
    pair = PairedTask(ours, theirs)
    can_win = {PASSED: True, FAILED: False, RUNNING: True}[ours] and theirs != PASSED
    assert pair.won() is (True if (ours, theirs) == (PASSED, FAILED) else None if can_win else False)
