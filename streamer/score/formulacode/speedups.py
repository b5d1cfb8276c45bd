"""Speedups of single benchmarks, from ratios or seconds, and the benchmarks of a failed agent (R21)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from pydantic import JsonValue

from streamer.schemas.plain import AnyTrial

AGENT, ORACLE = "agent/nop", "oracle/nop"
_AGENT_SECONDS, _ORACLE_SECONDS, _NOP_SECONDS = "agent_s", "oracle_s", "nop_s"


Entries = dict[str, JsonValue]
"""Benchmark to its entry, as an event has it."""

Pair = tuple[str, float | None, float | None]
"""A benchmark's name, the agent's speedup, the oracle's."""


class Speedup(NamedTuple):
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
    def advantage(self) -> float | None:
        """How much faster the agent is than the oracle; None where invalid."""
        return None if self.agent is None or self.oracle is None else self.agent - self.oracle


def speedups(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> list[Speedup]:
    """The effective speedup of each benchmark, see :func:`effective_pairs`."""
    return [Speedup._make(pair) for pair in effective_pairs(benchmarks, fallback=fallback)]


def effective_pairs(benchmarks: Mapping[str, JsonValue], *, fallback: bool) -> list[Pair]:
    """The effective speedups as plain tuples, which are cheaper.

    With `fallback` the agent is treated as if it had changed nothing: its value is 1.0, and the oracle's
    is kept if it is valid (R21). No oracle value is invented, and entries that are not objects are
    dropped (C1).
    """
    if fallback:
        return [(name, 1.0, oracle_speedup(e)) for name, e in benchmarks.items() if isinstance(e, dict)]
    return [
        (name, _speedup(e, AGENT, _AGENT_SECONDS), _speedup(e, ORACLE, _ORACLE_SECONDS))
        if isinstance(e, dict)
        else (name, None, None)
        for name, e in benchmarks.items()
    ]


def oracle_speedup(entry: JsonValue) -> float | None:
    """The oracle's speedup in one entry; None if it is missing or invalid (A1)."""
    return _speedup(entry, ORACLE, _ORACLE_SECONDS) if isinstance(entry, dict) else None


def has_oracle(benchmarks: Mapping[str, JsonValue]) -> bool:
    """True if any benchmark has an oracle value at all, valid or not (R22)."""
    return any(
        isinstance(entry, dict) and (entry.get(ORACLE) is not None or entry.get(_ORACLE_SECONDS) is not None)
        for entry in benchmarks.values()
    )


def known_benchmarks(group: Sequence[AnyTrial]) -> Entries:
    """Every benchmark that a sub-trial of the group knows, with the first valid oracle value of it.

    The oracle's own entries come first, then the others' by position, so the order of the events never
    matters. A benchmark without any oracle value stays without one. Entries that are not objects are left
    out (C1).
    """
    known: Entries = {}
    for sub_trial in sorted(group, key=_oracle_first):
        _join(known, sub_trial.benchmarks or {})
    return known


def with_own(event: AnyTrial, known: Entries) -> Entries:
    """The known benchmarks as a failed agent counts with them: its own entries come before the others'."""
    if not event.benchmarks:
        return known
    own: Entries = {}
    _join(own, event.benchmarks)
    _join(own, known)
    return own


def _join(known: Entries, entries: Mapping[str, JsonValue]) -> None:
    """Add the entries that are new, or whose oracle value is the first valid one."""
    for name, entry in entries.items():
        if isinstance(entry, dict) and (name not in known or _adds_the_oracle(entry, known[name])):
            known[name] = entry


def _oracle_first(event: AnyTrial) -> tuple[bool, int, str, str]:
    return (event.agent != "oracle", event.agent_index or 0, event.agent, event.model)


def _adds_the_oracle(entry: JsonValue, held: JsonValue) -> bool:
    """Whether an entry has a valid oracle value where the held one has none."""
    return oracle_speedup(held) is None and oracle_speedup(entry) is not None


def _speedup(entry: dict[str, Any], ratio: str, seconds: str) -> float | None:
    """The ratio as given, else nop / own of the (median) seconds; None if invalid."""
    given = entry.get(ratio)
    if given.__class__ is float and 0.0 < given < math.inf:
        return given  # the usual case, at half the price
    if ratio in entry or seconds not in entry:
        return _valid(given)
    own, nop = _seconds(entry[seconds]), _seconds(entry.get(_NOP_SECONDS))
    return None if own is None or nop is None else _valid(nop / own)


def _seconds(value: Any) -> float | None:
    """Positive finite seconds, the median of a list of them; None otherwise."""
    samples = value if isinstance(value, list) else [value]
    if not samples or any(_valid(sample) is None for sample in samples):
        return None
    return float(median(samples))


def _valid(value: Any) -> float | None:
    """A number > 0 and finite as float, else None (A1). JSON true counts as 1, as in the harness."""
    if isinstance(value, float):
        return value if 0.0 < value < math.inf else None
    if not isinstance(value, int) or value <= 0:
        return None
    try:
        return float(value)
    except OverflowError:
        return None
