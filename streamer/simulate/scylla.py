"""ProjectScylla's directories, in the newer layout with in_progress/ and completed/ (S10 to S13)."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from datetime import datetime, timedelta
from itertools import islice, product
from typing import Any

from streamer.simulate.disk import Disk
from streamer.simulate.outcomes import AGENT_TIMEOUT, Fate, SimulatedTrial
from streamer.simulate.schedule import Steps, run_queue

MODEL = "claude-sonnet-4-5-20250929"
JUDGES = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5")
TIERS = tuple(f"T{number}" for number in range(7))
RUNS = 3
TEST = "test-simulated"

CellAttempt = tuple[str, str, int]
"""Tier, subtest, run."""


def write_scylla(disk: Disk, trials: int, seed: int, start: datetime, concurrency: int) -> None:
    """Tier by tier; a run whose agent crashed is deleted and run again at the end of its tier."""
    fate = Fate(seed, start)
    subtests = -(-trials // (len(TIERS) * RUNS))
    config = {
        "experiment_id": TEST,
        "language": "python",
        "models": [MODEL],
        "runs_per_subtest": RUNS,
        "tiers_to_run": list(TIERS),
        "judge_models": list(JUDGES),
        "timeout_seconds": 300,
        "max_subtests": subtests,
    }
    disk.json(disk.root / "config" / "experiment.json", config)
    checkpoint = _CheckpointFile(disk, fate)
    checkpoint.write()
    cells = islice(product(TIERS, range(subtests), range(1, RUNS + 1)), trials)
    places = [(tier, f"{number + (tier != TIERS[0]):02}", run) for tier, number, run in cells]
    again: list[CellAttempt] = []

    def run(place: CellAttempt, *, crashes: bool) -> Steps:
        crashed = yield from _scylla_run(disk, fate, place, crashes=crashes)
        again.extend([place] if crashed else [])
        checkpoint.add(place)

    run_queue(disk, fate, (run(place, crashes=True) for place in places), concurrency)
    crashed = list(again)
    for tier, subtest, number in crashed:
        shutil.rmtree(disk.root / "completed" / tier / subtest / f"run_{number:02}")
    run_queue(disk, fate, (run(place, crashes=False) for place in crashed), concurrency)
    checkpoint.write("completed")


class _CheckpointFile:
    """checkpoint.json, written after every run."""

    def __init__(self, disk: Disk, fate: Fate) -> None:
        self._disk = disk
        self._fate = fate
        self._started = fate.now
        self._runs: dict[str, dict[str, dict[str, str]]] = {}

    def add(self, place: CellAttempt) -> None:
        """A run ended."""
        tier, subtest, run = place
        self._runs.setdefault(tier, {}).setdefault(subtest, {})[str(run)] = "done"
        self.write()

    def write(self, status: str = "running") -> None:
        self._disk.json(
            self._disk.root / "checkpoint.json",
            {
                "version": "2.0",
                "experiment_id": TEST,
                "completed_runs": self._runs,
                "started_at": self._started.isoformat(),
                "last_updated_at": self._fate.now.isoformat(),
                "status": status,
            },
        )


def _scylla_run(disk: Disk, fate: Fate, place: CellAttempt, *, crashes: bool) -> Generator[float, None, bool]:
    """Agent, judges and result of one run, written in in_progress/, then moved; whether the agent crashed."""
    tier, subtest, number = place
    trial = fate.trial(f"{tier}/{subtest}", number, crashes=crashes)
    seconds = trial.seconds
    agent_end = trial.started + timedelta(seconds=seconds * 0.6)
    name = f"run_{number:02}"
    home = disk.make("in_progress", tier, subtest, name)
    disk.text(home / "agent" / "MODEL.md", f"# Agent Model Information\n\n**Model**: {MODEL}\n")
    yield seconds * 0.6
    disk.json(
        home / "agent" / "timing.json",
        {"agent_duration_seconds": seconds * 0.6, "measured_at": agent_end.isoformat()},
    )
    judged = _judged(fate, trial)
    disk.json(
        home / "judge" / "timing.json",
        {"judge_duration_seconds": seconds * 0.4, "measured_at": trial.ended.isoformat()},
    )
    yield seconds * 0.4
    disk.json(home / "run_result.json", _scylla_result(trial, seconds, judged))
    target = disk.make("completed", tier, subtest)
    home.rename(target / name)
    return trial.crashed


def _judged(fate: Fate, trial: SimulatedTrial) -> dict[str, Any]:
    """The judges' verdict: mean of their scores, majority of their votes (S13)."""
    if trial.resolved is None:
        return {"judge_score": 0.0, "judge_passed": False, "judges": []}
    skill = (8, 2) if trial.resolved else (3, 4)
    scores = [round(fate.random.betavariate(*skill), 2) for _ in JUDGES]
    judges = [
        {"model": model, "score": score, "passed": score >= 0.5, "judge_number": number}
        for number, (model, score) in enumerate(zip(JUDGES, scores, strict=True), 1)
    ]
    passed = sum(score >= 0.5 for score in scores) * 2 > len(scores)
    return {"judge_score": sum(scores) / len(scores), "judge_passed": passed, "judges": judges}


def _scylla_result(trial: SimulatedTrial, seconds: float, judged: dict[str, Any]) -> dict[str, Any]:
    tokens_in, tokens_out = trial.tokens
    exit_code = 1 if trial.crashed else 124 if trial.failure == AGENT_TIMEOUT else 0
    return {
        "run_number": trial.attempt,
        "exit_code": exit_code,
        "token_stats": {
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "cache_creation_tokens": tokens_in // 2,
            "cache_read_tokens": tokens_in * 3,
        },
        "tokens_input": tokens_in * 4,
        "tokens_output": tokens_out,
        "cost_usd": round((tokens_in * 3 + tokens_out * 15) / 1e6, 6),
        "duration_seconds": seconds,
        **judged,
    }
