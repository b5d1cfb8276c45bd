"""Two agents on the same tasks, drawn at random. The truth is known, and no code of streamer is used.

Each task has a chance to pass of its own, and attempts at it are independent. The chances of both agents are
equal on some tasks and unrelated on the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """A kind of comparison.

    Attributes:
        tasks: how many.
        attempts, other_attempts: of both agents at a task; None: 1 to 5, at random for each task.
        rate: mean chance to pass, of both agents.
        alike: share of tasks on which both have the same chance: the correlation of their chances.
        spread: parameters of the beta distribution of chances add up to this; small: most tasks are easy or
            hard.
    """

    tasks: int
    attempts: int | None
    other_attempts: int | None
    rate: float
    alike: float
    spread: float = 1.0


def drawn(setting: Setting, random: np.random.Generator) -> tuple[Counts, Counts, Counts, Counts]:
    """Attempts and passes of the first agent by task, and of the second; their true rates are equal."""
    size = setting.tasks
    shape = setting.rate * setting.spread, (1 - setting.rate) * setting.spread
    ours, apart = random.beta(*shape, size), random.beta(*shape, size)
    theirs = np.where(random.random(size) < setting.alike, ours, apart)
    tried, other_tried = (
        random.integers(1, 6, size) if many is None else np.full(size, many)
        for many in (setting.attempts, setting.other_attempts)
    )
    return tried, random.binomial(tried, ours), other_tried, random.binomial(other_tried, theirs)


def in_rounds(
    tasks: int, attempts: int, rate: float, drop: float, random: np.random.Generator
) -> tuple[Counts, NDArray[np.bool_], NDArray[np.bool_]]:
    """The task of each pair in its order, and whether each agent passed; the first one is worse by `drop`.

    Each round has all tasks in an order of its own. On each task the first agent lacks the same share.
    """
    chances = random.beta(2 * rate, 2 * (1 - rate), tasks)
    order = np.concatenate([random.permutation(tasks) for _ in range(attempts)])
    theirs = random.random(len(order)) < chances[order]
    ours = random.random(len(order)) < chances[order] * (1 - drop / rate)
    return order, ours, theirs
