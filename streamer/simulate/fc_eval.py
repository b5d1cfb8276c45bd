"""fc-eval's directories, with three agents to a trial (semantics D16, E1, E11, G1 to G3)."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime

from streamer.simulate.disk import Disk
from streamer.simulate.fc_eval_merge import ResultFields, merged
from streamer.simulate.outcomes import TEST_TIMEOUT, UNSET, Fate, SimulatedTrial, attempts_of
from streamer.simulate.schedule import Steps
from streamer.simulate.terminal_bench import RunFile, metadata_of, run_and_resume, trial_directory, trial_name
from streamer.sources.agent_keys import ConfiguredAgent, container_key

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
    fate = Fate(seed, start)
    attempts = attempts_of(trials)
    tasks = [f"repo_project_{number}" for number in range(1, trials // attempts + 1)]
    run_uuid = fate.new_id()
    disk.make()
    disk.json(disk.root / "fc.lock", _fc_eval_lock(start, tasks, attempts, concurrency))
    metadata = metadata_of(disk.name, run_uuid, start, tasks, attempts) | {"agent_name": "multi-agent"}
    run_and_resume(
        disk,
        fate,
        metadata,
        concurrency,
        lambda trial, file: _fc_eval_trial(disk, file, fate, trial, attempts),
    )


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
