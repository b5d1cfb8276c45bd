"""Speedups of single benchmarks: given as ratios or as seconds, and what they become on failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from pydantic import JsonValue

AGENT, ORACLE = "agent/nop", "oracle/nop"
_AGENT_SECONDS, _ORACLE_SECONDS, _NOP_SECONDS = "agent_s", "oracle_s", "nop_s"


@dataclass(frozen=True, slots=True)
class Speedup:
    """One benchmark. Values > 1 mean faster than the baseline (nop); None means invalid or missing (A1).

    Attributes:
        name: the benchmark.
        agent: speedup of the agent, valid or None.
        oracle: speedup of the human solution, valid or None.
    """

    name: str
    agent: float | None
    oracle: float | None

    @property
    def valid(self) -> bool:
        """Only benchmarks with both values count (A1, A2)."""
        return self.agent is not None and self.oracle is not None

    @property
    def advantage(self) -> float | None:
        """How much faster the agent is than the oracle; None where invalid."""
        return None if self.agent is None or self.oracle is None else self.agent - self.oracle


def speedups(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> list[Speedup]:
    """The effective speedup of each benchmark.

    With `fallback` the agent is treated as if it had changed nothing (C1): its value is 1.0, the
    oracle's is kept if it is a finite number, else 1.0, and entries that are not objects are dropped.
    """
    if fallback:
        return [
            Speedup(name, 1.0, _valid(_kept_oracle(entry)))
            for name, entry in benchmarks.items()
            if isinstance(entry, dict)
        ]
    return [Speedup(name, *_pair(entry)) for name, entry in benchmarks.items()]


def has_oracle(benchmarks: Mapping[str, JsonValue]) -> bool:
    """True if any benchmark has an oracle value at all, valid or not (R22)."""
    return any(
        isinstance(entry, dict) and (entry.get(ORACLE) is not None or entry.get(_ORACLE_SECONDS) is not None)
        for entry in benchmarks.values()
    )


def _pair(entry: Any) -> tuple[float | None, float | None]:
    if not isinstance(entry, dict):
        return None, None
    return _valid(_value(entry, AGENT, _AGENT_SECONDS)), _valid(_value(entry, ORACLE, _ORACLE_SECONDS))


def _kept_oracle(entry: dict[str, Any]) -> float:
    value = _value(entry, ORACLE, _ORACLE_SECONDS)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 1.0


def _value(entry: dict[str, Any], ratio: str, seconds: str) -> Any:
    """The ratio as given, else nop / own of the (median) seconds, else None."""
    if ratio in entry or seconds not in entry:
        return entry.get(ratio)
    own, nop = _seconds(entry[seconds]), _seconds(entry.get(_NOP_SECONDS))
    return None if own is None or nop is None else nop / own


def _seconds(value: Any) -> float | None:
    """Positive finite seconds, the median of a list of them; None otherwise."""
    samples = value if isinstance(value, list) else [value]
    if not samples or any(_valid(sample) is None for sample in samples):
        return None
    return float(median(samples))


def _valid(value: Any) -> float | None:
    """A number > 0 and finite as float, else None (A1). JSON true counts as 1, as in the harness."""
    if not isinstance(value, int | float) or not value > 0:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
