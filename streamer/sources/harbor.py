"""Job directories of harbor, as its package 0.25.0 writes them; the layout is in `harbor_layout`.

- A trial has no attempt number: harbor tells repeats of a task apart by the trial's name, of which part is
  random. So the name is the shard and the attempt is 1; a retry keeps the name and is a revision.
- A reward is the verifier's, mostly of tests, and may be any finite number: it is no judge's score (R13).
  Every reward is a metric of the trial; `harbor_outcome` names them.
- Input tokens of harbor include tokens from the cache (`AgentContext`); ours are the fresh ones.
- The model is named as the user named it, with its provider, so that the plan and the results agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from streamer.sources.artifacts import artifacts_of
from streamer.sources.base import ConvertOptions, Found, RunPlan, Unreadable
from streamer.sources.costs import known_cost
from streamer.sources.files import (
    FileError,
    clean_name,
    is_directory,
    is_file,
    known,
    mtime_ns,
    objects,
    part,
    read_object,
    read_optional,
    subdirectories,
    text,
)
from streamer.sources.harbor_layout import (
    CONFIG,
    LOCK,
    NO_RESULTS,
    OWN_FILES,
    RESULT,
    attempts,
    configured_agents,
    folders_of,
    is_job,
    labels,
    planned_trials,
    queue_of_each,
    steps_of,
    with_zone,
)
from streamer.sources.harbor_outcome import MAIN_REWARD, failure_mode, message, metrics, verdict
from streamer.sources.harbor_starts import slot_of, start_in
from streamer.sources.harbor_trajectory import TRAJECTORY, trajectory_length

_TOKENS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")


class Harbor:
    """Connector for harbor."""

    name = "harbor"

    def detect(self, path: Path) -> bool:
        return is_job(path)

    def skip(self, directory: Path) -> bool:
        return directory.name in NO_RESULTS

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        """The plan from lock.json, which names every trial; config.json alone does not name the tasks."""
        plan = RunPlan(run_id=clean_name(path))
        config = read_optional(path / CONFIG, plan.problems)
        lock = read_optional(path / LOCK, plan.problems)
        result = read_optional(path / RESULT, plan.problems)
        plan.aliases = frozenset(filter(None, [text(config.get("job_name"))])) - {plan.run_id}
        plan.uuids = frozenset(filter(None, [text(result.get("id"))]))
        plan.started = self._started(path, config, lock, plan.problems)
        finished_at = text(result.get("finished_at"))
        if finished_at:
            plan.finished = known(
                {
                    "type": "run_finished",
                    "revision": mtime_ns(path / RESULT),
                    "finished_at": with_zone(finished_at, result.get("started_at"), lock.get("created_at")),
                    "status": "completed",
                }
            )
        return plan

    def _started(
        self, path: Path, config: dict[str, Any], lock: dict[str, Any], problems: list[Unreadable]
    ) -> dict[str, Any]:
        planned = planned_trials(lock)
        agents = [(name, model) for name, model, _ in planned] or configured_agents(config)
        benchmark, version = _benchmark(config)
        return known(
            {
                "type": "run_started",
                "harness": self.name,
                "revision": max(mtime_ns(path / name) for name in (CONFIG, LOCK)),
                "started_at": lock.get("created_at"),
                "tasks": list(dict.fromkeys(task for *_, task in planned if task)) or None,
                "attempts": attempts(planned) if planned else config.get("n_attempts"),
                "order": queue_of_each(planned),
                "concurrency": lock.get("n_concurrent_trials") or config.get("n_concurrent_trials"),
                "plan_complete": bool(planned) and not problems,
                "agent_models": labels(agents),
                "benchmark": benchmark,
                "benchmark_version": version,
                "metrics": {MAIN_REWARD: {"direction": "higher"}},
            }
        )

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Found | Unreadable]:
        for directory in [within] if within else subdirectories(path):
            file = directory / RESULT
            if self.skip(directory):
                continue
            if not is_file(file):
                yield from start_in(path, directory, options)
                continue
            try:
                result = read_object(file)
            except FileError as error:
                yield Unreadable(file, str(error))
                continue
            if text(result.get("task_name")) is None:
                reason = f"`task_name` is {result.get('task_name')!r}, a text is needed"
                yield Unreadable(file, f"not a trial result of harbor: {reason}")
                continue
            yield self._trial(path, file, result, options)

    def part(self, run: Path, changed: Path) -> Path | None:
        """The directory of the trial; for a file of the job the whole of it."""
        inside = changed.relative_to(run).parts
        trial = run / inside[0] if inside else run
        return trial if trial != run and is_directory(trial) else None

    def _trial(self, job: Path, file: Path, result: dict[str, Any], options: ConvertOptions) -> Found:
        totals = _totals(result)
        resolved, no_verdict = verdict(result)
        length, no_length = trajectory_length(file.parent, result)
        event = {
            "type": "trial_result",
            "harness": self.name,
            **slot_of(file.parent, result, options),
            "revision": mtime_ns(file),
            "trial_id": text(result.get("id")),
            "trial_name": text(result.get("trial_name")),
            "resolved": resolved,
            "failure_mode": failure_mode(result),
            "message": message(result),
            "metrics": metrics(result),
            "labels": _labels(result),
            "artifacts": artifacts_of(job, file.parent, folders_of(file.parent, result), OWN_FILES),
            "input_tokens": _fresh(totals),
            "output_tokens": totals["n_output_tokens"],
            "cache_read_tokens": totals["n_cache_tokens"],
            "cost_usd": known_cost(totals["cost_usd"], totals["n_input_tokens"], totals["n_output_tokens"]),
            "trajectory_length": length,
            "started_at": result.get("started_at"),
            "finished_at": result.get("finished_at"),
        }
        return Found(
            file,
            known(event),
            origins={"trajectory_length": TRAJECTORY},
            hints=tuple(filter(None, (no_verdict, no_length))),
        )


def _labels(result: Mapping[str, Any]) -> dict[str, str] | None:
    """The dataset that the task is from; a job may have tasks of several."""
    source = text(result.get("source"))
    return {"dataset": source} if source else None


def _totals(result: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens and cost of the trial, or summed over its steps (`compute_token_cost_totals`)."""
    whole = part(result, "agent_result")
    contexts = [whole] if whole else [part(step, "agent_result") for step in steps_of(result)]
    return {name: _sum([c[name] for c in contexts if c.get(name) is not None]) for name in _TOKENS}


def _sum(values: list[Any]) -> Any:
    """The sum; the first value as it is where they are no numbers, so that it gets reported."""
    numbers = all(isinstance(value, int | float) for value in values)
    return sum(values) if values and numbers else next(iter(values), None)


def _fresh(totals: Mapping[str, Any]) -> Any:
    """Input tokens without those from the cache."""
    every, cached = totals["n_input_tokens"], totals["n_cache_tokens"]
    return max(0, every - cached) if isinstance(every, int) and isinstance(cached, int) else every


def _benchmark(config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Name and version of the one dataset that all tasks are from."""
    datasets = objects(config, "datasets")
    if len(datasets) != 1:
        return None, None
    name = text(datasets[0].get("name")) or Path(text(datasets[0].get("path")) or "").name
    return name or None, text(datasets[0].get("version")) or text(datasets[0].get("ref"))
