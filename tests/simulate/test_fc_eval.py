"""fc-eval's directories, as they are written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from streamer.sources.simulate import simulate_run

START = datetime(2026, 1, 2, tzinfo=UTC)


def test_fc_evals_sub_trials_are_written_before_and_after_their_logs_are_read(tmp_path: Path) -> None:
    """G3."""
    root = tmp_path / "run"
    seen: set[bool] = set()

    def look(_: float) -> None:
        for path in root.glob("*/*.agent-*/results.json"):
            try:
                metrics = json.loads(path.read_bytes())["parser_extra_metrics"] or {}
            except ValueError:
                continue
            seen.add("trajectory_length" in metrics)

    simulate_run("fc-eval", root, 6, seed=2, start=START, pace_seconds=1.0, sleep=look)
    assert seen == {True, False}
