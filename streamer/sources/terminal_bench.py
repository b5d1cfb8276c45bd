"""Terminal-Bench run directories (semantics G and H); the layout is in `terminal_bench_layout`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from streamer.model_names import label_for_reporting
from streamer.schemas.identity import UNKNOWN
from streamer.sources.agent_keys import model_of
from streamer.sources.agent_logs import enriched, read_agent_logs
from streamer.sources.base import ConvertOptions, Found, RunPlan, Unreadable
from streamer.sources.costs import reported_cost
from streamer.sources.files import (
    FileError,
    clean_name,
    exists,
    is_directory,
    is_file,
    known,
    mtime_ns,
    part,
    read_object,
    read_optional,
    text,
)
from streamer.sources.starts import start_of
from streamer.sources.terminal_bench_layout import (
    FC_EVAL_LOCK,
    LOCK,
    LOG_DIRECTORIES,
    METADATA,
    RESULTS,
    TRIAL_DEPTH,
    attempt_and_run,
    depth,
    directory_of,
    failed_tests,
    has_own_file,
    is_run_file,
    is_run_place,
    made_first,
    own_names,
    part_of_run,
    result_files,
    run_file_results,
    run_name,
    sorts_by_duration,
    task_by_task,
    trial_artifacts,
    trials_begun,
)


class TerminalBench:
    """Connector for Terminal-Bench. An fc-eval run is read only when asked for: without its speedups."""

    name = "terminal-bench"

    def detect(self, path: Path) -> bool:
        return is_run_file(path) if is_file(path) else is_run_place(path)

    def skip(self, directory: Path) -> bool:
        return directory.name in LOG_DIRECTORIES

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        plan = RunPlan(run_id=run_name(path))
        home = path if is_directory(path) else path.parent
        has_lock = is_directory(path) or path.name == RESULTS
        lock_file = home / (FC_EVAL_LOCK if is_file(home / FC_EVAL_LOCK) else LOCK)
        lock = read_optional(lock_file, plan.problems) if has_lock else {}
        metadata = read_optional(home / METADATA, plan.problems) if has_lock else {}
        own_results = path if is_file(path) else path / RESULTS
        agent = part(lock, "agent")
        plan.agent = (
            text(agent.get("name"))
            or text(metadata.get("agent_name"))
            or _import_path(agent.get("import_path"))
            or options.agent
        )
        model = text(agent.get("model_name")) or text(metadata.get("model_name")) or options.model
        plan.model = model_of(plan.agent, model) if plan.agent else model
        names = (metadata.get("run_id"), part(lock, "local_config").get("run_id"))
        plan.aliases = frozenset(filter(None, map(text, names))) - {plan.run_id}
        uuids = (metadata.get("uuid"), read_optional(own_results, []).get("id"))
        plan.uuids = frozenset(filter(None, map(text, uuids)))
        files = (home / METADATA, lock_file) if has_lock else ()
        revision = max(mtime_ns(file) for file in (*files, own_results))
        plan.started = _run_started(lock, metadata, plan, revision)
        if has_lock:
            # Said without a plan too: a broken lock set it to false, and its deletion must set it back (R26).
            is_named = bool(plan.started.get("tasks")) or not (lock or metadata)
            plan.started["plan_complete"] = is_named and not plan.problems
        if text(metadata.get("end_time")):
            plan.finished = {
                "type": "run_finished",
                "revision": mtime_ns(home / METADATA),
                "finished_at": metadata["end_time"],
                "status": "completed",
            }
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Found | Unreadable]:
        if is_directory(path) and is_file(path / FC_EVAL_LOCK) and options.harness != self.name:
            yield Unreadable(
                path,
                f"an fc-eval run ({FC_EVAL_LOCK}); --harness {self.name} reads verdicts, tokens and times "
                "without its speedups",
            )
            return
        seen: set[_Identity] = set()
        if within == path / RESULTS and not options.trial_files_only:
            yield from self._trials_of_run_file(path, plan, seen, alone=True)
            return
        for item in self._trials_of_files(path, plan, within):
            if isinstance(item, Found):
                seen.add(_identity(item.event))
            yield item
        if not options.trial_files_only and within is None:
            yield from self._trials_of_run_file(path, plan, seen)

    def part(self, run: Path, changed: Path) -> Path | None:
        return part_of_run(run, changed)

    def _trials_of_files(self, run: Path, plan: RunPlan, within: Path | None) -> Iterator[Found | Unreadable]:
        """Trials with a file of their own, those in their proper place first."""
        files = sorted(result_files(run, within, sub_trials=False), key=lambda file: (depth(run, file), file))
        read = [(file, self._read_trial(file, plan)) for file in files]
        claims = ((file, trial.run) for file, trial in read if isinstance(trial, _Trial))
        own = own_names({plan.run_id, *plan.aliases}, run, claims)
        for file, trial in read:
            if isinstance(trial, Unreadable):
                yield trial
                continue
            event = trial.event | known({"artifacts": trial_artifacts(run, file.parent)})
            told = enriched(event, read_agent_logs(file.parent, recordings=False))
            yield Found(
                file,
                told.event,
                other_run=None if trial.run in own else trial.run,
                nested=depth(run, file) != TRIAL_DEPTH,
                origins=told.sources,
                own=told.own,
                hints=told.problems,
            )
        for directory in trials_begun(run, within):
            task_id = clean_name(directory.parent)
            attempt, named = attempt_and_run(task_id, clean_name(directory))
            if named is None or named in own:
                agent, model = plan.agent or UNKNOWN, plan.model or UNKNOWN
                slot = {"task_id": task_id, "attempt": attempt, "agent": agent, "model": model}
                yield start_of(directory, slot, *made_first(directory))

    def _trials_of_run_file(
        self, path: Path, plan: RunPlan, seen: set[_Identity], *, alone: bool = False
    ) -> Iterator[Found | Unreadable]:
        """Trials that stand only in the run-level file: crashed ones, or all of them (H2, H6).

        `seen`: those that do not. `alone`: the files are not known yet, so they are looked for.
        """
        file = path if is_file(path) else path / RESULTS
        if not exists(file):
            return
        try:
            results = run_file_results(file)
        except FileError as error:
            yield Unreadable(file, str(error))
            return
        revision = mtime_ns(file)
        for number, result in enumerate(results):
            trial = self._trial(result, "", plan, revision)
            if isinstance(trial, str):
                yield Unreadable(file, f"results[{number}]: {trial}")
            elif _identity(trial.event) not in seen and not (
                alone and has_own_file(path, *_identity(trial.event))
            ):
                seen.add(_identity(trial.event))
                home = directory_of(path, *_identity(trial.event))
                left = known({"artifacts": trial_artifacts(path, home)})
                yield Found(file, trial.event | left, from_run_file=True)

    def _read_trial(self, file: Path, plan: RunPlan) -> _Trial | Unreadable:
        try:
            trial = self._trial(read_object(file), clean_name(file.parent), plan, mtime_ns(file))
        except FileError as error:
            return Unreadable(file, str(error))
        return Unreadable(file, trial) if isinstance(trial, str) else trial

    def _trial(self, result: Any, place: str, plan: RunPlan, revision: int) -> _Trial | str:
        """The trial that a result describes, or why it describes none."""
        if not isinstance(result, dict):
            return f"a trial result is an object, this is a JSON {type(result).__name__}"
        task_id = text(result.get("task_id"))
        if task_id is None:
            return f"not a trial result: `task_id` is {result.get('task_id')!r}, a text is needed"
        trial_name = text(result.get("trial_name")) or place
        attempt, run = attempt_and_run(task_id, trial_name)
        event = {
            "type": "trial_result",
            "harness": self.name,
            "task_id": task_id,
            "attempt": attempt,
            "agent": plan.agent or UNKNOWN,
            "model": plan.model or UNKNOWN,
            "revision": revision,
            "trial_id": result.get("id") or result.get("uuid"),
            "trial_name": trial_name or None,
            "resolved": result.get("is_resolved"),
            "failure_mode": result.get("failure_mode"),
            "message": failed_tests(result),
            "input_tokens": result.get("total_input_tokens"),
            "output_tokens": result.get("total_output_tokens"),
            "cost_usd": reported_cost(result, plan.agent or UNKNOWN),
            "started_at": result.get("trial_started_at"),
            "finished_at": result.get("trial_ended_at"),
        }
        return _Trial(known(event), run)


_Identity = tuple[str, str | None]


def _identity(event: dict[str, Any]) -> _Identity:
    """The key by which the harness itself tells trials of a run apart (F11)."""
    return event["task_id"], event.get("trial_name")


class _Trial(NamedTuple):
    event: dict[str, Any]
    run: str | None
    """The run that the trial's name ends with (G2); None if it names none (H4)."""


