"""Many candidates with one error: the verdicts of a ledger, and the candidates that a race may drop.

- A ledger judges each candidate against a baseline (inference 8a). On average at most 5 % of its "better"
  verdicts are false, however many candidates come and whenever you look.
- A race compares candidates that were declared together. With 95 % probability no drop is ever wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from math import expm1, log
from typing import NamedTuple

from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import Compared, Direction, at_worst, e_value, evidence_worse, holm

# -----------------------------------------------------------------------------
# The evidence for one candidate: an e-value at any moment.


DIGITS = 12
"""Significant digits of evidence and levels that are the same on every machine."""

_SERIES_BELOW = 0.1
_SERIES_TERMS = 12


def adjusted(largest: float) -> float:
    """An e-value from the largest value M of an e-process: (M - 1 - ln M) / ln^2 M, and 1/2 at M = 1.

    The largest value, at least 1, is not an e-value itself. Source: Shafer, Shen, Vereshchagin and Vovk,
    "Test martingales, Bayes factors and p-values", 2011.

    >>> adjusted(1.0), round(adjusted(20.0), 12), round(adjusted(31.875), 12)
    (0.5, 1.783322181482, 2.287441089045)
    """
    growth = log(largest)
    if growth >= _SERIES_BELOW:
        return (expm1(growth) - growth) / growth**2
    total = 0.0  # the difference above loses its digits here, so its series is summed: 1/2! + x/3! + ...
    for term in range(_SERIES_TERMS, -1, -1):
        total = (total * growth + 1) / (term + 2)
    return total


def evidence_better(ordered: Sequence[Compared], every: Sequence[Compared], planned: int) -> float:
    """The evidence that the candidate beats the baseline, above 0; an e-value at any moment.

    It is the mean of two e-values: one over all planned pairs, with unknown ones against the candidate, and
    one from the largest value over the prefixes of the order.

    Args:
        ordered: pairs in order, the baseline's outcome first; [] without an order.
        every: all known pairs, in any order.

    >>> from streamer.statistics.pairs import Pair
    >>> better, worse = [Pair(False, True)] * 30, [Pair(True, False)] * 30
    >>> evidence_better(better[:9], better[:9], 30), evidence_better(worse, worse, 30)
    (2.29249076091, 0.266129032258)
    """
    at_end = e_value(*at_worst(every, planned))
    return rounded((at_end + adjusted(evidence_worse(ordered, planned))) / 2)


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


# -----------------------------------------------------------------------------
# The levels of a ledger, candidate by candidate (e-LOND).


TOTAL = 2.1097428012368919745
"""Sum of 1 / (k ln^2 k) over k = 2, 3, ... (OEIS A115563)."""


def share(place: int) -> float:
    """The share of alpha for the candidate at a place, from 1; all shares add up to 1.

    >>> [round(share(place), 6) for place in (1, 2, 10, 100)]
    [0.493276, 0.130906, 0.007494, 0.00022]
    """
    return 1 / ((place + 1) * log(place + 1) ** 2 * TOTAL)


class Judged(NamedTuple):
    """The verdict on one candidate of a ledger.

    `level` is its part of alpha, which grows with each earlier "better" verdict. `needed` is 1 / level.
    """

    level: float
    needed: float
    better: bool


def judged(evidence: Iterable[float], alpha: Fraction = ALPHA) -> list[Judged]:
    """The verdicts of a ledger. On average, at most a share `alpha` of the "better" ones is ever false.

    The candidates' evidence may be dependent in any way. It is in the order of declaration; 0: nothing is
    known. Source: Xu and Ramdas, "Online multiple testing with e-values", 2024 (e-LOND).

    >>> [one.better for one in judged([1000.0, 80.0, 80.0])], [one.better for one in judged([0.0, 160.0])]
    ([True, True, False], [False, True])
    """
    result, discoveries = list[Judged](), 0
    for place, value in enumerate(evidence, start=1):
        level = float(alpha) * share(place) * (discoveries + 1)
        needed = rounded(1 / level)
        result.append(Judged(rounded(level), needed, better=value >= needed))
        discoveries += result[-1].better
    return result


# -----------------------------------------------------------------------------
# A race: candidates declared together, some of which may be dropped early.


def drops(
    evidence: Mapping[Direction, float], racing: Collection[str], hypotheses: int, alpha: Fraction = ALPHA
) -> list[Direction]:
    """The candidates that may be dropped now, each with a better candidate.

    Holm's method over all directed pairs, because the data choose the leader. A candidate is dropped if it is
    worse than one that stays. The strongest evidence decides first.

    Args:
        evidence: the largest evidence of (worse, better) at any look; 0 unless the mean agrees.
        racing: the candidates not yet dropped, and a baseline, which is never dropped.
        hypotheses: directed pairs of the race: m(m-1) among m candidates, m against one baseline.
        alpha: chance that any drop is ever wrong.

    >>> seen = {("a", "b"): 5e3, ("c", "a"): 9e4, ("b", "c"): 1e2}
    >>> drops(seen, "abc", 6), drops(seen, "ac", 6), drops({("a", "b"): 100.0}, "ab", 6)
    ([('c', 'a'), ('a', 'b')], [('c', 'a')], [])
    """

    def at(level: Fraction) -> list[Direction]:
        return [one for one, value in evidence.items() if Fraction(value) * level >= 1]

    shown = holm(hypotheses, at, alpha)
    left, result = set(racing), list[Direction]()
    for worse, better in sorted(shown, key=lambda one: (-evidence[one], one)):
        if worse in left and better in left:
            left.remove(worse)
            result.append((worse, better))
    return result
