"""harbor's job directories: a retry deletes the trial's directory and writes it again under its name."""

from __future__ import annotations

import shutil
import string
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from streamer.inference.shuffle import hash_shuffled
from streamer.simulate.disk import Disk
from streamer.simulate.outcomes import (
    AGENT_TIMEOUT,
    CRASH,
    SKILL,
    TEST_TIMEOUT,
    Fate,
    SimulatedTrial,
    attempts_of,
)
from streamer.simulate.schedule import Steps, run_queue

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
