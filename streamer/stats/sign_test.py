"""The sign test, exact."""

from __future__ import annotations

from streamer.stats.rounding import quotient


def sign_test(fewer: int, more: int) -> float:
    """Two-sided p-value of the sign test: how often so lopsided a result would come of fair coins.

    Of pairs that differ, `fewer` went one way and `more` the other; ties are left out beforehand (Dixon and
    Mood, "The statistical sign test", 1946). With one pass or fail on each side of a pair it is McNemar's
    exact test. Integers inside, one rounding at the end; the order of the arguments does not matter.

    Args:
        fewer, more: >= 0; of no pairs at all the answer is 1.0: nothing speaks against chance.

    >>> sign_test(0, 5), sign_test(5, 0), sign_test(1, 4), sign_test(3, 3), sign_test(0, 0)
    (0.0625, 0.0625, 0.375, 1.0, 1.0)
    """
    pairs = fewer + more
    ways = term = 1
    for number in range(min(fewer, more)):
        term = term * (pairs - number) // (number + 1)
        ways += term
    return min(1.0, quotient(2 * ways, 2**pairs))
