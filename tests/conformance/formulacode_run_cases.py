"""Agents of the FormulaCode run cases: their metrics as written, as scored trials, and summarised."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

from streamer.folding.groups import GroupState
from streamer.folding.score import Scored
from streamer.folding.score.formulacode import FormulaCodeScore
from streamer.folding.slots import SlotKey
from tests.folding.build import formulacode_of
from tests.support.formulacode_cases import ADVANTAGES, Case, cases

Json = dict[str, Any]

SUMS = ("num_benchmarks", "num_valid_benchmarks")

MEANS = {
    "mean_speedup": "task_speedup",
    **{name: name for name in ADVANTAGES},
    "mean_cost_per_task": "task_cost_usd",
    "mean_trajectory_length": "trajectory_length",
}
"""Run-level field -> the field of a trial that it is the mean of."""


class Entry(NamedTuple):
    """One agent's metrics in one trial of a case, as the file has them, and as a scored trial."""

    raw: Json
    scored: Scored


def number(value: Any) -> float | None:
    """A finite number, also as text (F2); None: missing (R1, R18)."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        return None
    return result if math.isfinite(result) else None


def whole(value: Any) -> int | None:
    """What `int()` makes of it (F2); None: missing."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def success(entry: Json, verdict: bool | None) -> bool:
    """As written, else from the flags, else the verdict (R20)."""
    if isinstance(entry.get("success"), bool):
        return bool(entry["success"])
    flags = [entry.get("pytest_failed"), entry.get("snapshot_failed")]
    known = [flag for flag in flags if isinstance(flag, bool)]
    return not any(known) if known else verdict is True


def scored_trial(entry: Json, verdict: bool | None) -> Scored:
    passed = success(entry, verdict)
    values = tuple(number(entry.get(name)) for name in ADVANTAGES)
    flags = [entry.get(name) is True for name in ("pytest_failed", "snapshot_failed")]
    counts = [whole(entry.get(name)) or 0 for name in SUMS]
    score = FormulaCodeScore(
        pytest_failed=flags[0],
        snapshot_failed=flags[1],
        fallback=False,
        task_speedup=number(entry.get("task_speedup")),
        advantages=values if any(value is not None for value in values) else None,
        claimed=False,
        num_benchmarks=counts[0],
        num_valid_benchmarks=counts[1],
        speedup_percentage=None,
    )
    unknown: Json = dict.fromkeys(Scored.__struct_fields__)
    return Scored(
        **unknown
        | {
            "resolved": verdict,
            "success": passed,
            "infrastructure_failure": False,
            "score_out_of_range": False,
            "pass_rate": float(passed),
            "cost_usd": number(entry.get("task_cost_usd")),
            "trajectory_length": whole(entry.get("trajectory_length")),
            "formulacode": score,
        }
    )


def by_agent(case: Case, field: str) -> dict[str, list[Entry]]:
    """The entries of each agent:model that are dicts, over the trials of a case (F1)."""
    result: dict[str, list[Entry]] = defaultdict(list)
    for trial in case.input["results"]:
        stored = (trial.get("parser_extra_metrics") or {}).get(field)
        for key, entry in stored.items() if isinstance(stored, dict) else ():
            if isinstance(entry, dict):
                result[key].append(Entry(entry, scored_trial(entry, trial.get("is_resolved"))))
    return result


def summary(key: str, entries: list[Entry]) -> Json:
    group = GroupState()
    for number, entry in enumerate(entries):
        slot = SlotKey("", f"task-{number}", 1, key, "", None, None)
        group.merge(GroupState.of([(slot, entry.scored)]))
    return formulacode_of(group, key.partition(":")[0])


@cache
def agents() -> list[tuple[Case, str, list[Entry]]]:
    return [
        (case, key, entries)
        for case in cases("run")
        for key, entries in by_agent(case, "agent_metrics_by_agent").items()
    ]
