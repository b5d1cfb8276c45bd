"""ProjectScylla's directories: a run is written in in_progress/, and moved when it is complete."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from streamer.sources.simulate import simulate_run

START = datetime(2026, 1, 2, tzinfo=UTC)
TRIALS = 60


def test_in_the_end_every_run_lies_in_completed_and_no_crash_is_left(tmp_path: Path) -> None:
    simulate_run("scylla", tmp_path / "run", TRIALS, seed=3, start=START)
    completed = list((tmp_path / "run" / "completed").glob("*/*/run_*/run_result.json"))
    assert len(completed) == TRIALS
    assert list((tmp_path / "run" / "in_progress").glob("*/*/run_*")) == []
    assert 1 not in {json.loads(path.read_text())["exit_code"] for path in completed}


def test_the_majority_of_the_judges_decides_and_their_mean_is_the_score(tmp_path: Path) -> None:
    simulate_run("scylla", tmp_path / "run", TRIALS, seed=3, start=START)
    judged = 0
    for path in (tmp_path / "run" / "completed").glob("*/*/run_*/run_result.json"):
        result = json.loads(path.read_text())
        votes = [judge["passed"] for judge in result["judges"]]
        if not votes:
            assert (result["judge_score"], result["judge_passed"]) == (0.0, False)
            continue
        judged += 1
        assert result["judge_passed"] == (sum(votes) * 2 > len(votes))
        scores = [judge["score"] for judge in result["judges"]]
        assert abs(result["judge_score"] - sum(scores) / len(scores)) < 1e-12
    assert judged > TRIALS / 2


def test_the_checkpoint_names_every_run_once(tmp_path: Path) -> None:
    simulate_run("scylla", tmp_path / "run", TRIALS, seed=3, start=START)
    checkpoint = json.loads((tmp_path / "run" / "checkpoint.json").read_text())
    assert checkpoint["status"] == "completed"
    tiers = checkpoint["completed_runs"].values()
    assert sum(len(runs) for tier in tiers for runs in tier.values()) == TRIALS
