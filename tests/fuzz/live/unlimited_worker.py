"""A worker without the limits of events and summaries, run as `python -m tests.fuzz.live.unlimited_worker`.

The fuzzer must then find what the limits are there for. A fault sets its run apart: the run gets in
quarantine, which no valid event may bring about, and the worker's heartbeat says why. With QUARANTINE=off a
fault ends the worker instead, as all of them did once.
Nothing happens where this module is only imported, as pytest does to look for doctests.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FAR = 2**53


def main() -> int:
    """Take the limits away before anything reads them, then run the worker."""
    _no_limits_of_events()

    from streamer.aggregate import plan, run_summary
    from streamer.pipeline import Pipeline
    from streamer.settings import Settings
    from streamer.worker.app import run_worker

    plan.MAX_COUNT = FAR**3  # type: ignore[attr-defined]
    for name in ("MAX_FAILURE_MODES", "_COST_BYTES", "_LABEL_BYTES", "_TIER_BYTES"):
        setattr(run_summary, name, FAR)
    if os.environ.get("QUARANTINE") == "off":
        Pipeline.fail = _raise  # type: ignore[method-assign]
    return run_worker(Settings())


def _no_limits_of_events() -> None:
    import streamer.schemas.limits

    for name in vars(streamer.schemas.limits).copy():
        if name.startswith("MAX_"):
            setattr(streamer.schemas.limits, name, FAR)
    streamer.schemas.limits.MAX_AMOUNT = sys.float_info.max
    streamer.schemas.limits.MAX_REVISION = 2**63 - 1
    streamer.schemas.limits.FIRST_YEAR, streamer.schemas.limits.YEAR_AFTER_LAST = 1, 10_000
    streamer.schemas.limits.EARLIEST_MICROSECONDS, streamer.schemas.limits.LATEST_MICROSECONDS = 1, 2**63


def _raise(self: Any, run_id: str, error: Exception, record: object = None) -> None:
    raise SystemError(f"run {run_id!r:.80} failed") from error


if __name__ == "__main__":
    sys.exit(main())
