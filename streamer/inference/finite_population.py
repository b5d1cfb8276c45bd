"""The interval of the pass rate that a run will end with, valid however often you look (inference 5).

A run plans N trials, in an order that has nothing to do with their outcomes. M of them will pass. Trials come
in, and you want to know which M are still possible. Each prefix of the order says something: with S passes
among its s trials,

    (N+1) * C(M,S) * C(N-M,s-S) / C(N+1,s+1)

is how much better M explains the prefix than a prior under which every M from 0 to N is equally likely. For
the true M this ratio is a martingale of mean 1. So the probability that it ever falls to alpha is alpha at
most. Source: Waudby-Smith and Ramdas, "Confidence sequences for sampling without replacement", 2020, arXiv
2006.04347.

The M above alpha are a range without gaps. A trial without a final value is counted both ways, as failed for
the lower end and as passed for the upper end. So it does not matter what decides which trials are still
unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, lgamma, log

from streamer.stats.errors import StatsError
from streamer.stats.rounding import quotient

ALPHA = Fraction(1, 20)
"""Chance that an interval ever misses, exact. Everything that is published has the level 95 %."""

PREFIXES = 64
"""So many prefixes of the order are looked at: every ceil(jN/64) trials."""

_UNSURE = 1e-6
"""A logarithm this close to 0 is not trusted: integers decide. Rounding errors are far smaller."""

_CACHED = 1 << 16
"""Ends that are remembered: 64 prefixes with two ends each, of 500 looks."""

Outcome = bool | None
"""True: passed. False: did not pass. None: no final value, for whatever reason (inference 3)."""


@dataclass(frozen=True, slots=True)
class Passes:
    """How many of the planned trials will have passed in the end: from `low` to `high`, both possible.

    Attributes:
        low, high: whole trials; `low > high` says that no number is possible any more: the assumptions do not
            hold.
        planned: trials, at least one.
    """

    low: int
    high: int
    planned: int

    @property
    def empty(self) -> bool:
        """Whether no number of passes agrees with every prefix; show the hard bounds then, and say so."""
        return self.low > self.high

    def rates(self) -> tuple[float, float]:
        """The same as pass rates, 0 to 1.

        >>> Passes(13, 76, 89).rates()
        (0.14606741573033707, 0.8539325842696629)
        """
        return quotient(self.low, self.planned), quotient(self.high, self.planned)

    def grown(self, later: Sequence[Outcome]) -> Passes:
        """The same for a plan with more trials, which are counted both ways; an empty one stays empty.

        >>> Passes(13, 76, 89).grown([True, None])
        Passes(low=14, high=78, planned=91)
        """
        passed = later.count(True)
        perhaps = 0 if self.empty else later.count(None)
        return Passes(self.low + passed, self.high + passed + perhaps, self.planned + len(later))

    def within(self, bounds: Passes) -> Passes:
        """What agrees with both; of the same plan.

        >>> Passes(13, 76, 89).within(Passes(5, 60, 89))
        Passes(low=13, high=60, planned=89)
        """
        return Passes(max(self.low, bounds.low), min(self.high, bounds.high), self.planned)

    def with_unknown(self, trials: int) -> Passes:
        """The same for a plan with so many more trials, of which nothing is known.

        >>> Passes(13, 76, 89).with_unknown(2)
        Passes(low=13, high=78, planned=91)
        """
        return Passes(self.low, self.high + trials, self.planned + trials)


def final(
    outcomes: Sequence[Outcome],
    planned: int,
    later: Sequence[Outcome] = (),
    alpha: Fraction = ALPHA,
    looks: int = PREFIXES,
) -> Passes:
    """Which final numbers of passes are possible (inference 5).

    Args:
        outcomes: of the first plan's trials, in the order of the plan. It may end early: the rest is unknown.
        planned: trials of the first plan, 1 or more; a plan with fewer trials than outcomes raises
            StatsError.
        later: outcomes of all trials that joined the plan after the run had begun. They are counted both
            ways.
        alpha: chance of an interval that misses at any look, between 0 and 1, exact.
        looks: how many prefixes are looked at.

    Ten trials of a plan of 89, five of them passed, and then one more of which nothing is known:

    >>> final([True, False] * 5, planned=89).rates()
    (0.16853932584269662, 0.8539325842696629)
    >>> final([True, False] * 5, planned=89, later=[None])
    Passes(low=15, high=77, planned=90)
    >>> final([True, None, False, True], planned=4)
    Passes(low=2, high=3, planned=4)

    Twenty passes and then 25 failures do not happen in an order that has nothing to do with the outcomes:

    >>> final([True] * 20 + [False] * 25, planned=89).empty
    True
    """
    if planned < max(1, len(outcomes)):
        raise StatsError.unfit("final", planned, f"a plan of at least {max(1, len(outcomes))} trials")
    return final_of_prefixes(planned, at_prefixes(outcomes, prefixes(planned, looks)), alpha).grown(later)


def final_of_prefixes(
    planned: int, counts: Iterable[tuple[int, int, int]], alpha: Fraction = ALPHA
) -> Passes:
    """The same of counts: trials, passes and unknowns of each prefix.

    >>> final_of_prefixes(89, [(10, 5, 0), (45, 20, 3)])
    Passes(low=27, high=59, planned=89)
    """
    chance = alpha.as_integer_ratio()
    low, high = 0, planned
    for seen, passed, unknown in counts:
        low = max(low, _lowest(planned, seen, passed, *chance))
        high = min(high, planned - _lowest(planned, seen, seen - passed - unknown, *chance))
    return Passes(low, high, planned)


def final_without_order(
    passed: int, failed: int, planned: int, concurrency: int, stopped: int = 0, alpha: Fraction = ALPHA
) -> Passes:
    """The same where only the number of trials that run at once is known (inference 3).

    Trials start in shuffled order, so those that have started are a prefix of it. At most `concurrency` of
    them are still running. With those counted as unknown, one prefix is known without any order.

    Args:
        passed, failed: trials with a final value.
        planned: trials of the plan, at least `passed + failed`, and at least 1.
        concurrency: trials that run at once, 1 or more.
        stopped: other trials that started and have no final value: crashed, cancelled, retracted, waiting for
            a judge.

    >>> final_without_order(passed=20, failed=25, planned=89, concurrency=8)
    Passes(low=23, high=58, planned=89)
    """
    known = passed + failed
    if planned < max(1, known):
        raise StatsError.unfit("final_without_order", planned, f"a plan of at least {max(1, known)} trials")
    unknown = min(min(concurrency, planned - known) + stopped, planned - known)
    low = max(passed, lowest(planned, known + unknown, passed, alpha))
    high = min(planned - failed, highest(planned, known + unknown, passed + unknown, alpha))
    return Passes(low, high, planned)


@lru_cache(maxsize=1024)
def prefixes(planned: int, looks: int = PREFIXES) -> tuple[int, ...]:
    """How many trials each prefix has: ceil(jN/looks) for j = 1 to `looks`, each once.

    >>> prefixes(5), prefixes(130)[:6], len(prefixes(130)), prefixes(130)[-1]
    ((1, 2, 3, 4, 5), (3, 5, 7, 9, 11, 13), 64, 130)
    """
    return tuple(sorted({-(-number * planned // looks) for number in range(1, looks + 1)}))


def lowest(planned: int, seen: int, passed: int, alpha: Fraction = ALPHA) -> int:
    """L(S,s): the smallest possible number of passes among all, once `passed` of the first `seen` passed.

    >>> lowest(89, 10, 5), lowest(89, 45, 20), lowest(500, 400, 300), lowest(89, 0, 0), lowest(89, 89, 38)
    (13, 27, 357, 0, 38)
    """
    return _lowest(planned, seen, passed, *alpha.as_integer_ratio())


def highest(planned: int, seen: int, passed: int, alpha: Fraction = ALPHA) -> int:
    """U(S,s): the largest such number. As many as possible pass if as few as possible do not.

    >>> highest(89, 10, 5), highest(89, 45, 20), highest(500, 400, 300), highest(89, 0, 0)
    (76, 54, 391, 89)
    """
    return planned - lowest(planned, seen, seen - passed, alpha)


def possible(planned: int, seen: int, passed: int, final_passes: int, alpha: Fraction = ALPHA) -> bool:
    """Whether so many passes in the end agree with those seen: the definition of inference 5, in integers.

    >>> [possible(89, 10, 5, final_passes) for final_passes in (12, 13, 76, 77)]
    [False, True, True, False]
    """
    return _possible(planned, seen, passed, final_passes, *alpha.as_integer_ratio())


def at_prefixes(outcomes: Sequence[Outcome], sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(trials, passes, unknowns) of each prefix; what is not listed is unknown."""
    passed = failed = 0
    for start, end in pairwise((0, *sizes)):
        block = outcomes[start:end]
        passed += block.count(True)
        failed += block.count(False)
        yield end, passed, end - passed - failed


