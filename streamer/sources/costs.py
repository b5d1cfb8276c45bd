"""Which of the costs that a harness writes are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.model_names import BASELINE_LABELS


def known_cost(cost: Any, *tokens: Any) -> Any:
    """The cost that a harness writes, None where it is unknown (R2): 0 beside tokens has no price behind it.

    >>> known_cost(0.0, None, 9), known_cost(0.0, 0), known_cost(0.5, 9)
    (None, 0.0, 0.5)
    """
    return None if cost == 0 and any(isinstance(count, int) and count > 0 for count in tokens) else cost


def reported_cost(result: Mapping[str, Any], agent: str) -> Any:
    """The `total_cost` of a result, None where it is unknown (R2).

    fc-eval and Terminal-Bench write 0.0 also when they do not know: beside tokens the model has no price
    (E4). An agent without tokens is one whose tokens were not counted. Only baselines cost nothing.

    >>> reported_cost({"total_cost": 0.0, "total_input_tokens": 9}, "nop")
    >>> reported_cost({"total_cost": 0.0, "total_input_tokens": 0}, "terminus-2")
    >>> reported_cost({"total_cost": 0.0}, "nop"), reported_cost({"total_cost": 0.5}, "terminus-2")
    (0.0, 0.5)
    """
    tokens = (result.get("total_input_tokens"), result.get("total_output_tokens"))
    cost = known_cost(result.get("total_cost"), *tokens)
    return None if cost == 0 and agent not in BASELINE_LABELS else cost
