"""Comparing two answers about a FormulaCode sub-trial, and why fc-eval's may differ from the ruled one."""

from __future__ import annotations

import math
from typing import Any

from tests.conformance.formulacode_rules import Json, SubTrial, known_oracles, ruled
from tests.support.formulacode_cases import ADVANTAGES, close, close_difference

ORACLE, MARK = "oracle/nop", "fallback_to_baseline"
PLAIN = (
    *("pytest_failed", "snapshot_failed", "success", "fallback_to_baseline"),
    *("num_benchmarks", "num_valid_benchmarks", "trajectory_length"),
)


def check_scored(ours: Json, sub: SubTrial, trial: list[SubTrial]) -> None:
    """A scored sub-trial is the ruled one; without sections it has a payload only to fall back (R21)."""
    want, payload = ruled(sub, trial), ours["formulacode"]
    assert ours["success"] is want["success"], sub
    assert ours["cost_usd"] == close(want["task_cost_usd"]), sub
    assert ours["trajectory_length"] == want["trajectory_length"], sub
    if payload is None:
        assert not sub.is_formulacode, sub
        assert sub.agent == "nop" or ours["success"] or not known_oracles(sub, trial), sub
    else:
        assert not differing_fields(payload, want), sub


def differing_fields(ours: Json, theirs: Json) -> set[str]:
    mine, other = ours["per_benchmark_speedups"], theirs["per_benchmark_speedups"]
    values = [v for e in (mine or {}).values() for v in e.values() if v]
    wrong = {name for name in PLAIN if ours[name] != theirs[name]}
    wrong |= {n for n in ("task_speedup", "task_cost_usd") if ours[n] != close(theirs[n])}
    wrong |= {n for n in ADVANTAGES if ours[n] != close_difference(theirs[n], *values)}
    if set(mine or {}) != set(other or {}) or any(differs(mine[n], other[n]) for n in mine or {}):
        wrong.add("per_benchmark_speedups")
    return wrong


def differs(ours: Json, theirs: Any) -> bool:
    """True if the valid values of a benchmark differ; an invalid one is null with us (A1)."""
    theirs = theirs if isinstance(theirs, dict) else {}
    values = {side: ours[side] for side in ("agent/nop", "oracle/nop") if ours[side] is not None}
    return any(theirs.get(side) != value for side, value in values.items())


def rulings(sub: SubTrial, trial: list[SubTrial], want: Json, theirs: Json | None) -> str:
    """The rulings that concern a sub-trial, from what its harness wrote and what fc-eval made its own."""
    result = []
    if any(loses_counts(other) for other in (sub, *trial) if other is sub or other.agent == "oracle"):
        result.append("R5")
    raised = sub.written.get("failure_mode") == "parse_error" and (sub.has_tests or sub.has_snapshot)
    if raised:
        result.append("B4")
    if takes_other_numbers(sub, theirs) if theirs is not None else not raised:
        result.append("R7")
    if theirs is not None and keeps_an_earlier_fallback(theirs):
        result.append("D8")
    if not sub.has_tests and not sub.has_snapshot:
        result.append("R20")
    changed_nothing = not want["success"] and sub.agent != "nop"
    if sub.benchmarks is None or (changed_nothing and not is_as_c1(sub, want)):
        result.append("R21")
    if want["agent_advantage"] is None and sub.benchmarks is not None and not changed_nothing:
        result.append("R22" if want["task_speedup"] is not None else "R21")
    if sub.trajectory_length is None:
        result.append("R1")
    return " ".join(result)


def loses_counts(sub: SubTrial) -> bool:
    """True if fc-eval has no counts of the sub-trial's tests: no TESTS block, or one error in it (B5)."""
    return sub.has_tests and (not sub.has_counts or bool(sub.metrics.get("counts_lost")))


def keeps_an_earlier_fallback(theirs: Json) -> bool:
    """True if numbers are as the parser's own fallback left them, though the merge sees no failure (D7)."""
    return any(map(is_marked, theirs["per_benchmark_speedups"].values())) and not theirs[MARK]


def is_marked(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get(MARK) is True


def is_as_c1(sub: SubTrial, want: Json) -> bool:
    """True if a fallback shows the sub-trial's own benchmarks, each with an oracle value of its own (C1)."""
    own = {name: entry for name, entry in finite(sub.benchmarks or {}).items() if isinstance(entry, dict)}
    shown = want["per_benchmark_speedups"]
    if set(own) != set(shown) or not own:
        return False
    return all(shown[name][ORACLE] == own[name].get(ORACLE) for name in own)


def takes_other_numbers(sub: SubTrial, theirs: Json) -> bool:
    """True if fc-eval shows benchmarks that do not stand under the agent's key in its own log."""
    own, shown = finite(sub.benchmarks or {}), finite(theirs["per_benchmark_speedups"])
    if theirs[MARK]:
        kept = {n: e.get(ORACLE) for n, e in own.items() if isinstance(e, dict)}
        reverted = {n: o if isinstance(o, int | float) else 1.0 for n, o in kept.items()}
        return reverted != {name: entry[ORACLE] for name, entry in shown.items()}
    marked = {name for name, entry in shown.items() if is_marked(entry)}
    if set(own) - marked != set(shown) - marked:
        return True
    return any(not agrees(entry, shown[name]) for name, entry in own.items() if name not in marked)


def agrees(own: Any, shown: Any) -> bool:
    """True if every field of the own entry stands in what is shown; what is no object is shown as it is."""
    if not isinstance(own, dict) or not isinstance(shown, dict):
        return bool(own == shown)
    return all(shown.get(name) == value for name, value in own.items() if name != "advantage")


def finite(value: Any) -> Any:
    """As it stands on disk: what is not finite is null (D17)."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
