"""Terminal-Bench's directories (semantics F11, G1, G2, G4, H2)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from glob import escape
from itertools import product
from pathlib import Path
from typing import Any

from streamer.simulate.disk import Disk
from streamer.simulate.outcomes import CRASH, TEST_TIMEOUT, Fate, SimulatedTrial, attempts_of
from streamer.simulate.schedule import Steps, run_queue

AGENT, MODEL = "terminus", "anthropic/claude-sonnet-4"
DATASET = "simulated-core"


class RunFile:
    """The run-level results.json: written again, in place, after every trial (F11)."""

    def __init__(self, disk: Disk, run_uuid: str) -> None:
        self._disk = disk
        self._id = run_uuid
        self._entries: dict[tuple[str, str], tuple[bool, str]] = {}

    def add(self, result: dict[str, Any]) -> None:
        """A trial ended."""
        key = (result["task_id"], result["trial_name"])
        self._entries.pop(key, None)
        self._entries[key] = (result["is_resolved"] is True, json.dumps(result))
        self._write()

    def forget(self, trials: list[tuple[str, str]]) -> None:
        """The run is resumed: trials (task, name) without a file of their own are to be run again."""
        for trial in trials:
            self._entries.pop(trial, None)
        self._write()

    @property
    def accuracy(self) -> float:
        """Share of resolved trials (F9)."""
        return sum(resolved for resolved, _ in self._entries.values()) / max(1, len(self._entries))

    def _write(self) -> None:
        resolved = sum(resolved for resolved, _ in self._entries.values())
        head = {"id": self._id, "n_resolved": resolved, "n_unresolved": len(self._entries) - resolved}
        rest = json.dumps(head | {"accuracy": self.accuracy})[:-1]
        entries = ", ".join(text for _, text in self._entries.values())
        self._disk.text(self._disk.root / "results.json", f'{rest}, "results": [{entries}]}}')


def write_terminal_bench(disk: Disk, trials: int, seed: int, start: datetime, concurrency: int) -> None:
    """One agent, several attempts; crashed trials are run again when the run is resumed."""
    fate = Fate(seed, start)
    attempts = attempts_of(trials)
    tasks = [f"task-{number:04}" for number in range(1, trials // attempts + 1)]
    run_uuid = fate.new_id()
    disk.make()
    disk.json(disk.root / "tb.lock", _terminal_bench_lock(start, tasks, attempts, concurrency))
    metadata = metadata_of(disk.name, run_uuid, start, tasks, attempts) | {
        "agent_name": AGENT,
        "model_name": MODEL,
    }
    run_and_resume(
        disk,
        fate,
        metadata,
        concurrency,
        lambda trial, file: _terminal_bench_trial(disk, file, trial, attempts),
    )


def run_and_resume(
    disk: Disk,
    fate: Fate,
    metadata: dict[str, Any],
    concurrency: int,
    steps_of: Callable[[SimulatedTrial, RunFile], Steps],
) -> None:
    """Run every attempt at every task; then the run is resumed, and crashed trials are run again.

    Args:
        disk: where it is written.
        fate: draws the trials.
        metadata: of the run at its start, see `metadata_of`.
        concurrency: so many trials run at once.
        steps_of: what a trial writes, the run-level file included.
    """
    attempts = metadata["n_attempts"]
    disk.json(disk.root / "run_metadata.json", metadata)
    run_file = RunFile(disk, metadata["uuid"])
    crashed: list[SimulatedTrial] = []

    def run(task: str, attempt: int, *, crashes: bool) -> Steps:
        trial = fate.trial(task, attempt, crashes=crashes)
        crashed.extend([trial] if trial.crashed else [])
        return steps_of(trial, run_file)

    places = product(metadata["task_ids"], range(1, attempts + 1))
    run_queue(disk, fate, (run(*place, crashes=True) for place in places), concurrency)
    ended = {"end_time": fate.now.isoformat(), "accuracy": run_file.accuracy}
    disk.json(disk.root / "run_metadata.json", metadata | ended)
    again = [(trial, trial_name(disk, trial, attempts)) for trial in crashed]
    run_file.forget([(trial.task, name) for trial, name in again])
    for trial, name in again:
        for left in (disk.root / trial.task).glob(f"{escape(name)}*"):  # its agents' directories too
            shutil.rmtree(left)
    run_queue(disk, fate, (run(t.task, t.attempt, crashes=False) for t, _ in again), concurrency)


def metadata_of(
    run_id: str, run_uuid: str, start: datetime, tasks: list[str], attempts: int
) -> dict[str, Any]:
    """run_metadata.json at the start of a run, without the agent (G4)."""
    return {
        "run_id": run_id,
        "uuid": run_uuid,
        "dataset_name": DATASET,
        "dataset_version": "1.0",
        "task_ids": tasks,
        "n_attempts": attempts,
        "dataset_size": len(tasks),
        "accuracy": None,
        "start_time": start.isoformat(),
        "end_time": None,
    }


def trial_name(disk: Disk, trial: SimulatedTrial, attempts: int) -> str:
    """Name of a trial and of its directory (G2)."""
    return f"{trial.task}.{trial.attempt}-of-{attempts}.{disk.name}"


def trial_directory(disk: Disk, task: str, name: str) -> Path:
    """The directory of a trial, with those for its logs (G1)."""
    for part in ("sessions", "panes", "agent-logs"):
        disk.make(task, name, part)
    return disk.root / task / name


def recording(trial: SimulatedTrial) -> str:
    """A terminal recording: a header and a few events."""
    lines = [json.dumps({"version": 2, "width": 160, "height": 40})]
    lines += [json.dumps([round(at * 1.5, 2), "o", "$ make\r\n"]) for at in range(trial.tokens[1] % 40 + 3)]
    return "\n".join(lines) + "\n"


def _terminal_bench_trial(disk: Disk, run_file: RunFile, trial: SimulatedTrial, attempts: int) -> Steps:
    result = _result(disk, trial, attempts)
    home = trial_directory(disk, trial.task, result["trial_name"])
    disk.text(home / "sessions" / "agent.cast", recording(trial))
    yield trial.seconds
    if not trial.crashed:
        disk.json(home / "results.json", result)
    run_file.add(result)


def _result(disk: Disk, trial: SimulatedTrial, attempts: int) -> dict[str, Any]:
    verdict = "passed" if trial.resolved else "failed"
    untold = trial.failure in (CRASH, TEST_TIMEOUT)
    return {
        "id": trial.id,
        "trial_name": trial_name(disk, trial, attempts),
        "task_id": trial.task,
        "instruction": f"Make {trial.task} work.",
        "is_resolved": trial.resolved,
        "failure_mode": trial.failure,
        "parser_results": None if untold else {"test_it_works": verdict},
        "total_input_tokens": None if trial.crashed else trial.tokens[0],
        "total_output_tokens": None if trial.crashed else trial.tokens[1],
        "trial_started_at": trial.started.isoformat(),
        "trial_ended_at": trial.ended.isoformat(),
    }


def _terminal_bench_lock(
    start: datetime, tasks: list[str], attempts: int, concurrency: int
) -> dict[str, Any]:
    return {
        "lockfile_version": "1.0",
        "created_at": start.isoformat(),
        "harness": {"package": "terminal-bench", "version": "0.2.18"},
        "agent": {"name": AGENT, "model_name": MODEL},
        "run_config": {"n_attempts": attempts, "n_concurrent_trials": concurrency},
        "dataset": {"name": DATASET, "version": "1.0", "task_ids": tasks},
    }