@lru_cache(maxsize=_CACHED)
def _lowest(planned: int, seen: int, passed: int, numerator: int, denominator: int) -> int:
    """Bisection between the least that is left possible and the M that explains the prefix best.

    The ratio grows up to that M. It is at least 1 there, because its mean over all M is 1; so that M is
    possible.
    """
    failed = seen - passed
    best = passed if not seen else (planned + 1) * passed // seen
    best = max(passed, min(best, planned - failed))
    logs = _log_factorials((planned + 1).bit_length())
    level = log(denominator / numerator) + log(planned + 1) - logs[passed] - logs[failed]
    level -= logs[planned + 1] - logs[seen + 1] - logs[planned - seen]

    def is_possible(final_passes: int) -> bool:
        left = planned - final_passes
        ratio = level + logs[final_passes] - logs[final_passes - passed] + logs[left] - logs[left - failed]
        if abs(ratio) < _UNSURE:
            return _possible(planned, seen, passed, final_passes, numerator, denominator)
        return ratio > 0

    return passed + bisect_left(range(passed, best), True, key=is_possible)


def _possible(
    planned: int, seen: int, passed: int, final_passes: int, numerator: int, denominator: int
) -> bool:
    failed = seen - passed
    if not passed <= final_passes <= planned - failed:
        return False
    ways = comb(final_passes, passed) * comb(planned - final_passes, failed)
    return denominator * (planned + 1) * ways > numerator * comb(planned + 1, seen + 1)


@lru_cache(maxsize=32)
def _log_factorials(bits: int) -> list[float]:
    """log(n!) for each n of at most so many bits."""
    return [lgamma(number + 1) for number in range(1 << bits)]
