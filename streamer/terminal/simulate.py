"""A simulated harbor, which writes a job trial by trial; the same seed gives the same files at any pace."""

from __future__ import annotations

import json
import shutil
import string
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from streamer.statistics.final import hash_shuffled

CRASH = "unknown_agent_error"
AGENT_TIMEOUT = "agent_timeout"
TEST_TIMEOUT = "test_timeout"
UNSET = "unset"

_KINDS = {UNSET: 0.84, AGENT_TIMEOUT: 0.07, TEST_TIMEOUT: 0.03, CRASH: 0.06}
SKILL = 0.6
"""Default probability that an agent passes a trial."""

FAILURES_TAKE = 2.0
"""Factor on the duration of a failing trial, because a stuck agent continues."""


@dataclass(frozen=True, slots=True)
class SimulatedTrial:
    """One attempt at a task, counted from 1, with `failure` in Terminal-Bench's terms.

    `resolved` None means no verdict (timeout of the tests, crash). `tokens` are (input, output).
    """

    task: str
    attempt: int
    failure: str
    resolved: bool | None
    started: datetime
    ended: datetime
    tokens: tuple[int, int]
    id: str

    @property
    def crashed(self) -> bool:
        return self.failure == CRASH

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds()


class Fate:
    """A source of random trials; agents are `speed` (> 0) times as fast, with proportionally fewer tokens."""

    def __init__(self, seed: int, start: datetime, speed: float = 1.0) -> None:
        self._speed = speed
        self.random = Random(f"{seed} outcomes")
        self.now = start

    def trial(self, task: str, attempt: int, *, crashes: bool = True, skill: float = SKILL) -> SimulatedTrial:
        """A trial that starts now. `skill` is the probability that it passes, 0 to 1."""
        random = self.random
        (failure,) = random.choices(list(_KINDS), list(_KINDS.values()))
        if failure == CRASH and not crashes:
            failure = UNSET
        verdict = random.random() < skill
        resolved = None if failure in (CRASH, TEST_TIMEOUT) else verdict
        seconds = random.lognormvariate(3.5, 0.5) * (1 if resolved else FAILURES_TAKE) / self._speed
        return SimulatedTrial(
            task,
            attempt,
            failure,
            resolved,
            self.now,
            self.now + timedelta(seconds=round(seconds, 3)),
            (self._tokens(10), self._tokens(7.5)),
            self.new_id(),
        )

    def _tokens(self, usual: float) -> int:
        return int(self.random.lognormvariate(usual, 0.6) / self._speed)

    def new_id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))


def attempts_of(trials: int) -> int:
    """Attempts at each task, so that the trials fill whole tasks if possible.

    >>> attempts_of(20), attempts_of(9), attempts_of(7)
    (5, 3, 1)
    """
    return next(attempts for attempts in (5, 3, 2, 1) if trials % attempts == 0)


# -----------------------------------------------------------------------------
# Writing as harnesses do: in place and piece by piece, so that a reader may see half a file.


MEAN_SECONDS = 55.0
"""Approximate mean duration of a simulated trial, in simulated time."""

PIECES = 3
SHARE_OF_WRITING = 0.1
"""Share of a trial's time for writing one file."""


class Disk:
    """A run directory that is being written, at `pace_seconds` a trial on average.

    `piece_seconds` is the time between two writes of one file, as part of the trial; None: the usual share.
    `written` is called with each complete file.
    """

    def __init__(
        self,
        root: Path,
        seed: int,
        pace_seconds: float,
        sleep: Callable[[float], None] = time.sleep,
        written: Callable[[Path], None] = lambda _: None,
        piece_seconds: float | None = None,
    ) -> None:
        self.root = root
        self._random = Random(f"{seed} cuts")
        self._pace = pace_seconds
        self._sleep = sleep
        self._written = written
        self._piece_seconds = pace_seconds * SHARE_OF_WRITING if piece_seconds is None else piece_seconds
        self._spent = 0.0

    @property
    def name(self) -> str:
        return self.root.absolute().name

    def pause_writing(self) -> None:
        if self._pace:
            self._sleep(self._piece_seconds)
            self._spent += self._piece_seconds

    def pass_time(self, seconds: float) -> None:
        if not self._pace or seconds <= 0:
            return
        left = self._pace * seconds / MEAN_SECONDS - self._spent
        self._spent = max(0.0, -left)
        self._sleep(max(0.0, left))

    def make(self, *names: str) -> Path:
        path = self.root.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def json(self, path: Path, value: Any) -> None:
        self.text(path, json.dumps(value, indent=4))

    def text(self, path: Path, text: str) -> None:
        data = text.encode()
        cuts = sorted(self._random.randrange(len(data) + 1) for _ in range(self._random.randrange(PIECES)))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb", buffering=0) as file:
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                if start:
                    self.pause_writing()
                file.write(data[start:end])
        self._written(path)


# -----------------------------------------------------------------------------
# Simulated trials in parallel: each continues at its own time.


Steps = Iterator[float]
"""A running trial: it writes, then yields the seconds until its next write."""


def run_queue(disk: Disk, fate: Fate, queue: Iterable[Steps], at_once: int) -> None:
    """Run trials to their ends, in the order of the queue, `at_once` (>= 1) at a time.

    Only the clock of `fate`, not the pace, decides which trial continues next.
    """
    waiting = iter(queue)
    running: list[tuple[datetime, int, Steps]] = []
    number = 0
    while True:
        while len(running) < at_once and (steps := next(waiting, None)) is not None:
            number += 1
            _go_on(running, fate.now, number, steps)
        if not running:
            return
        due, place, steps = heappop(running)
        disk.pass_time((due - fate.now).total_seconds())
        fate.now = due
        _go_on(running, due, place, steps)


def _go_on(running: list[tuple[datetime, int, Steps]], now: datetime, place: int, steps: Steps) -> None:
    seconds = next(steps, None)
    if seconds is not None:
        heappush(running, (now + timedelta(seconds=seconds), place, steps))


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
"""Simulated time that harbor waits for its hooks before it deletes a failed trial for its retry."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HarborAgent:
    """An agent of a job, in harbor's terms; `skill` is its probability of passing, 0 to 1."""

    name: str
    provider: str
    model: str
    skill: float = SKILL

    @property
    def entry(self) -> Json:
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
    """Write a job: attempts at each task in rounds, agents in turn; a crashed trial is retried at once.

    `start` is the job's time, with a zone; the times in the files follow from it. `attempts` at each task
    must divide the trials. None picks several if they fill whole tasks.
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
