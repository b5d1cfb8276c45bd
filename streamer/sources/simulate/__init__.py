"""A simulated harness: writes a run directory as a real one does, trial by trial, in place.

The same seed, trials and start give the same files, whatever the pace.
"""

from __future__ import annotations

import shutil
import string
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, product
from pathlib import Path
from typing import Any

from streamer.sources.simulate.layouts import (
    AGENT_TIMEOUT,
    CRASH,
    SKILL,
    TEST_TIMEOUT,
    Disk,
    Fate,
    SimulatedTrial,
    Steps,
    attempts_of,
    run_queue,
    write_fc_eval,
    write_terminal_bench,
)
from streamer.statistics.final import hash_shuffled

# -----------------------------------------------------------------------------
# harbor's job directories: a retry deletes the trial's directory and writes it again under its name.


DATASET = "simulated"
EXCEPTIONS = {
    CRASH: "NonZeroAgentExitCodeError",
    AGENT_TIMEOUT: "AgentTimeoutError",
    TEST_TIMEOUT: "VerifierTimeoutError",
}
_RANDOM_CHARACTERS = 7

HOOKS_SECONDS = 10.0
"""harbor awaits its hooks before it deletes a failed trial for its retry; at the usual speed, simulated."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HarborAgent:
    """An agent of a job.

    Attributes:
        name, provider, model: as harbor names them.
        skill: how likely it passes a trial, 0 to 1.
    """

    name: str
    provider: str
    model: str
    skill: float = SKILL

    @property
    def entry(self) -> Json:
        """As configurations and locks have it."""
        return {"name": self.name, "model_name": f"{self.provider}/{self.model}"}


TERMINUS = HarborAgent("terminus-2", "anthropic", "claude-sonnet-4-20250514")


def write_harbor(
    disk: Disk,
    trials: int,
    seed: int,
    start: datetime,
    concurrency: int,
    *,
    shuffle: bool = False,
    agents: Sequence[HarborAgent] = (TERMINUS,),
    attempts: int | None = None,
    speed: float = 1.0,
) -> None:
    """A job: attempts at each task in rounds, the agents in turn; a crashed trial is retried at once.

    Args:
        disk: where it is written.
        trials: of each agent.
        seed, start, concurrency, shuffle: see `simulate_run`.
        agents: who tries the tasks.
        attempts: at each task; must divide the trials. None: several, if they fill whole tasks.
        speed: of the agents, see `Fate`.
    """
    fate = Fate(seed, start, speed)
    attempts = attempts or attempts_of(trials)
    tasks = [f"task-{number}" for number in range(1, trials // attempts + 1)]
    places = product(range(1, attempts + 1), tasks, agents)
    names = {place: _name(fate, place[1]) for place in places}
    if shuffle:
        own = {task: place for place, task in enumerate(hash_shuffled(tasks, str(seed)))}
        names = dict(sorted(names.items(), key=lambda item: (item[0][0], own[item[0][1]])))
    job = _Job(disk, fate, trials * len(agents))
    disk.make()
    disk.text(disk.root / "job.log", "")
    disk.json(disk.root / "config.json", _job_config(disk.name, attempts, agents))
    queue = [(task, agent) for _, task, agent in names]
    disk.json(disk.root / "lock.json", _job_lock(start, queue, concurrency))
    job.write()

    def run(task: str, agent: HarborAgent, name: str) -> Steps:
        if (yield from _harbor_trial(disk, fate.trial(task, 1, skill=agent.skill), agent, name)):
            yield HOOKS_SECONDS / speed
            shutil.rmtree(disk.root / name)
            job.retries += 1
            yield from _harbor_trial(disk, fate.trial(task, 1, skill=agent.skill, crashes=False), agent, name)
        job.done += 1
        job.write()

    trials_to_run = (run(task, agent, name) for (_, task, agent), name in names.items())
    run_queue(disk, fate, trials_to_run, concurrency)
    job.write(finished=True)


class _Job:
    """The job's result.json, written after every trial; its times have no zone."""

    def __init__(self, disk: Disk, fate: Fate, trials: int) -> None:
        self.done = self.retries = 0
        self._disk = disk
        self._fate = fate
        self._trials = trials
        self._started = fate.now
        self._id = fate.new_id()

    def write(self, *, finished: bool = False) -> None:
        now = self._fate.now.replace(tzinfo=None).isoformat()
        stats = {
            "n_completed_trials": self.done,
            "n_pending_trials": self._trials - self.done,
            "n_retries": self.retries,
        }
        result = {
            "id": self._id,
            "started_at": self._started.replace(tzinfo=None).isoformat(),
            "updated_at": now,
            "finished_at": now if finished else None,
            "n_total_trials": self._trials,
            "stats": stats,
        }
        self._disk.json(self._disk.root / "result.json", result)


