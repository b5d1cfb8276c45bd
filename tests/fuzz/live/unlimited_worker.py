"""A worker without the limits of events and summaries, run as `python -m tests.fuzz.live.unlimited_worker`.

The fuzzer must then find what the limits are there for. A fault sets its run apart: the run gets in
quarantine, which no valid event may bring about, and the worker's heartbeat says why. WITHOUT names the
limits to take away, of `numbers`, `times` and `sizes`; all by default. With QUARANTINE=off a fault ends the
worker instead, as all of them did once.
Nothing happens where this module is only imported, as pytest does to look for doctests.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

FAR = 2**53
EVENTS: dict[str, dict[str, float]] = {
    "numbers": {"MAX_AMOUNT": sys.float_info.max, "MAX_REVISION": 2**63 - 1}
    | dict.fromkeys(("MAX_TASKS", "MAX_PLANNED_ATTEMPTS", "MAX_ORDINAL"), FAR),
    "times": {
        "FIRST_YEAR": 1,
        "YEAR_AFTER_LAST": 10_000,
        "EARLIEST_MICROSECONDS": 1,
        "LATEST_MICROSECONDS": 2**63,
    },
}
"""Sort of limits -> limits of events, and what stands there instead. Those of "sizes" are all other ones."""

SORTS = (*EVENTS, "sizes")


def main() -> int:
    """Take the limits away before anything reads them, then run the worker."""
    without = os.environ.get("WITHOUT", " ".join(SORTS)).split()
    _no_limits_of_events(without)

    from streamer.folding import plan, summaries
    from streamer.folding.fold import Pipeline
    from streamer.settings import Settings
    from streamer.worker.process import run_worker

    if "numbers" in without:
        plan.MAX_COUNT = FAR**3  # type: ignore[attr-defined]
    if "sizes" in without:
        for name in ("MAX_FAILURE_MODES", "_COST_BYTES", "_LABEL_BYTES", "_TIER_BYTES"):
            setattr(summaries, name, FAR)
    if os.environ.get("QUARANTINE") == "off":
        Pipeline.fail = _raise  # type: ignore[method-assign]
    return run_worker(Settings())


def _no_limits_of_events(without: list[str]) -> None:
    """Run the module of the limits with other ones: its types are made of them as it is imported."""
    name = "streamer.schemas.base"
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    sort_of = {limit: sort for sort, limits in EVENTS.items() for limit in limits}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(target := statement.targets[0], ast.Name):
            continue
        sort = sort_of.get(target.id, "sizes" if target.id.startswith("MAX_") else "")
        if sort in without:
            statement.value = ast.Constant(EVENTS.get(sort, {}).get(target.id, FAR))
    exec(compile(ast.fix_missing_locations(tree), spec.origin, "exec"), vars(module))


def _raise(self: Any, run_id: str, error: Exception, record: object = None) -> None:
    raise SystemError(f"run {run_id!r:.80} failed") from error


if __name__ == "__main__":
    sys.exit(main())
