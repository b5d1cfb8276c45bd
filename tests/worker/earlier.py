"""A worker of semantics_version 1, run as `python -m tests.worker.earlier`.


Version 1 graded such a run by the median of its pass rates, so that 55 % was an A.
"""

from __future__ import annotations

import sys

import schemas.base

schemas.base.SEMANTICS_VERSION = 1

from streamer.aggregate.group import GroupState  # noqa: E402
from streamer.settings import Settings  # noqa: E402
from streamer.worker import run_worker  # noqa: E402


def _median_pass_rate(self: GroupState, judged: bool | None) -> float | None:
    return self.distributions["pass_rate"].median()


if __name__ == "__main__":
    GroupState.grade_score = _median_pass_rate  # type: ignore[method-assign]
    sys.exit(run_worker(Settings()))
