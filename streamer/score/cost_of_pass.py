"""What one pass costs (R14): of a trial, which is a group of one, and of a group."""

from __future__ import annotations

import math


def cost_of_pass(cost_per_pass: float | None, passes: int) -> float | None:
    """Cost of one pass in USD: Infinity without a pass, whatever is known of the cost (R14).

    Args:
        cost_per_pass: the known costs, failed trials' included, over the passes among the trials with a
            known cost; None: no pass has a known cost.
        passes: how many trials passed, at a known cost or not.

    >>> cost_of_pass(0.5, 8), cost_of_pass(None, 8), cost_of_pass(None, 0)
    (0.5, None, inf)
    """
    return cost_per_pass if passes else math.inf
