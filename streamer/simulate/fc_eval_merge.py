"""How fc-eval merges the results of a trial's agents into one (semantics C1, D2 to D13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamer.sources.fc_eval_merged import ENTRIES

ResultFields = dict[str, Any]

_METRICS = "parser_extra_metrics"
_TOKENS = ("total_input_tokens", "total_output_tokens")
_COUNTS = ("passed", "failed", "skipped", "total")


def merged(results: Mapping[str, ResultFields]) -> ResultFields:
    """The trial as a whole: later agents' values win, the trial's name too (D2); totals are summed (D3).

    `results`: key of each agent to its result, in the order in which they ran.
    """
    whole: ResultFields = {}
    for result in results.values():
        whole = _united(whole, result)
    costs = {key: result["total_cost"] for key, result in results.items()}
    whole |= {field: sum(result[field] for result in results.values()) for field in _TOKENS}
    whole |= {"total_cost": sum(costs.values()), "costs_by_agent_model": costs}
    flat = whole[_METRICS].get("improvements_dict", {}).get("per_benchmark_speedups", {})
    oracle = next((result for key, result in results.items() if key.startswith("oracle")), None)
    allowed = _failures(oracle) if oracle else 0
    entries = {key: _entry(result, key, allowed, flat) for key, result in results.items()}
    whole[_METRICS] = whole[_METRICS] | {ENTRIES: entries}
    return whole


def _united(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    united = first | {key: _united(first.get(key), value) for key, value in second.items()}
    if len(united) > 1:
        united.pop("error", None)
    return united


def _entry(result: ResultFields, key: str, allowed: int, flat: Mapping[str, ResultFields]) -> ResultFields:
    """Metrics of one agent. Logs do not have the key that the harness looks for (E11).

    `flat`: the last agent's speedups, which therefore all get (D6).
    `allowed`: failed tests of the oracle, which others may have too (D8).
    """
    metrics = result[_METRICS]
    tests, snapshot = metrics.get("tests_dict", {}), metrics.get("snapshot_dict", {})
    pytest_failed = _failures(result) > allowed
    snapshot_failed = not snapshot or snapshot["pass-to-fail"] > 0  # (D10)
    failed = pytest_failed or snapshot_failed
    fallback = failed and not key.startswith("nop") and bool(flat)
    return {
        "per_benchmark_speedups": _fallen_back(flat) if fallback else flat,
        "pytest_summary": {
            **_counts(tests, (*_COUNTS, "error")),
            "failed_total": _failures(result),
            "status": "passed" if tests and not _failures(result) else "failed",
        },
        "snapshot_summary": {
            **_counts(snapshot, _COUNTS),
            "failed": int(bool(snapshot) and snapshot_failed),  # (B7)
            "pass_to_fail": snapshot.get("pass-to-fail", 0),
            "status": "failed" if snapshot_failed else "passed",
        },
        "pytest_failed": pytest_failed,
        "snapshot_failed": snapshot_failed,
        "success": not failed,
        "fallback_to_baseline": fallback,
        "task_cost_usd": result["total_cost"],
        "trajectory_length": metrics["trajectory_length"],
    }


def _counts(block: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    return {name: block.get(name, 0) for name in names}


def _failures(result: ResultFields) -> int:
    tests = result[_METRICS].get("tests_dict", {})
    return int(tests.get("failed", 0) + tests.get("error", 0))


def _fallen_back(flat: Mapping[str, ResultFields]) -> dict[str, ResultFields]:
    """The speedups of an agent that counts as one that changed nothing (C1)."""
    return {name: entry | {"agent/nop": 1.0, "fallback_to_baseline": True} for name, entry in flat.items()}