def _harbor_trial(
    disk: Disk, trial: SimulatedTrial, agent: HarborAgent, name: str
) -> Generator[float, None, bool]:
    """One trial, from its configuration to its result; whether it crashed."""
    home = disk.make(name)
    disk.text(home / "trial.log", "")
    disk.json(home / "config.json", _trial_config(disk, trial, agent, name))
    disk.json(home / "lock.json", {"task": {"name": trial.task}, "agent": agent.entry})
    yield trial.seconds * 0.7
    disk.json(home / "agent" / "trajectory.json", _trajectory(trial, agent))
    yield trial.seconds * 0.3
    if trial.resolved is not None:
        disk.text(home / "verifier" / "reward.txt", str(int(trial.resolved)))
    disk.json(home / "result.json", _harbor_result(disk, trial, agent, name))
    return trial.crashed


def _name(fate: Fate, task: str) -> str:
    letters = fate.random.choices(string.ascii_letters + string.digits, k=_RANDOM_CHARACTERS)
    return f"{task}__{''.join(letters)}"


def _job_config(name: str, attempts: int, agents: Sequence[HarborAgent]) -> Json:
    dataset = {"name": DATASET, "version": "1.0"}
    entries = [agent.entry for agent in agents]
    return {"job_name": name, "n_attempts": attempts, "agents": entries, "datasets": [dataset]}


def _job_lock(start: datetime, queue: list[tuple[str, HarborAgent]], concurrency: int) -> Json:
    return {
        "schema_version": 3,
        "created_at": start.isoformat(),
        "harbor": {"version": "0.25.0"},
        "n_concurrent_trials": concurrency,
        "retry": {"max_retries": 1},
        "trials": [
            {"task": {"name": task, "source": DATASET}, "agent": agent.entry} for task, agent in queue
        ],
    }


def _trial_config(disk: Disk, trial: SimulatedTrial, agent: HarborAgent, name: str) -> Json:
    return {
        "task": {"name": trial.task, "source": DATASET},
        "trial_name": name,
        "trials_dir": disk.name,
        "agent": agent.entry,
    }


def _harbor_result(disk: Disk, trial: SimulatedTrial, agent: HarborAgent, name: str) -> Json:
    exception = EXCEPTIONS.get(trial.failure)
    tokens_in, tokens_out = trial.tokens
    return {
        "id": trial.id,
        "task_name": trial.task,
        "trial_name": name,
        "source": DATASET,
        "config": _trial_config(disk, trial, agent, name),
        "agent_info": {
            "name": agent.name,
            "version": "2.0",
            "model_info": {"name": agent.model, "provider": agent.provider},
        },
        "agent_result": {
            "n_input_tokens": tokens_in * 2,
            "n_cache_tokens": tokens_in,
            "n_output_tokens": tokens_out,
            "cost_usd": round((tokens_in * 3.3 + tokens_out * 15) / 1e6, 6),
        },
        "verifier_result": None if trial.resolved is None else {"rewards": {"reward": float(trial.resolved)}},
        "exception_info": exception and {"exception_type": exception, "exception_message": "simulated"},
        "started_at": trial.started.isoformat(),
        "finished_at": trial.ended.isoformat(),
        "step_results": None,
    }


def _trajectory(trial: SimulatedTrial, agent: HarborAgent) -> Json:
    steps: list[Json] = [{"step_id": 1, "source": "user", "message": f"Solve {trial.task}."}]
    count = trial.tokens[1] % 20 + 1
    steps += [{"step_id": number + 2, "source": "agent", "message": "on it"} for number in range(count)]
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": trial.id,
        "agent": {"name": agent.name},
        "steps": steps,
    }


# -----------------------------------------------------------------------------
# ProjectScylla's directories, in the newer layout with in_progress/ and completed/ (S10 to S13).


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


# -----------------------------------------------------------------------------
# A simulated harness: writes a run directory as a real one does, trial by trial, in place.


LAYOUTS = {
    "fc-eval": write_fc_eval,
    "terminal-bench": write_terminal_bench,
    "scylla": write_scylla,
    "harbor": write_harbor,
}
"""Harness -> what writes its directories."""

SHUFFLES = "harbor"
"""The one harness that starts tasks in the order of the list that it gets."""


def simulate_run(
    layout: str,
    out: Path,
    trials: int,
    *,
    seed: int,
    start: datetime,
    pace_seconds: float = 0.0,
    concurrency: int = 1,
    shuffle: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    written: Callable[[Path], None] = lambda _: None,
) -> None:
    """Write a run directory.

    Args:
        layout: one of `LAYOUTS`.
        out: the run directory; made if need be. Its name is the run's id.
        trials: how many, >= 1; those that are run again count once.
        seed: of everything random.
        start: when the run began, with a zone; the times in the files follow from it.
        pace_seconds: how long a trial takes on average. One that does not pass takes twice as long as one
            that does.
        concurrency: so many trials run at once.
        shuffle: start the tasks in a random order; only harbor can.
        sleep: waits.
        written: called with each file when it is complete.

    Raises:
        ValueError: the harness cannot shuffle.
    """
    disk = Disk(out, seed, pace_seconds, sleep, written)
    if shuffle and layout != SHUFFLES:
        raise ValueError(f"shuffle is for {SHUFFLES}; {layout} starts tasks in an order of its own")
    if shuffle:
        write_harbor(disk, trials, seed, start, concurrency, shuffle=True)
    else:
        LAYOUTS[layout](disk, trials, seed, start, concurrency)
