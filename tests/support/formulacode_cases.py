"""The cases of the shared FormulaCode data: inputs, and what fc-eval 0.1.0 computed from them."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.support.data import shared_data

ADVANTAGES = ("agent_advantage", *(f"agent_advantage_level{level}" for level in (1, 2, 3, 4)))
TOLERANCE = 1e-9
"""Relative; fc-eval sums floats one by one, we round once (A7, A8)."""


@dataclass(frozen=True)
class Case:
    """One case. `input` and `expected` are decoded: `{"$float": "nan"}` is a float."""

    id: str
    kind: str
    tags: tuple[str, ...]
    input: Any
    expected: Any


def decoded(value: Any) -> Any:
    """Strict JSON back to Python: `{"$float": "inf"}` is a float."""
    if isinstance(value, dict):
        if set(value) == {"$float"}:
            return float(value["$float"])
        return {key: decoded(inner) for key, inner in value.items()}
    return [decoded(inner) for inner in value] if isinstance(value, list) else value


def cases(kind: str) -> list[Case]:
    """All cases of a kind, in the file's order; at least one."""
    result = [case for case in _all() if case.kind == kind]
    assert result, f"no case of kind {kind}"
    return result


def kinds() -> set[str]:
    """All kinds of cases that there are."""
    return {case.kind for case in _all()}


def the_case(kind: str) -> Case:
    """The only case of a kind (the tables)."""
    (case,) = cases(kind)
    return case


def close(expected: float | None) -> Any:
    """Equal within the relative tolerance; null equals null only."""
    return None if expected is None else pytest.approx(expected, rel=TOLERANCE, abs=1e-15, nan_ok=True)


def close_difference(expected: float | None, *parts: float) -> Any:
    """Like :func:`close` for a difference: the tolerance grows with what is subtracted (README)."""
    scale = max([1.0, *(abs(part) for part in parts if math.isfinite(part))])
    return None if expected is None else pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE * scale)


@cache
def _all() -> list[Case]:
    folder = shared_data() / "formulacode"
    with (
        gzip.open(folder / "cases.jsonl.gz", "rt", encoding="utf-8") as asked,
        gzip.open(folder / "expected.jsonl.gz", "rt", encoding="utf-8") as answered,
    ):
        pairs = [(json.loads(a), json.loads(b)) for a, b in zip(asked, answered, strict=True)]
    assert all(a["id"] == b["id"] for a, b in pairs)
    return [
        Case(a["id"], a["kind"], tuple(a["tags"]), decoded(a["input"]), decoded(b["expected"]))
        for a, b in pairs
    ]
