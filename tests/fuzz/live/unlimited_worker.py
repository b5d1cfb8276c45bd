"""A worker without the limits of events and summaries, run as `python -m tests.fuzz.live.unlimited_worker`.

The fuzzer must then find what the limits are there for. A fault sets its run apart: the run gets in
quarantine, which no valid event may bring about, and the worker's heartbeat says why. With QUARANTINE=off a
fault ends the worker instead, as all of them did once.
"""

from __future__ import annotations

import os
import sys

import schemas.limits

FAR = 2**53
for name in vars(schemas.limits).copy():
    if name.startswith("MAX_"):
        setattr(schemas.limits, name, FAR)
schemas.limits.MAX_AMOUNT = sys.float_info.max
schemas.limits.MAX_REVISION = 2**63 - 1
schemas.limits.FIRST_YEAR, schemas.limits.YEAR_AFTER_LAST = 1, 10_000
schemas.limits.EARLIEST_MICROSECONDS, schemas.limits.LATEST_MICROSECONDS = 1, 2**63

from streamer.aggregate import denominators, summary_limits  # noqa: E402
from streamer.pipeline import Pipeline  # noqa: E402
from streamer.settings import Settings  # noqa: E402
from streamer.worker.process.runner import run_worker  # noqa: E402


def _raise(self: Pipeline, run_id: str, error: Exception, record: object = None) -> None:
    raise SystemError(f"run {run_id!r:.80} failed") from error


if __name__ == "__main__":
    denominators.MAX_COUNT = FAR**3
    for name in ("MAX_FAILURE_MODES", "_COST_BYTES", "_LABEL_BYTES", "_TIER_BYTES"):
        setattr(summary_limits, name, FAR)
    if os.environ.get("QUARANTINE") == "off":
        Pipeline.fail = _raise  # type: ignore[method-assign]
    sys.exit(run_worker(Settings()))
