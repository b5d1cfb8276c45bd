"""The meaning of the three JSON blocks of a FormulaCode log: TESTS (B5, R5), SNAPSHOT (B6, R6), RESULT (B9).

Each function takes the JSON of its block, however wrong its shape, and never raises. Where the harness
stumbles over a block (B4) the section fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from streamer.schemas.formulacode import ADVANTAGES
from streamer.sources.formulacode_values import count, number, raw_benchmarks

Section = dict[str, Any]
"""The `tests` or `snapshot` field of an event: a status and counts."""

FALLBACK_MARK = "fallback_to_baseline"
"""What the harness puts beside the numbers that its fallback writes over an agent's own (C1)."""

_BENCHMARK_COUNTS = ("num_valid_benchmarks", "total_benchmarks")
TEST_COUNTS = ("passed", "failed", "error", "skipped", "total")
_SNAPSHOT_COUNTS = ("passed", "failed", "skipped", "total")
_BY_AGENT = "per_benchmark_speedups_by_agent"
_LARGEST_DELTA = 100
"""Percent of change beyond which the old format takes a benchmark for noise (B9)."""


def read_tests(block: Any) -> Section:
    """TESTS: failed + error > 0 fails; no `error` key means no errors (R5).

    A block without any count is no result: it fails as unparsable, as it does in the harness (B5).

    >>> read_tests({"passed": 9, "failed": 0, "error": 1})
    {'status': 'failed', 'passed': 9, 'failed': 0, 'error': 1}
    """
    if not isinstance(block, dict) or not block.keys() & set(TEST_COUNTS):
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in TEST_COUNTS if name in block}
    except OverflowError:
        return {"status": "unparsable"}
    counts.setdefault("error", 0)
    failed = counts.get("failed", 0) + counts["error"] > 0
    return {"status": "failed" if failed else "ok", **counts}


def read_snapshot(block: Any) -> Section:
    """SNAPSHOT: an `error` key or `pass-to-fail` > 0 fails; `failed` is the snapshot's own count (B6, R6).

    >>> read_snapshot({"pass-to-fail": 0, "passed": 41, "failed": 2})
    {'status': 'passed', 'pass_to_fail': 0.0, 'passed': 41, 'failed': 2}
    """
    if not isinstance(block, dict):
        return {"status": "unparsable"}
    pass_to_fail = block.get("pass-to-fail", 0)
    if not isinstance(pass_to_fail, int | float):
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in _SNAPSHOT_COUNTS if name in block}
        moved = float(0 if math.isnan(pass_to_fail) else pass_to_fail)
    except OverflowError:
        return {"status": "unparsable"}
    if math.isinf(moved):
        return {"status": "failed", **counts}  # (B4)
    failed = "error" in block or moved > 0
    return {"status": "failed" if failed else "passed", "pass_to_fail": moved, **counts}


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """RESULT, or nothing of one.

    Attributes:
        last_agent: label of the agent that the log is about; None if it names none (B10).
        benchmarks_by_agent: label as written -> benchmarks as written; None if the block holds
            something else there, so that the flat speedups count (B11).
        flat_benchmarks: speedups of the last agent without its label.
        claims: advantages and counts claimed for the last agent (B9).
        claims_by_agent: label as written -> advantages and counts claimed.
        speedup_percentage: of the old format (B9), in percent; None in the new one.
    """

    last_agent: str | None = None
    benchmarks_by_agent: dict[str, dict[str, JsonValue]] | None = field(default_factory=dict)
    flat_benchmarks: dict[str, JsonValue] | None = None
    claims: dict[str, JsonValue] = field(default_factory=dict)
    claims_by_agent: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    speedup_percentage: float | None = None


def read_result(block: Any) -> ResultBlock:
    """RESULT in the new or the old format; one that is neither says nothing (B9)."""
    if not isinstance(block, dict) or not block or "error" in block:
        return ResultBlock()
    if "agent_advantage" not in block and _BY_AGENT not in block:
        return ResultBlock(speedup_percentage=_old_percentage(block))
    last_agent, flat = block.get("last_agent"), block.get("per_benchmark_speedups")
    claimed = block.get("agent_advantages_by_agent")
    return ResultBlock(
        last_agent=last_agent if isinstance(last_agent, str) and last_agent else None,
        benchmarks_by_agent=_by_agent(block.get(_BY_AGENT, {})),
        flat_benchmarks=raw_benchmarks(flat) if isinstance(flat, dict) else None,
        claims=_claims(block),
        claims_by_agent={
            label: _claims(claims)
            for label, claims in (claimed.items() if isinstance(claimed, dict) else ())
            if isinstance(claims, dict)
        },
    )


def _by_agent(by_agent: Any) -> dict[str, dict[str, JsonValue]] | None:
    if not isinstance(by_agent, dict):
        return None
    return {
        label: raw_benchmarks(benchmarks)
        for label, benchmarks in by_agent.items()
        if isinstance(benchmarks, dict)
    }


def _claims(block: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Advantages and counts that a log claims; one that is no number is not claimed.

    In a result that the harness kept, its fallback may have written over a failed agent's claims.
    """
    claims: dict[str, JsonValue] = {}
    if block.get(FALLBACK_MARK) is True:
        return claims
    for name in ADVANTAGES:
        if name in block:
            with suppress(ValueError):
                claims[name] = number(block[name])
    for name in _BENCHMARK_COUNTS:
        if name in block:
            with suppress(OverflowError):
                claims[name] = count(block[name])
    return claims


def _old_percentage(block: Mapping[str, Any]) -> float | None:
    """-mean(delta) of the benchmarks kept, 0.0 without any or if one is marked "!" (B9)."""
    kept: list[tuple[Any, float]] = []
    for entry in block.values():
        delta = entry.get("delta_pct") if isinstance(entry, dict) else ""
        if delta is not None and not isinstance(delta, int | float):
            return None
        if delta is not None and abs(delta) <= _LARGEST_DELTA and entry.get("change") != "x":
            kept.append((entry.get("change"), delta))
    if not kept or any(change == "!" for change, _ in kept):
        return 0.0
    return -math.fsum(delta for _, delta in kept) / len(kept)
