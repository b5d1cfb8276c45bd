"""Values out of FormulaCode's JSON, made fit to travel: counts, numbers, benchmarks as written.

JSON that Python's reader accepts is wider than what an event may carry: NaN and Infinity, integers
of any size, half a surrogate pair, thousands of levels. Here each becomes the nearest thing that may
travel, or is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from streamer.schemas.limits import MAX_COUNT

_INT64 = 2**63
_KEPT_LEVELS = 3
"""Levels of lists and objects kept inside a benchmark's entry: sample lists and a little more."""


def count(value: Any) -> int:
    """A count as the harness takes it: through int(), 0 for what is no number (B5).

    Beyond 2**53 it is cut to that, which keeps its sign.

    >>> [count(value) for value in ("2", 0.9, None, float("nan"), "many", -2, True)]
    [2, 0, 0, 0, 0, -2, 1]

    Raises:
        OverflowError: for an infinite one, on which the harness stumbles (B4).
    """
    try:
        number = int(value)
    except (TypeError, ValueError):
        return 0
    return max(-MAX_COUNT, min(number, MAX_COUNT))


def number(value: Any) -> float | str:
    """A claimed number as the harness takes it: through float(); what is not finite as text (R14).

    Raises:
        ValueError: for what is no number, on which the harness stumbles (B4).
    """
    try:
        return _travelling(float(value))
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None


def raw_benchmarks(benchmarks: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Benchmarks as written, with non-finite numbers as text; invalid entries stay and count (A1, A4).

    >>> raw_benchmarks({"f": {"agent/nop": float("inf")}, "g": "x"})
    {'f': {'agent/nop': 'Infinity'}, 'g': 'x'}
    """
    return {_text(name): _json(entry, _KEPT_LEVELS) for name, entry in benchmarks.items()}


def _json(value: Any, levels: int) -> JsonValue:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return value
    if isinstance(value, int | float):
        return _travelling(_float(value))
    if not levels:
        return None
    if isinstance(value, dict):
        return {_text(key): _json(item, levels - 1) for key, item in value.items()}
    return [_json(item, levels - 1) for item in value]


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _travelling(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text(value: str) -> str:
    """Text without halves of surrogate pairs, which UTF-8 cannot hold."""
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
