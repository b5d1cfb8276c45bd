"""Two agents on the same tasks: the final difference, evidence at any look, and places (inference 7).

A pair is the same task and attempt on both sides. The pairs stand in the order of the side that began later.
An unknown pair counts in every way that is still possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, takewhile
from math import comb
from typing import NamedTuple

from streamer.inference.finite_population import ALPHA, Outcome, final, prefixes
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


class FinalDifference(NamedTuple):
    """Our final passes less theirs, over all planned pairs: from `low` to `high`.

    Attributes:
        low, high: whole pairs. `low > high` says that no difference is possible: the assumptions do not hold.
        planned: pairs.
    """

    low: int
    high: int
    planned: int

    def rates(self) -> tuple[float, float]:
        """The same as differences of pass rates, -1 to 1."""
        return quotient(self.low, self.planned), quotient(self.high, self.planned)


def final_difference(pairs: Sequence[Pair], planned: int, alpha: Fraction = ALPHA) -> FinalDifference:
    """Which final differences are possible, however often you look.

    Wins and losses each have the interval of section 5 at half of alpha.

    Args:
        pairs: in order; what is not listed is unknown.
        planned: pairs, at least as many, and at least 1; otherwise StatsError.

    >>> pairs = [Pair(False, True), Pair(True, True), Pair(False, False)] * 10
    >>> final_difference(pairs, planned=89), final_difference(pairs, planned=30)
    (FinalDifference(low=-54, high=2, planned=89), FinalDifference(low=-10, high=-10, planned=30))
    """
    wins = final([pair.won() for pair in pairs], planned, (), alpha / 2, DIFFERENCE_PREFIXES)
    losses = final([pair.lost() for pair in pairs], planned, (), alpha / 2, DIFFERENCE_PREFIXES)
    if wins.empty or losses.empty:
        return FinalDifference(planned + 1, -planned - 1, planned)
    return FinalDifference(wins.low - losses.high, wins.high - losses.low, planned)


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
    if difference.low > difference.high:
        return GateVerdict.UNDECIDED
    if difference.low >= -margin * difference.planned:
        return GateVerdict.PASS
    return GateVerdict.FAIL if difference.high < -margin * difference.planned else GateVerdict.UNDECIDED


def evidence_worse(pairs: Sequence[Pair], planned: int) -> float:
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


def e_value_either(wins: int, losses: int) -> float:
    """Two-sided evidence that the coin is not fair: 2^n / ((n+1) C(n, wins)).

    >>> e_value_either(0, 8)
    28.444444444444443
    """
    tosses = wins + losses
    return quotient(2**tosses, (tosses + 1) * comb(tosses, wins))


def places(
    agents: Iterable[str], p_values: Mapping[tuple[str, str], float], alpha: Fraction = ALPHA
) -> dict[str, tuple[int, int]]:
    """The best and the worst place that each agent may truly have: all ranges hold together.

    Holm's method over all directed pairs. An agent stands behind every agent that it is shown to be worse
    than. Two agents may be shown to be worse than each other, at different looks. Neither then stands behind
    the other.

    Args:
        agents: all that are ranked.
        p_values: of "the first is worse than the second" by (first, second). A pair that is not there is 1.

    >>> places("abc", {("c", "a"): 0.001, ("c", "b"): 0.002, ("b", "a"): 0.04})
    {'a': (1, 2), 'b': (1, 2), 'c': (3, 3)}
    """
    ranked = list(agents)
    shown = _rejected(p_values, len(ranked) * (len(ranked) - 1), alpha)
    certain = [(behind, ahead) for behind, ahead in shown if (ahead, behind) not in shown]
    best = Counter(behind for behind, _ in certain)
    worst = Counter(ahead for _, ahead in certain)
    return {agent: (1 + best[agent], len(ranked) - worst[agent]) for agent in ranked}


def _rejected(
    p_values: Mapping[tuple[str, str], float], hypotheses: int, alpha: Fraction
) -> set[tuple[str, str]]:
    """Rejected by Holm's method: the smallest p at alpha/m, the next at alpha/(m-1), until one fails."""
    ascending = sorted(p_values.items(), key=lambda item: item[1])
    kept = takewhile(
        lambda item: Fraction(item[1][1]) * (hypotheses - item[0]) <= alpha, enumerate(ascending)
    )
    return {pair for _, (pair, _) in kept}
