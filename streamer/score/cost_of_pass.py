"""What one pass costs (R14): of a trial, which is a group of one, and of a group."""

from __future__ import annotations

import math


def cost_of_pass(total_cost: float | None, passes: float, passes_with_cost: float) -> float | None:
    """Cost of one pass in USD (R14): known cost / passes among the trials with known cost.

    No pass at all: Infinity, whatever is known of the cost. Passes, but none at a known cost: None.

    Args:
        total_cost: sum of the known costs, of failed trials too; None: none is known.
        passes: how many trials passed.
        passes_with_cost: how many of those have a known cost.

    >>> cost_of_pass(4.0, 8, 8), cost_of_pass(4.0, 0, 0), cost_of_pass(None, 0, 0), cost_of_pass(4.0, 1, 0)
    (0.5, inf, inf, None)
    """
    if not passes > 0:
        return math.inf
    if total_cost is None or not passes_with_cost > 0:
        return None
    return total_cost / passes_with_cost
