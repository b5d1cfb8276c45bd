"""Terminal-Bench's directories: crashed trials are run again when the run is resumed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from streamer.sources.simulate import simulate_run

START = datetime(2026, 1, 2, tzinfo=UTC)
TRIALS = 60


def test_the_run_file_has_every_trial_once_and_none_that_crashed(tmp_path: Path) -> None:
    simulate_run("terminal-bench", tmp_path / "run", TRIALS, seed=3, start=START)
    run = json.loads((tmp_path / "run" / "results.json").read_text())
    names = [result["trial_name"] for result in run["results"]]
    assert len(names) == len(set(names)) == TRIALS
    assert run["n_resolved"] + run["n_unresolved"] == TRIALS
    assert run["n_resolved"] == sum(result["is_resolved"] is True for result in run["results"])
    assert run["accuracy"] == run["n_resolved"] / TRIALS
    own = {json.loads(p.read_text())["trial_name"] for p in (tmp_path / "run").glob("*/*/results.json")}
    assert own == set(names)


def test_while_a_run_goes_on_a_crashed_trial_stands_in_the_run_file_alone(tmp_path: Path) -> None:
    root, alone = tmp_path / "run", set()

    def look(_: float) -> None:
        try:
            results = json.loads((root / "results.json").read_text())["results"]
        except (FileNotFoundError, ValueError):
            return
        for result in results:
            if not (root / result["task_id"] / result["trial_name"] / "results.json").exists():
                alone.add(result["trial_name"])

    simulate_run("terminal-bench", root, TRIALS, seed=3, start=START, pace_seconds=1.0, sleep=look)
    assert alone
    for name in alone:
        assert (root / name.split(".")[0] / name / "results.json").exists(), "it was run again"
