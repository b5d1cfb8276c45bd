"""Directories of Terminal-Bench, fc-eval and ProjectScylla, written by simulated harnesses.

python -m tests.support.layouts LAYOUT OUT TRIALS PACE CONCURRENCY
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from glob import escape
from itertools import islice, product
from pathlib import Path
from typing import Any

from streamer.sources.fc_eval import ENTRIES
from streamer.sources.files import ConfiguredAgent, container_key
from streamer.terminal.simulate import (
    AGENT_TIMEOUT,
    CRASH,
    TEST_TIMEOUT,
    UNSET,
    Disk,
    Fate,
    SimulatedTrial,
    Steps,
    attempts_of,
    run_queue,
    write_harbor,
)

# -----------------------------------------------------------------------------
# Terminal-Bench's directories (semantics F11, G1, G2, G4, H2).


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
    agent, lock = {"agent_name": AGENT, "model_name": MODEL}, ("tb.lock", _terminal_bench_lock)
    _write_run(disk, trials, seed, start, concurrency, "task-{:04}", agent, lock, _terminal_bench_trial)


def _write_run(
    disk: Disk,
    trials: int,
    seed: int,
    start: datetime,
    concurrency: int,
    task_name: str,
    agent: dict[str, str],
    lock: tuple[str, Callable[[datetime, list[str], int, int], dict[str, Any]]],
    steps_of: Callable[[Disk, RunFile, Fate, SimulatedTrial, int], Steps],
) -> None:
    """Run every attempt at every task; then the run is resumed, and crashed trials are run again.

    Args:
        disk, trials, seed, start, concurrency: see `simulate_run`.
        task_name: of a task; its number is formatted into it.
        agent: what `run_metadata.json` says of it (G4).
        lock: the name of the lock file, and what makes its content.
        steps_of: what a trial writes, the run-level file included.
    """
    fate, attempts = Fate(seed, start), attempts_of(trials)
    tasks = [task_name.format(number) for number in range(1, trials // attempts + 1)]
    run_uuid = fate.new_id()
    disk.make()
    disk.json(disk.root / lock[0], lock[1](start, tasks, attempts, concurrency))
    metadata = {
        "run_id": disk.name,
        "uuid": run_uuid,
        "dataset_name": DATASET,
        "dataset_version": "1.0",
        "task_ids": tasks,
        "n_attempts": attempts,
        "dataset_size": len(tasks),
        "accuracy": None,
        "start_time": start.isoformat(),
        "end_time": None,
        **agent,
    }
    disk.json(disk.root / "run_metadata.json", metadata)
    run_file = RunFile(disk, run_uuid)
    crashed: list[SimulatedTrial] = []

    def run(task: str, attempt: int, *, crashes: bool) -> Steps:
        trial = fate.trial(task, attempt, crashes=crashes)
        crashed.extend([trial] if trial.crashed else [])
        return steps_of(disk, run_file, fate, trial, attempts)

    places = product(tasks, range(1, attempts + 1))
    run_queue(disk, fate, (run(*place, crashes=True) for place in places), concurrency)
    ended = {"end_time": fate.now.isoformat(), "accuracy": run_file.accuracy}
    disk.json(disk.root / "run_metadata.json", metadata | ended)
    again = [(trial, trial_name(disk, trial, attempts)) for trial in crashed]
    run_file.forget([(trial.task, name) for trial, name in again])
    for trial, name in again:
        for left in (disk.root / trial.task).glob(f"{escape(name)}*"):  # its agents' directories too
            shutil.rmtree(left)
    run_queue(disk, fate, (run(t.task, t.attempt, crashes=False) for t, _ in again), concurrency)


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


def _terminal_bench_trial(
    disk: Disk, run_file: RunFile, _: Fate, trial: SimulatedTrial, attempts: int
) -> Steps:
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


# -----------------------------------------------------------------------------
# How fc-eval merges the results of a trial's agents into one (semantics C1, D2 to D13).


ResultFields = dict[str, Any]

_METRICS = "parser_extra_metrics"
_TOKENS = ("total_input_tokens", "total_output_tokens")
_COUNTS = ("passed", "failed", "skipped", "total")


def merged(results: Mapping[str, ResultFields]) -> ResultFields:
    """The trial as a whole: later agents' values win, the trial's name too (D2); totals are summed (D3).

    `results`: key of each agent to its result, in the order in which they ran.
    """
    whole: ResultFields = {}
    for result in results.values():
        whole = _united(whole, result)
    costs = {key: result["total_cost"] for key, result in results.items()}
    whole |= {field: sum(result[field] for result in results.values()) for field in _TOKENS}
    whole |= {"total_cost": sum(costs.values()), "costs_by_agent_model": costs}
    flat = whole[_METRICS].get("improvements_dict", {}).get("per_benchmark_speedups", {})
    oracle = next((result for key, result in results.items() if key.startswith("oracle")), None)
    allowed = _failures(oracle) if oracle else 0
    entries = {key: _entry(result, key, allowed, flat) for key, result in results.items()}
    whole[_METRICS] = whole[_METRICS] | {ENTRIES: entries}
    return whole


def _united(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    united = first | {key: _united(first.get(key), value) for key, value in second.items()}
    if len(united) > 1:
        united.pop("error", None)
    return united


def _entry(result: ResultFields, key: str, allowed: int, flat: Mapping[str, ResultFields]) -> ResultFields:
    """Metrics of one agent. Logs do not have the key that the harness looks for (E11).

    `flat`: the last agent's speedups, which therefore all get (D6).
    `allowed`: failed tests of the oracle, which others may have too (D8).
    """
    metrics = result[_METRICS]
    tests, snapshot = metrics.get("tests_dict", {}), metrics.get("snapshot_dict", {})
    pytest_failed = _failures(result) > allowed
    snapshot_failed = not snapshot or snapshot["pass-to-fail"] > 0  # (D10)
    failed = pytest_failed or snapshot_failed
    fallback = failed and not key.startswith("nop") and bool(flat)
    return {
        "per_benchmark_speedups": _fallen_back(flat) if fallback else flat,
        "pytest_summary": {
            **_counts(tests, (*_COUNTS, "error")),
            "failed_total": _failures(result),
            "status": "passed" if tests and not _failures(result) else "failed",
        },
        "snapshot_summary": {
            **_counts(snapshot, _COUNTS),
            "failed": int(bool(snapshot) and snapshot_failed),  # (B7)
            "pass_to_fail": snapshot.get("pass-to-fail", 0),
            "status": "failed" if snapshot_failed else "passed",
        },
        "pytest_failed": pytest_failed,
        "snapshot_failed": snapshot_failed,
        "success": not failed,
        "fallback_to_baseline": fallback,
        "task_cost_usd": result["total_cost"],
        "trajectory_length": metrics["trajectory_length"],
    }


def _counts(block: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    return {name: block.get(name, 0) for name in names}


def _failures(result: ResultFields) -> int:
    tests = result[_METRICS].get("tests_dict", {})
    return int(tests.get("failed", 0) + tests.get("error", 0))


def _fallen_back(flat: Mapping[str, ResultFields]) -> dict[str, ResultFields]:
    """The speedups of an agent that counts as one that changed nothing (C1)."""
    return {name: entry | {"agent/nop": 1.0, "fallback_to_baseline": True} for name, entry in flat.items()}


# -----------------------------------------------------------------------------
# fc-eval's directories, with three agents to a trial (semantics D16, E1, E11, G1 to G3).


AGENTS = (
    ConfiguredAgent("nop", "nop"),
    ConfiguredAgent("oracle", "oracle"),
    ConfiguredAgent("terminus-2", "openai/gpt-5"),
)
"""In the order in which they run."""

BENCHMARKS = ("algorithms.Sort.time_sort", "algorithms.Sort.time_search", "io.time_read")
_PRICES = (1.25e-6, 1e-5)
"""USD per token in and out."""


def write_fc_eval(disk: Disk, trials: int, seed: int, start: datetime, concurrency: int) -> None:
    """Every trial is one of each agent; crashed trials are run again when the run is resumed."""
    agent, lock = {"agent_name": "multi-agent"}, ("fc.lock", _fc_eval_lock)
    _write_run(disk, trials, seed, start, concurrency, "repo_project_{}", agent, lock, _fc_eval_trial)


def _fc_eval_trial(disk: Disk, run_file: RunFile, fate: Fate, trial: SimulatedTrial, attempts: int) -> Steps:
    """The agents one after the other, then the trial as a whole; a crash prevents the last two (D16)."""
    name = trial_name(disk, trial, attempts)
    home = trial_directory(disk, trial.task, name)
    ran = AGENTS[:-1] if trial.crashed else AGENTS
    results: dict[str, ResultFields] = {}
    for index, agent in enumerate(ran, 1):
        own = _own_trial(fate, trial, index)
        results[agent.key] = yield from _sub_trial(disk, fate, own, index, name)
    if trial.crashed:
        run_file.add(_bare(trial, name))
        return
    whole = merged(results)
    disk.json(home / "results.json", whole)
    disk.json(home / "results.json", whole)
    run_file.add(whole)


def _own_trial(fate: Fate, trial: SimulatedTrial, index: int) -> SimulatedTrial:
    """The trial as one agent has it, a part of its time; baselines neither fail nor use tokens."""
    agent, share = AGENTS[index - 1].label, (trial.ended - trial.started) / len(AGENTS)
    begun = trial.started + (index - 1) * share
    own = replace(trial, id=fate.new_id(), started=begun, ended=begun + share)
    if agent == AGENTS[-1].label:
        return own
    return replace(own, failure=UNSET, resolved=agent == "oracle", tokens=(0, 0))


def _sub_trial(
    disk: Disk, fate: Fate, trial: SimulatedTrial, index: int, name: str
) -> Generator[float, None, ResultFields]:
    """What one agent does and leaves; its result twice, before and after its logs were read (G3)."""
    agent = AGENTS[index - 1]
    key = container_key(index, agent)
    sub = f"{name}.agent-{index}-{agent.label}"
    home = trial_directory(disk, trial.task, sub)
    yield trial.seconds
    steps = trial.tokens[1] % 30 + 2
    if trial.tokens[0]:
        disk.json(home / "agent-logs" / "trajectory.json", _trajectory(trial, steps))
    result = _bare(trial, sub)
    if trial.failure != TEST_TIMEOUT:
        sections = _sections(fate, trial, key, agent.label)
        disk.text(home / "panes" / "post-test.txt", _pane(sections))
        verdict = "passed" if trial.resolved else "failed"
        result |= {
            "parser_results": {"improvements": verdict},
            "parser_extra_metrics": _metrics(sections, key),
        }
    disk.json(home / "results.json", result)
    disk.pause_writing()
    cost = trial.tokens[0] * _PRICES[0] + trial.tokens[1] * _PRICES[1]
    metrics = result["parser_extra_metrics"] or {}
    read = {"trajectory_length": steps if cost else 0, "task_cost_usd": cost, "agent_model_key": agent.key}
    result |= {
        "total_cost": cost,
        "costs_by_agent_model": {agent.key: cost},
        "parser_extra_metrics": metrics | read,
    }
    disk.json(home / "results.json", result)
    return result


def _bare(trial: SimulatedTrial, name: str) -> ResultFields:
    """A result without anything that was measured."""
    return {
        "id": trial.id,
        "trial_name": name,
        "task_id": trial.task,
        "instruction": f"Make the benchmarks of {trial.task} faster.",
        "is_resolved": trial.resolved,
        "failure_mode": trial.failure,
        "parser_results": None,
        "parser_extra_metrics": None,
        "total_input_tokens": trial.tokens[0],
        "total_output_tokens": trial.tokens[1],
        "total_cost": None,
        "costs_by_agent_model": {},
        "trial_started_at": trial.started.isoformat(),
        "trial_ended_at": trial.ended.isoformat(),
    }


def _sections(fate: Fate, trial: SimulatedTrial, key: str, agent: str) -> dict[str, ResultFields]:
    """The three blocks of the log; `key`: the agent's in the spelling that its container has (E11)."""
    oracle = {name: 1.2 + index / 2 for index, name in enumerate(BENCHMARKS)}
    own = {"nop": 0.0, "oracle": 1.0}.get(agent, fate.random.random())
    speedups = {
        name: {"agent/nop": round(1 + own * (best - 1), 4), "oracle/nop": best}
        for name, best in oracle.items()
    }
    failed = 0 if trial.resolved else 2
    tests = {"passed": 40 - failed, "failed": failed, "error": 0, "skipped": 1, "total": 41}
    return {
        "RESULT": {
            "last_agent": key,
            "agent_advantage": 0.0,
            "per_benchmark_speedups": speedups,
            "per_benchmark_speedups_by_agent": {key: speedups},
        },
        "TESTS": tests,
        "SNAPSHOT": {"pass-to-pass": 12, "pass-to-fail": 0, "passed": 12, "failed": 0, "total": 12},
    }