def _run_started(
    lock: dict[str, Any], metadata: dict[str, Any], plan: RunPlan, revision: int
) -> dict[str, Any]:
    dataset, config = part(lock, "dataset"), part(lock, "run_config")
    tasks = dataset.get("task_ids") or metadata.get("task_ids") or metadata.get("dataset_size")
    attempts = config.get("n_attempts") or metadata.get("n_attempts")
    label = label_for_reporting(plan.agent, plan.model) if plan.agent else None
    return known(
        {
            "type": "run_started",
            "harness": TerminalBench.name,
            "revision": revision,
            "started_at": metadata.get("start_time") or lock.get("created_at"),
            "tasks": tasks,
            "attempts": attempts,
            "order": task_by_task(tasks, attempts),
            "order_kind": "chosen" if sorts_by_duration(lock) else None,
            "concurrency": config.get("n_concurrent_trials") or metadata.get("n_concurrent_trials"),
            "agent_models": [label] if label else None,
            "benchmark": dataset.get("name") or metadata.get("dataset_name"),
            "benchmark_version": dataset.get("version") or metadata.get("dataset_version"),
        }
    )


def _import_path(value: Any) -> str | None:
    """Label of an agent known by its import path (D4)."""
    path = text(value)
    return path.replace(":", ".") if path else None
