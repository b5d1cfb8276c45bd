"""Many usual trials scored at once, by the rules of :func:`~streamer.score.score_trial`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.score.profiles import GradingProfile
from streamer.score.trial import MEASURED, Measured

_NUMBERS = (
    "resolved",
    "cost_usd",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "trajectory_length",
)
"""Fields of :data:`MEASURED` that are numbers or truth values, and have the same name once scored."""


def score_columns(rows: Sequence[Measured], profile: GradingProfile) -> dict[str, Any]:
    """Of at least one trial: the columns of :data:`MEASURED`, and what :class:`~streamer.score.Scored` adds.

    Numbers and truth values come as floats, NaN for what is unknown, but `success` as truth values, and
    `score` as it was.
    """
    columns: dict[str, Any] = dict(zip(MEASURED, zip(*rows, strict=True), strict=True))
    columns |= {name: float_column(columns[name]) for name in _NUMBERS}
    success, cost = columns["resolved"] == 1.0, columns["cost_usd"]  # (R20)
    pass_rate = success.astype(np.float64)
    impl_rate = float_column(columns["score"]).clip(0.0, 1.0) + 0.0  # (R13, S2), never -0.0
    return columns | {
        "success": success,
        "pass_rate": pass_rate,
        "impl_rate": impl_rate,
        "composite": profile.composites(pass_rate, impl_rate),
        "cost_of_pass": np.where(np.isnan(cost), nan, np.where(success, cost, inf)),  # cost / pass_rate (R14)
    }


def float_column(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Some numbers or truth values as floats, NaN for None.

    >>> float_column([True, None, 3]).tolist()
    [1.0, nan, 3.0]
    """
    try:
        return np.fromiter(values, np.float64, len(values))  # which None is too much for
    except TypeError:
        return np.array(values, dtype=np.float64)
