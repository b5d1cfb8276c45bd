"""The meaning of the three JSON blocks of a FormulaCode log: TESTS (B5, R5), SNAPSHOT (B6, R6), RESULT (B9).

Each function takes the JSON of its block, however wrong its shape, and never raises. Where the harness
stumbles over a block (B4) the section fails and a reason says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from streamer.schemas.decode import shown
from streamer.schemas.formulacode import ADVANTAGES
from streamer.sources.formulacode_values import count, number, raw_benchmarks

Section = dict[str, Any]
"""The `tests` or `snapshot` field of an event: a status and counts."""

_BENCHMARK_COUNTS = ("num_valid_benchmarks", "total_benchmarks")
TEST_COUNTS = ("passed", "failed", "error", "skipped", "total")
_SNAPSHOT_COUNTS = ("passed", "failed", "skipped", "total")
_BY_AGENT = "per_benchmark_speedups_by_agent"
_LARGEST_DELTA = 100
"""Percent of change beyond which the old format takes a benchmark for noise (B9)."""


def read_tests(block: Any, reasons: list[str]) -> Section:
    """TESTS: failed + error > 0 fails; no `error` key means no errors (R5).

    A block without any count is no result: it fails as unparsable, as it does in the harness (B5).

    >>> read_tests({"passed": 9, "failed": 0, "error": 1}, [])
    {'status': 'failed', 'passed': 9, 'failed': 0, 'error': 1}
    """
    if not isinstance(block, dict) or not block.keys() & set(TEST_COUNTS):
        reasons.append(f"TESTS: an object with counts is needed, this is {_shape(block)}")
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in TEST_COUNTS if name in block}
    except OverflowError:
        reasons.append("TESTS: a count is infinite")
        return {"status": "unparsable"}
    counts.setdefault("error", 0)
    failed = counts.get("failed", 0) + counts["error"] > 0
    return {"status": "failed" if failed else "ok", **counts}


def read_snapshot(block: Any, reasons: list[str]) -> Section:
    """SNAPSHOT: an `error` key or `pass-to-fail` > 0 fails; `failed` is the snapshot's own count (B6, R6).

    >>> read_snapshot({"pass-to-fail": 0, "passed": 41, "failed": 2}, [])
    {'status': 'passed', 'pass_to_fail': 0.0, 'passed': 41, 'failed': 2}
    """
    if not isinstance(block, dict):
        reasons.append(f"SNAPSHOT: an object is needed, this is {_shape(block)}")
        return {"status": "unparsable"}
    if "error" in block:
        reasons.append("SNAPSHOT: the comparison reports an error")
    pass_to_fail = block.get("pass-to-fail", 0)
    if not isinstance(pass_to_fail, int | float):
        reasons.append(f"SNAPSHOT: pass-to-fail is {_shape(pass_to_fail)}, a number is needed")
        return {"status": "unparsable"}
    try:
        counts = {name: count(block[name]) for name in _SNAPSHOT_COUNTS if name in block}
        moved = float(0 if math.isnan(pass_to_fail) else pass_to_fail)
    except OverflowError:
        reasons.append("SNAPSHOT: a count is infinite")
        return {"status": "unparsable"}
    if math.isinf(moved):
        reasons.append("SNAPSHOT: pass-to-fail is infinite")
        return {"status": "failed" if moved > 0 else "passed", **counts}
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


def read_result(block: Any, reasons: list[str]) -> ResultBlock:
    """RESULT in the new or the old format; one that is neither says nothing (B9)."""
    if not isinstance(block, dict) or not block or "error" in block:
        reasons.append(f"RESULT: no result but {_shape(block)}")
        return ResultBlock()
    if "agent_advantage" not in block and _BY_AGENT not in block:
        return ResultBlock(speedup_percentage=_old_percentage(block, reasons))
    if not isinstance(block.get("max_coverage_percent", 0), int | float | None):
        reasons.append(f"RESULT: max_coverage_percent is {_shape(block['max_coverage_percent'])}; not used")
    last_agent, flat = block.get("last_agent"), block.get("per_benchmark_speedups")
    claimed = block.get("agent_advantages_by_agent")
    return ResultBlock(
        last_agent=last_agent if isinstance(last_agent, str) and last_agent else None,
        benchmarks_by_agent=_by_agent(block.get(_BY_AGENT, {}), reasons),
        flat_benchmarks=raw_benchmarks(flat) if isinstance(flat, dict) else None,
        claims=_claims(block, "RESULT", reasons),
        claims_by_agent={
            label: _claims(claims, f"RESULT of {shown(label)}", reasons)
            for label, claims in (claimed.items() if isinstance(claimed, dict) else ())
            if isinstance(claims, dict)
        },
    )


def _by_agent(by_agent: Any, reasons: list[str]) -> dict[str, dict[str, JsonValue]] | None:
    if not isinstance(by_agent, dict):
        reasons.append(f"RESULT: {_BY_AGENT} is {_shape(by_agent)}")
        return None
    kept: dict[str, dict[str, JsonValue]] = {}
    for label, benchmarks in by_agent.items():
        if isinstance(benchmarks, dict):
            kept[label] = raw_benchmarks(benchmarks)
        else:
            reasons.append(f"RESULT: the speedups of {shown(label)} are {_shape(benchmarks)}")
    return kept


def _claims(block: Mapping[str, Any], where: str, reasons: list[str]) -> dict[str, JsonValue]:
    """Advantages and counts that a log claims; one that is no number is not claimed."""
    claims: dict[str, JsonValue] = {}
    for name in ADVANTAGES:
        if name in block:
            try:
                claims[name] = number(block[name])
            except ValueError:
                reasons.append(f"{where}: {name} is {_shape(block[name])}, a number is needed")
    for name in _BENCHMARK_COUNTS:
        if name in block:
            try:
                claims[name] = count(block[name])
            except OverflowError:
                reasons.append(f"{where}: {name} is infinite")
    return claims


def _old_percentage(block: Mapping[str, Any], reasons: list[str]) -> float | None:
    """-mean(delta) of the benchmarks kept, 0.0 without any or if one is marked "!" (B9)."""
    kept: list[tuple[Any, float]] = []
    for name, entry in block.items():
        delta = entry.get("delta_pct") if isinstance(entry, dict) else ""
        if delta is not None and not isinstance(delta, int | float):
            reasons.append(f"RESULT: {shown(name)} is no entry of the old format")
            return None
        if delta is not None and abs(delta) <= _LARGEST_DELTA and entry.get("change") != "x":
            kept.append((entry.get("change"), delta))
    if not kept or any(change == "!" for change, _ in kept):
        return 0.0
    return -math.fsum(delta for _, delta in kept) / len(kept)


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return "an object with an error" if "error" in value else "an object without the needed keys"
    return "null" if value is None else f"a JSON {type(value).__name__}"
