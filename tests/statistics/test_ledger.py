"""Verdicts of a ledger and drops of a race against independent computations (inference 8a)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import permutations
from math import inf, isclose, log
from random import Random

import numpy as np
import pytest

from streamer.statistics.ledger import TOTAL, adjusted, drops, evidence_better, judged, rounded, share
from streamer.statistics.pairs import Pair, at_worst, e_value, evidence_worse

# -----------------------------------------------------------------------------
# The levels: their constant, and e-LOND.


def test_the_shares_of_all_candidates_are_one() -> None:
    """The terms f(k) = 1 / (k ln^2 k) are convex: the trapezoids and the midpoints bound those behind n."""
    n = 2_000_000
    k = np.arange(2, n + 1, dtype=np.float64)
    head = float(np.sum(1 / (k * np.log(k) ** 2)))
    next_term = 1 / ((n + 1) * log(n + 1) ** 2)
    low, high = head + 1 / log(n + 1) + next_term / 2, head + 1 / log(n + 0.5)
    assert high - low < 1e-9
    assert low - 1e-11 <= TOTAL <= high + 1e-11
    assert isclose(sum(map(share, range(1, 1001))), sum(1 / (k[:1000] * np.log(k[:1000]) ** 2)) / TOTAL)


def test_each_verdict_before_raises_the_level_of_the_next() -> None:
    """e-LOND: alpha_t = alpha * gamma_t * (D + 1), with D the verdicts before."""
    evidence = [50.0, 1.0, 200.0, 300.0, 0.0, 1e9]
    result, discoveries = judged(evidence), 0
    for place, (value, one) in enumerate(zip(evidence, result, strict=True), start=1):
        gamma = 1 / ((place + 1) * log(place + 1) ** 2) / 2.109742801236892
        assert isclose(one.level, 0.05 * gamma * (discoveries + 1), rel_tol=1e-9)
        assert isclose(one.needed, 1 / one.level, rel_tol=1e-9)
        assert one.better is (value >= one.needed)
        discoveries += one.better
    assert [one.better for one in result] == [True, False, True, True, False, True]


def test_no_later_candidate_changes_an_earlier_verdict() -> None:
    chance = Random(1)
    evidence = [chance.choice([0.5, 30.0, 500.0]) for _ in range(50)]
    whole = judged(evidence)
    assert [judged(evidence[:many]) for many in range(51)] == [whole[:many] for many in range(51)]


# -----------------------------------------------------------------------------
# The evidence for one candidate is an e-value at any moment.


def test_the_adjusted_largest_value_is_what_high_precision_says() -> None:
    with localcontext(prec=60):
        for text in ("1.0000000001", "1.001", "1.1", "1.1052", "2", "31.875", "1e6", "1e300"):
            m = Decimal(float(text))
            expected = (m - 1 - m.ln()) / m.ln() ** 2
            assert isclose(adjusted(float(text)), float(expected), rel_tol=1e-12), text
    assert adjusted(1.0) == 0.5


def test_the_adjuster_integrates_to_one() -> None:
    """The largest value of an e-process exceeds M with probability 1/M: adj(M) has a mean of 1 at most.

    With g = ln M the density is e^-g. Beyond g = 600 there is 1/600 of the mean left.
    """
    growth = np.linspace(0, 600, 600_001)
    values = np.array([adjusted(float(one)) for one in np.exp(growth)])
    mean = float(np.trapezoid(values * np.exp(-growth), growth))
    assert isclose(mean + 1 / 600, 1.0, abs_tol=1e-6)


OUTCOMES: tuple[Pair, ...] = (Pair(False, True), Pair(True, False), Pair(True, True))
UNKNOWN = Pair(None, None)


def best_stop(pairs: int, chances: Sequence[float], value: Callable[[Sequence[Pair]], float]) -> float:
    """The most that anybody can expect who chooses when to stop, and after each result which trial is next.

    Exact, by backward induction over everything that may be known.
    """

    @cache
    def expected(known: tuple[Pair, ...]) -> float:
        now = value(known)
        waiting = [at for at, pair in enumerate(known) if pair == UNKNOWN]
        later = [
            sum(
                chance * expected((*known[:at], outcome, *known[at + 1 :]))
                for chance, outcome in zip(chances, OUTCOMES, strict=True)
            )
            for at in waiting
        ]
        return max(now, *later, -inf)

    return expected((UNKNOWN,) * pairs)


@pytest.mark.parametrize("ties", [0.0, 0.4])
@pytest.mark.parametrize("pairs", [1, 2, 4, 6])
def test_the_evidence_is_an_e_value_at_any_stopping_time_and_order(pairs: int, ties: float) -> None:
    """Inference 8a: under the null its mean is at most 1, by any rule when to look."""
    chances = ((1 - ties) / 2, (1 - ties) / 2, ties)
    best = best_stop(pairs, chances, lambda known: evidence_better(known, known, pairs))
    assert best <= 1 + 1e-9
    without_order = best_stop(pairs, chances, lambda known: evidence_better([], known, pairs))
    assert without_order <= 1 + 1e-9


def test_the_largest_value_alone_is_no_e_value() -> None:
    """So the test above can fail: the value that ranks and gates use has a mean above 1."""
    assert best_stop(6, (0.5, 0.5, 0.0), lambda known: evidence_worse(known, 6)) > 1.3


def test_results_only_add_evidence_so_the_last_look_sees_what_any_look_saw() -> None:
    chance = Random(4)
    for _ in range(20):
        every = [chance.choice(OUTCOMES) for _ in range(30)]
        known, seen = [UNKNOWN] * 30, [0.0]
        for at in chance.sample(range(30), 30):
            known[at] = every[at]
            seen.append(evidence_better(known, known, 30))
        assert seen == sorted(seen)


def test_the_evidence_is_the_mean_of_both_parts() -> None:
    pairs = [Pair(False, True)] * 12 + [Pair(True, False)] * 3 + [Pair(None, True)] * 2
    at_end = e_value(*at_worst(pairs, 20))
    expected = (at_end + adjusted(evidence_worse(pairs, 20))) / 2
    assert evidence_better(pairs, pairs, 20) == rounded(expected)


# -----------------------------------------------------------------------------
# Drops of a race.


def by_p_values(evidence: dict[tuple[str, str], float], hypotheses: int) -> set[tuple[str, str]]:
    """Holm as his paper has it: sorted p values, the first that is too large ends it."""
    shown: set[tuple[str, str]] = set()
    for rank, (pair, value) in enumerate(sorted(evidence.items(), key=lambda one: -one[1])):
        if not value or 1 / Fraction(value) > Fraction(1, 20) / (hypotheses - rank):
            break
        shown.add(pair)
    return shown


def test_drops_are_directions_that_holm_shows_and_one_candidate_always_stays() -> None:
    chance = Random(5)
    for _ in range(300):
        names = "abcde"[: chance.randint(2, 5)]
        directions = list(permutations(names, 2))
        evidence = {one: round(10 ** chance.uniform(-1, 5), 6) for one in directions}
        result = drops(evidence, names, len(directions))
        assert set(result) <= by_p_values(evidence, len(directions))
        left = set(names)
        for worse, better in result:
            assert {worse, better} <= left
            left.remove(worse)
        assert left
        assert not drops(evidence, left, len(directions))


def test_a_candidate_is_dropped_by_one_that_is_not() -> None:
    evidence = {("a", "b"): 1e6, ("b", "a"): 1e5}
    assert drops(evidence, "ab", 2) == [("a", "b")]
    assert drops(evidence, "b", 2) == [], "whatever comes later"


def test_against_a_baseline_there_are_as_many_hypotheses_as_candidates() -> None:
    """Holm: 60 is needed of the strongest of three, then 40."""
    evidence = {("a", "base"): 61.0, ("b", "base"): 41.0, ("c", "base"): 19.0}
    assert drops(evidence, ["a", "b", "c", "base"], 3) == [("a", "base"), ("b", "base")]
    assert drops(evidence | {("a", "base"): 59.0}, ["a", "b", "c", "base"], 3) == []
