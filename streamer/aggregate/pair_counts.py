"""Wins and losses of every two agents, in all and in prefixes of the order (inference 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.aggregate.tasks import Trials

Numbers = NDArray[np.int64]


class PairCounts(NamedTuple):
    """Counts of every two agents, [agent, other agent, prefix]; the last prefix is all that is planned.

    Attributes:
        won: pairs that the first agent wins for certain.
        can_win: pairs that it may win in the end, the won ones included.

    What the first agent loses is what the second one wins.
    """

    won: Numbers
    can_win: Numbers


def pair_counts(
    trials: Trials,
    unseen: int,
    orders: Sequence[list[int] | None],
    later: NDArray[np.bool_],
    sizes: Sequence[int],
) -> PairCounts:
    """Count in prefixes of the order of the side that began later.

    Args:
        trials: of all agents.
        unseen: planned columns of which nothing is known; they may be won by either side.
        orders: for each agent its columns in order, -1 for an unknown one; None: no order, so that only the
            last prefix says something.
        later: whether the first agent began later than the second.
        sizes: how many columns each prefix has, ascending.
    """
    agents = len(trials.low)
    won, can_win = (np.zeros((agents, agents, len(sizes)), np.int64) for _ in range(2))
    can_win[:, :, :-1] = np.array(sizes[:-1])  # without an order everything may still come
    padded = [
        np.pad(part, ((0, 0), (0, 1)), constant_values=end)
        for part, end in zip(trials, (1, 0, 1), strict=True)
    ]
    for agent in range(agents):
        others = np.flatnonzero(later[agent])
        order = orders[agent]
        if order is not None and len(others):
            columns = np.array((order + [-1] * sizes[-1])[: sizes[-1]], np.intp)
            ours, theirs = ([part[who][:, columns] for part in padded] for who in ([agent], others))
            ends = np.array(sizes[:-1], np.intp) - 1
            for first, second, one, two in ((agent, others, ours, theirs), (others, agent, theirs, ours)):
                sure, possible = _wins(one, two)
                won[first, second, :-1] = np.cumsum(sure, axis=1)[:, ends]
                can_win[first, second, :-1] = np.cumsum(possible, axis=1)[:, ends]
        sure, possible = _wins([part[[agent]] for part in trials], trials)
        won[agent, :, -1] = sure.sum(axis=1)
        can_win[agent, :, -1] = possible.sum(axis=1) + unseen
    return PairCounts(won, can_win)


def known_pairs(trials: Trials) -> Numbers:
    """How many pairs of every two agents have two final values."""
    return _together((trials.planned > 0) & (trials.low == trials.high))


def common_pairs(trials: Trials) -> Numbers:
    """How many pairs of every two agents are planned, started or in on both sides."""
    return _together(trials.planned > 0)


def _together(cells: NDArray[np.bool_]) -> Numbers:
    """In how many columns both of two agents have a mark; products of floats are fast, and exact here.

    `marks @ marks.T` would spread over all cores, and its threads spin while others need them.
    """
    marks = cells.astype(np.float64)
    found: Numbers = np.einsum("ac,bc->ab", marks, marks).astype(np.int64)
    return found


def _wins(
    ours: Sequence[NDArray[np.int32]], theirs: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Columns where we pass more often for certain, and where we may in the end.

    Neither side wins a column with unequal attempts, for the reason that `TaskPair.won` gives.
    """
    (planned, low, high), (other_planned, other_low, other_high) = ours, theirs
    even = planned == other_planned
    return even & (low > other_high), even & (high > other_low)
