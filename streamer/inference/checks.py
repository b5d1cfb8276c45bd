"""Whether an order follows what it must not follow (inference 5, checks).

Both checks compare the square of a normal score with the square of its quantile, in integers and fractions.
So no rounding decides. An order that passes them is not shown to be shuffled: the interval rests on the
declared shuffle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import takewhile

from streamer.inference.finite_population import Outcome
from streamer.inference.quantiles import normal

DIFFICULTY_LEVEL = Fraction(1, 100)
"""How often a shuffled order fails the check against difficulty, which is made once."""

LOOKS = (4, 2, 1)
"""The check against outcomes is made when a 4th, a half and all of the plan are in."""

OUTCOME_LEVEL = Fraction(1, 100) / len(LOOKS)
"""How often a shuffled order fails the check against outcomes, at each of the three looks."""


def follows_difficulty(tasks: Sequence[str], difficulty: Mapping[str, float]) -> bool:
    """Whether the order of the tasks follows their difficulty, in either direction.

    Spearman's rank correlation rho of first places and difficulty, with mean ranks for ties; rho * sqrt(m-1)
    is compared with the normal distribution, two-sided, at `DIFFICULTY_LEVEL`.

    Args:
        tasks: the whole planned order. A task that comes again counts where it came first.
        difficulty: 0 to 1 by task; tasks without one are left out. With fewer than two, or if all are the
            same, nothing is followed.

    >>> tasks = [f"t{number}" for number in range(20)]
    >>> follows_difficulty(tasks, {task: number / 20 for number, task in enumerate(tasks)})
    True
    >>> follows_difficulty(tasks, {task: number % 3 / 3 for number, task in enumerate(tasks)})
    False
    """
    listed = [difficulty[task] for task in dict.fromkeys(tasks) if task in difficulty]
    places, ranks = _centred(list(range(len(listed)))), _centred(listed)
    together = sum(place * rank for place, rank in zip(places, ranks, strict=True))
    spread = sum(place * place for place in places) * sum(rank * rank for rank in ranks)
    return together**2 * (len(listed) - 1) > Fraction(normal(DIFFICULTY_LEVEL)) ** 2 * spread


def follows_outcome(outcomes: Sequence[Outcome], planned: int) -> bool:
    """Whether passes lie early or late in the order: a rank-sum test at a quarter, a half and all of the
    plan.

    Each look takes exactly the first N/4, N/2 or N trials, as soon as all of these have a final value.
    Finished trials beyond are left out, because which of them are finished depends on their outcomes.

    Args:
        outcomes: in order, from the first trial.
        planned: trials of the plan, N.

    >>> follows_outcome([True] * 20 + [False] * 20, planned=80)
    True
    >>> follows_outcome([True, False] * 40, planned=80)
    False
    """
    closed = list(takewhile(lambda outcome: outcome is not None, outcomes))
    sizes = [-(-planned // part) for part in LOOKS]
    return any(_passes_lie_apart(closed[:size]) for size in sizes if len(closed) >= size)


def _passes_lie_apart(outcomes: Sequence[Outcome]) -> bool:
    """Mann and Whitney's rank-sum test of the places of passes, normal approximation, no ties."""
    size, passed = len(outcomes), outcomes.count(True)
    places = _centred(list(range(size)))
    score = sum(place for place, outcome in zip(places, outcomes, strict=True) if outcome)
    variance = Fraction(passed * (size - passed) * (size + 1), 3)
    return score**2 > Fraction(normal(OUTCOME_LEVEL)) ** 2 * variance


def _centred(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value less its mean, so that all are whole; equal values share their mean rank.

    >>> _centred([0.1, 0.7, 0.7, 0.2])
    [-3, 2, 2, -1]
    """
    ascending = sorted(range(len(values)), key=lambda at: values[at])
    centred = [0] * len(values)
    start = 0
    while start < len(values):
        end = start
        while end < len(values) and values[ascending[end]] == values[ascending[start]]:
            end += 1
        for at in ascending[start:end]:
            centred[at] = start + end - len(values)
        start = end
    return centred
