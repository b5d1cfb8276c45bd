"""A worker of semantics_version 1, run as `python -m tests.worker.earlier`.

Version 1 graded such a run by the median of its pass rates, so that 55 % was an A.
Nothing happens where this module is only imported, as pytest does to look for doctests.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Go back to version 1 before anything reads the version, then run the worker."""
    import streamer.schemas.base

    streamer.schemas.base.SEMANTICS_VERSION = 1

    from streamer.folding.groups import GroupState
    from streamer.settings import Settings
    from streamer.worker.process import run_worker

    def median_pass_rate(self: GroupState, judged: bool | None) -> float | None:
        return self.distributions["pass_rate"].median()

    GroupState.grade_score = median_pass_rate  # type: ignore[method-assign]
    return run_worker(Settings())


if __name__ == "__main__":
    sys.exit(main())
