"""Two agents on the same tasks: the final difference, and evidence at any look (inference 7).

A pair is the same task and attempt on both sides. The pairs stand in the order of the side that began later.
An unknown pair counts in every way that is still possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import comb
from typing import NamedTuple, Protocol

from streamer.inference.finite_population import (
    ALPHA,
    Outcome,
    Passes,
    at_prefixes,
    final_of_prefixes,
    prefixes,
)
from streamer.stats.errors import StatsError
from streamer.stats.rounding import quotient

DIFFERENCE_PREFIXES = 16
"""Prefixes that the final difference looks at: a margin has two sides, and each look is asked for twice."""


class Pair(NamedTuple):
    """The outcomes of both sides; None without a final value."""

    ours: Outcome
    theirs: Outcome

    def won(self) -> Outcome:
        """Whether only we passed; None while that is still possible.

        >>> Pair(True, False).won(), Pair(True, None).won(), Pair(None, True).won()
        (True, None, False)
        """
        if self.ours is False or self.theirs is True:
            return False
        return None if self.ours is None or self.theirs is None else True

    def lost(self) -> Outcome:
        """Whether only they passed; None while that is still possible."""
        return Pair(self.theirs, self.ours).won()


class Compared(Protocol):
    """Both sides of a pair, or of a task."""

    def won(self) -> Outcome: ...
    def lost(self) -> Outcome: ...


class Ends(NamedTuple):
    """The lowest and the highest value that a number can still take, exact."""

    low: Fraction
    high: Fraction


class FinalDifference(NamedTuple):
    """Our final passes less theirs, over all planned pairs: from `low` to `high`.

    Attributes:
        low, high: whole pairs. `low > high` says that no difference is possible: the assumptions do not hold.
        planned: pairs.
    """

    low: int
    high: int
    planned: int

    @property
    def empty(self) -> bool:
        """Whether no difference agrees with every prefix."""
        return self.low > self.high

    def ends(self) -> Ends:
        """The same as differences of pass rates, exact; nothing lies between them if it is empty."""
        return Ends(Fraction(self.low, self.planned), Fraction(self.high, self.planned))

    def rates(self) -> tuple[float, float]:
        """The same as differences of pass rates, -1 to 1."""
        return quotient(self.low, self.planned), quotient(self.high, self.planned)


def final_difference(
    pairs: Sequence[Pair], planned: int, alpha: Fraction = ALPHA, every: Sequence[Compared] = ()
) -> FinalDifference:
    """Which final differences are possible, however often you look.

    Wins and losses each have the interval of section 5 at half of alpha.

    Args:
        pairs: in order; what is not listed is unknown.
        planned: pairs, at least as many, and at least 1; otherwise StatsError.
        every: all pairs, in any order, also those without a place in the order: the last prefix has them.

    >>> pairs = [Pair(False, True), Pair(True, True), Pair(False, False)] * 10
    >>> final_difference(pairs, planned=89), final_difference(pairs, planned=30)
    (FinalDifference(low=-54, high=2, planned=89), FinalDifference(low=-10, high=-10, planned=30))
    """
    if planned < max(1, len(pairs)):
        raise StatsError.unfit("final_difference", planned, f"a plan of at least {max(1, len(pairs))} pairs")
    sizes = prefixes(planned, DIFFERENCE_PREFIXES)
    won, lost = (
        final_of_prefixes(planned, at_prefixes(one, sizes), alpha / 2)
        for one in ([pair.won() for pair in pairs], [pair.lost() for pair in pairs])
    )
    hard_won, hard_lost = _hard_wins_and_losses(every, planned)
    return difference_of(won.within(hard_won), lost.within(hard_lost))


def hard_difference(pairs: Sequence[Compared], planned: int) -> FinalDifference:
    """Which final differences the missing trials leave, with no assumption and in any order (inference 4).

    >>> hard_difference([Pair(True, False), Pair(None, True), Pair(None, None)], planned=4)
    FinalDifference(low=-2, high=3, planned=4)
    """
    return difference_of(*_hard_wins_and_losses(pairs, planned))


def difference_of(won: Passes, lost: Passes) -> FinalDifference:
    """The same of the final wins and losses that are possible, both of the same plan.

    >>> difference_of(Passes(2, 7, 10), Passes(1, 3, 10))
    FinalDifference(low=-1, high=6, planned=10)
    """
    planned = won.planned
    if won.empty or lost.empty:
        return FinalDifference(planned + 1, -planned - 1, planned)
    return FinalDifference(won.low - lost.high, won.high - lost.low, planned)


def _hard_wins_and_losses(pairs: Sequence[Compared], planned: int) -> tuple[Passes, Passes]:
    won, lost = [pair.won() for pair in pairs], [pair.lost() for pair in pairs]
    return (
        Passes(won.count(True), planned - won.count(False), planned),
        Passes(lost.count(True), planned - lost.count(False), planned),
    )


class GateVerdict(StrEnum):
    """What a gate says. `undecided` at the end means that the evidence does not suffice either way."""

    PASS = "pass"  # noqa: S105 (no password)
    FAIL = "fail"
    UNDECIDED = "undecided"


def gate(difference: FinalDifference, margin: Fraction) -> GateVerdict:
    """Whether this run ends at most `margin` (0 to 1, exact) behind. It judges this run, not the agent.

    >>> differences = [FinalDifference(-2, 5, 100), FinalDifference(-9, -3, 100), FinalDifference(-9, 5, 100)]
    >>> [str(gate(difference, Fraction("0.02"))) for difference in differences]
    ['pass', 'fail', 'undecided']
    """
    return no_further_behind(difference.ends(), margin)


def no_further_behind(ends: Ends | None, margin: Fraction) -> GateVerdict:
    """Whether a number is at least `-margin`, wherever between its ends it lies.

    >>> answers = [no_further_behind(Ends(Fraction(low, 100), Fraction(high, 100)), Fraction("0.02"))
    ...     for low, high in ((-2, 5), (-9, -3), (-9, 5))]
    >>> [str(answer) for answer in answers], str(no_further_behind(None, Fraction(0)))
    (['pass', 'fail', 'undecided'], 'undecided')
    """
    if ends is None or ends.low > ends.high:
        return GateVerdict.UNDECIDED
    if ends.low >= -margin:
        return GateVerdict.PASS
    return GateVerdict.FAIL if ends.high < -margin else GateVerdict.UNDECIDED


def evidence_worse(pairs: Sequence[Compared], planned: int) -> float:
    """The evidence that we are worse: the largest e-value over the prefixes of the order.

    On tasks where neither is favoured it ever reaches 1/alpha with probability alpha at most. Reject at
    1/alpha for a direction that was fixed beforehand, and at 2/alpha if either may be claimed.

    Args:
        pairs: one for each task, in order. An unknown pair counts as a win as long as it can be one.
        planned: tasks, at least as many.

    >>> evidence_worse([Pair(False, True)] * 7, planned=50), evidence_worse([], planned=50)
    (31.875, 1.0)
    """
    wins = list(accumulate((pair.won() is not False for pair in pairs), initial=0))
    losses = list(accumulate((pair.lost() is True for pair in pairs), initial=0))
    seen = (size for size in prefixes(planned) if size <= len(pairs))
    return max((e_value(wins[size], losses[size]) for size in seen), default=1.0)


@lru_cache(maxsize=1 << 14)
def e_value(wins: int, losses: int) -> float:
    """One-sided evidence that a coin which fell so often for and against us is against us.

    The likelihood of chances from 1/2 to 1 against us, all equally likely beforehand, over the likelihood of
    1/2. With n = wins + losses that is sum_{j <= losses} C(n+1, j) / ((n+1) C(n, losses)).

    >>> e_value(10, 30), e_value(0, 8), e_value(0, 0)
    (63.227923732015974, 56.77777777777778, 1.0)
    """
    tosses = wins + losses
    below = sum(comb(tosses + 1, fell) for fell in range(losses + 1))
    return quotient(below, (tosses + 1) * comb(tosses, losses))