def _pane(sections: dict[str, ResultFields]) -> str:
    blocks = [
        f"FORMULACODE_{name}_START\n{json.dumps(block)}\nFORMULACODE_{name}_END"
        for name, block in sections.items()
    ]
    return "$ run-tests\n" + "\n".join(blocks) + "\n"


def _metrics(sections: dict[str, ResultFields], key: str) -> ResultFields:
    speedups = sections["RESULT"]["per_benchmark_speedups"]
    return {
        "improvements_dict": sections["RESULT"],
        "tests_dict": sections["TESTS"],
        "snapshot_dict": sections["SNAPSHOT"],
        "last_agent": key,
        "tests": "failed" if sections["TESTS"]["failed"] else "passed",
        "per_benchmark_speedups_by_agent": {key: speedups},
    }


def _trajectory(trial: SimulatedTrial, steps: int) -> list[ResultFields]:
    """A list of steps; the last one says what was used in all (E1)."""
    usage = {"prompt_tokens": trial.tokens[0], "completion_tokens": trial.tokens[1]}
    last = {"role": "assistant", "llm_metrics": {"accumulated_token_usage": usage}}
    return [*({"role": "user", "text": "go on"} for _ in range(steps - 1)), last]


def _fc_eval_lock(start: datetime, tasks: list[str], attempts: int, concurrency: int) -> ResultFields:
    agents = [
        {"agent_id": f"agent-{index}", "agent_name": name, "model_name": model}
        for index, (name, model) in enumerate(AGENTS, 1)
    ]
    return {
        "lockfile_version": "2.0",
        "created_at": start.isoformat(),
        "harness": {"package": "fc-eval", "version": "0.1.0"},
        "agent": {"name": "multi-agent", "extra_kwargs": {"multi_agent_agents": agents}},
        "run_spec": {"agent_mode": "multi", "agents": agents},
        "run_config": {"n_attempts": attempts, "n_concurrent_trials": concurrency},
        "dataset": {"name": None, "version": None, "task_ids": tasks},
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


if __name__ == "__main__":
    layout, out, trials, pace, concurrency = sys.argv[1:]
    simulate_run(
        layout,
        Path(out),
        int(trials),
        seed=1,
        start=datetime.now(UTC),
        pace_seconds=float(pace),
        concurrency=int(concurrency),
    )
