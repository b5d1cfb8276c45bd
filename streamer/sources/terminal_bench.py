"""The connector for Terminal-Bench, and the file layout of its family of harnesses (semantics G1, G2, H)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from streamer.schemas.base import MAX_PLANNED_ATTEMPTS, UNKNOWN, label_for_reporting
from streamer.sources.base import ConvertOptions, Parsed, Remark, RunPlan, Unreadable, count_of, made_with
from streamer.sources.files import (
    TRIAL,
    FileError,
    artifacts_of,
    clean_name,
    enriched,
    exists,
    is_directory,
    is_file,
    is_plain,
    model_of,
    mtime_ns,
    objects,
    part,
    present,
    read_agent_logs,
    read_json,
    read_object,
    read_optional,
    start_of,
    subdirectories,
    text,
    usage_in,
    walk,
)

# -----------------------------------------------------------------------------
# The file layout of the Terminal-Bench family of harnesses (semantics G1, G2, H2).
#
# <run>/                                   the run's name is that of its directory (G5, H4)
#   tb.lock  run_metadata.json  results.json         any of them may be missing
#   <task>/<task>.<attempt>-of-<n>[.<run>]/results.json
# <run>_results.json, <run>__results.json  run-level files without a directory


RESULTS = "results.json"
METADATA = "run_metadata.json"
LOCK = "tb.lock"
FC_EVAL_LOCK = "fc.lock"
MARKERS = (METADATA, LOCK, FC_EVAL_LOCK)
LOG_DIRECTORIES = frozenset({"sessions", "panes", "agent-logs"})
KEPT = (TRIAL, "panes", "sessions", "agent-logs")

SORTS_SINCE = (0, 2, 13)
"""The oldest terminal-bench known to sort tasks by their expected duration."""

TRIAL_DEPTH = 2

_ATTEMPT = re.compile(r"\.([0-9]{1,9})-of-[0-9]+(?:\.(.*))?\Z", re.DOTALL)
_ATTEMPT_ANYWHERE = re.compile(r"\.([0-9]{1,9})-of-[0-9]+(?:\.(.*))?", re.DOTALL)
_SUB_TRIAL = re.compile(r"\.agent-\d+-")
_RUN_FILE_SUFFIX = re.compile(r"_{1,2}results\.json$|\.json$")
_SEARCHED_UPWARDS = 3


def attempt_and_run(task_id: str, trial_name: str) -> tuple[int, str | None]:
    """Attempt and run id in a trial's name, `<task>.<attempt>-of-<n>[.<run>]` (G2); attempt 1 by default.

    >>> attempt_and_run("raman-fitting.easy", "raman-fitting.easy.2-of-5.my.3-of-4.run")
    (2, 'my.3-of-4.run')
    >>> attempt_and_run("oom", "oom.4-of-5")
    (4, None)
    """
    if trial_name.startswith(f"{task_id}."):
        match = _ATTEMPT.match(trial_name, len(task_id))
    else:
        match = _ATTEMPT_ANYWHERE.search(trial_name)
    return (int(match[1]), match[2] or None) if match else (1, None)


def run_name(path: Path) -> str:
    if is_directory(path):
        return clean_name(path)
    return clean_name(path.parent) if path.name == RESULTS else _RUN_FILE_SUFFIX.sub("", clean_name(path))


def is_run_file(path: Path) -> bool:
    """Whether a path is a run-level results file, even a broken one, so that it is reported."""
    try:
        content = read_object(path)
    except FileError:
        return path.name.endswith("_results.json")
    if not isinstance(content.get("results"), list):
        return False
    return "n_resolved" in content or any("trial_name" in entry for entry in objects(content, "results"))


def is_run_directory(path: Path) -> bool:
    if any(is_file(path / marker) for marker in MARKERS):
        return True
    return not _is_trial_directory(path) and is_file(path / RESULTS) and is_run_file(path / RESULTS)


def _is_trial_directory(path: Path) -> bool:
    task = path.parent.name
    return path.name.startswith(f"{task}.") and _ATTEMPT.match(path.name, len(task)) is not None


def _holds_trials(path: Path) -> bool:
    """Whether the layout shows a run: <task>/<task>.<attempt>-of-<n>.../results.json."""
    return any(
        _is_trial_directory(trial) and is_file(trial / RESULTS)
        for task in subdirectories(path)
        for trial in subdirectories(task)
    )


def _has_broken_results(path: Path) -> bool:
    """Whether a directory's results file is not JSON; it counts as a run, so that it is reported."""
    if _is_trial_directory(path) or not is_file(path / RESULTS):
        return False
    try:
        read_json(path / RESULTS)
    except FileError:
        return True
    return False


def is_run_place(path: Path) -> bool:
    """Whether a directory is a run: by its own file, or by its layout outside of runs."""
    if is_run_directory(path):
        return True
    above = path.parents[:_SEARCHED_UPWARDS]
    return (_holds_trials(path) or _has_broken_results(path)) and not any(
        is_run_directory(parent) or _holds_trials(parent) for parent in above
    )


def result_files(run: Path, within: Path | None, *, sub_trials: bool) -> Iterator[Path]:
    """Results of trials at any depth below a run, without nested runs.

    A directory directly below the run is always a task's. `sub_trials` adds results of single agents (G2).
    """
    if not is_directory(within or run):
        return

    def skip(directory: Path) -> bool:
        left_out = directory.name in LOG_DIRECTORIES or (not sub_trials and _is_sub_trial(run, directory))
        return (left_out and directory.parent != run) or is_run_directory(directory)

    for directory in walk(within or run, skip):
        if directory != run and is_file(directory / RESULTS):
            yield directory / RESULTS


def _is_sub_trial(run: Path, directory: Path) -> bool:
    _, rest = attempt_and_run(directory.parent.name, directory.name)
    return bool(_SUB_TRIAL.search(f".{(rest or '').removeprefix(run.name)}"))


def trials_begun(run: Path, within: Path | None = None) -> Iterator[Path]:
    """Directories of trials and sub-trials without a result, where the harness puts them."""
    for task in [within] if within else subdirectories(run):
        if not is_run_directory(task):
            for trial in subdirectories(task):
                if _is_trial_directory(trial) and not exists(trial / RESULTS):
                    yield trial


def made_first(trial: Path) -> Iterator[Path]:
    return (trial / name for name in ("", *sorted(LOG_DIRECTORIES)))


def part_of_run(run: Path, changed: Path) -> Path | None:
    names = changed.relative_to(run).parts
    if names == (RESULTS,):
        return changed
    if not names or (len(names) == 1 and not is_directory(changed)):
        return None
    return run / names[0]


def has_own_file(run: Path, task_id: str, trial_name: str | None) -> bool:
    return trial_name is not None and is_file(run / task_id / trial_name / RESULTS)


def directory_of(run: Path, task_id: str, trial_name: str | None) -> Path | None:
    plain = trial_name and all(map(is_plain, (task_id, trial_name)))
    return run / task_id / trial_name if trial_name and plain and is_directory(run) else None


def trial_artifacts(run: Path, trial: Path | None) -> list[dict[str, str]] | None:
    return artifacts_of(run, trial, KEPT, (RESULTS,))


def failed_tests(result: Mapping[str, Any]) -> str | None:
    """The message that names a result's failed tests; None if no test failed.

    >>> failed_tests({"is_resolved": False, "parser_results": {"test_a": "passed", "test_b": "failed"}})
    'failed tests: test_b'
    """
    tests = part(result, "parser_results")
    failed = [name for name, status in tests.items() if status == "failed"]
    if result.get("is_resolved") is not False or not failed:
        return None
    return f"failed tests: {', '.join(failed)}"


def task_by_task(tasks: Any, attempts: Any) -> list[Any] | None:
    """A run's queue: all attempts at one task, then the next task; None without task names.

    >>> task_by_task(["b", "a"], 2), task_by_task(["b", "a"], 1), task_by_task(80, 1)
    ([['b', 1], ['b', 2], ['a', 1], ['a', 2]], ['b', 'a'], None)
    """
    countable = isinstance(attempts, int) and 1 <= attempts <= MAX_PLANNED_ATTEMPTS
    if not isinstance(tasks, list) or not countable:
        return None
    if attempts == 1:
        return tasks
    return [[task, attempt] for task in tasks for attempt in range(1, attempts + 1)]


def sorts_by_duration(lock: Mapping[str, Any]) -> bool:
    """Whether the harness that wrote a lock starts the tasks with the longest expected duration first.

    fc-eval always does, terminal-bench from 0.2.13 at the latest. Earlier versions are unknown.
    """
    harness = part(lock, "harness")
    if harness.get("package") == "fc-eval":
        return True
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text(harness.get("version")) or "")
    is_version = numbers is not None and tuple(map(int, numbers.groups())) >= SORTS_SINCE
    return harness.get("package") == "terminal-bench" and is_version


def own_names(
    names: Collection[str], run: Path, claims: Iterable[tuple[Path, str | None]]
) -> Collection[str]:
    """The names of a run (H4); without a name in properly placed trials, the one in most trials is added."""
    claimed = Counter(name for file, name in claims if depth(run, file) == TRIAL_DEPTH)
    if claimed.keys() & names:
        return names
    return {*names, *(name for name, _ in claimed.most_common(1) if name)}


def depth(run: Path, file: Path) -> int:
    return len(file.parent.relative_to(run).parts)


def run_file_results(file: Path) -> list[Any]:
    results = read_object(file).get("results")
    if not isinstance(results, list):
        raise FileError("not a run-level results file: it has no `results` list")
    return results


def run_file_entries(file: Path) -> tuple[list[Any], list[Unreadable]]:
    """The trials in a run-level file, or the reason why it is unreadable. A missing file has no trials."""
    try:
        return run_file_results(file) if exists(file) else [], []
    except FileError as error:
        return [], [Unreadable(file, str(error))]


# -----------------------------------------------------------------------------
# The connector: the events of one Terminal-Bench run directory.


OTHER_VERDICT = "with another verdict in the run's results file, which does not count"


class TerminalBench:
    """Connector for Terminal-Bench. It reads an fc-eval run only on request, and without its speedups."""

    name = "terminal-bench"
    looks_for = "a directory with tb.lock, run_metadata.json or results.json, or NAME_results.json"

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
            or (text(agent.get("import_path")) or "").replace(":", ".")
            or options.agent
        )
        model = text(agent.get("model_name")) or text(metadata.get("model_name")) or options.model
        plan.model = model_of(plan.agent, model) if plan.agent else model
        names = (metadata.get("run_id"), part(lock, "local_config").get("run_id"))
        plan.aliases = frozenset(filter(None, map(text, names))) - {plan.run_id}
        own = read_optional(own_results, [])
        plan.announced = sum(count_of(own.get(name)) or 0 for name in ("n_resolved", "n_unresolved"))
        uuids = (metadata.get("uuid"), own.get("id"))
        plan.uuids = frozenset(filter(None, map(text, uuids)))
        files = (home / METADATA, lock_file) if has_lock else ()
        revision = max(mtime_ns(file) for file in (*files, own_results))
        plan.started = _run_started(lock, metadata, plan, revision)
        if has_lock:
            # Set even without a plan: a broken lock set it to false, and deleting the lock must reset it
            # (R26).
            is_named = bool(plan.started.get("tasks")) or not (lock or metadata)
            plan.started["plan_complete"] = is_named and not plan.problems
        if not own and metadata.get("accuracy") is not None:  # of all planned trials, crashed ones included
            plan.announced = _size(plan.started.get("tasks")) * (count_of(plan.started.get("attempts")) or 1)
        if options.trial_files_only:  # the user leaves out what the files announce
            plan.announced = None
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
    ) -> Iterator[Parsed | Unreadable | Remark]:
        if is_directory(path) and is_file(path / FC_EVAL_LOCK) and options.harness != self.name:
            yield Unreadable(
                path,
                f"an fc-eval run ({FC_EVAL_LOCK}); --harness {self.name} reads verdicts, tokens and times "
                "without its speedups",
            )
            return
        seen: dict[_Identity, Any] = {}
        if within == path / RESULTS and not options.trial_files_only:
            yield from self._trials_of_run_file(path, plan, seen, alone=True)
            return
        for item in self._trials_of_files(path, plan, within):
            if isinstance(item, Parsed):
                seen[_identity(item.event)] = item.event.get("resolved")
            yield item
        if not options.trial_files_only and within is None:
            yield from self._trials_of_run_file(path, plan, seen)

    def part(self, run: Path, changed: Path) -> Path | None:
        return part_of_run(run, changed)

    def _trials_of_files(
        self, run: Path, plan: RunPlan, within: Path | None
    ) -> Iterator[Parsed | Unreadable]:
        files = sorted(result_files(run, within, sub_trials=False), key=lambda file: (depth(run, file), file))
        read = [(file, self._read_trial(file, plan)) for file in files]
        claims = ((file, trial.run) for file, trial in read if isinstance(trial, _Trial))
        own = own_names({plan.run_id, *plan.aliases}, run, claims)
        for file, trial in read:
            if isinstance(trial, Unreadable):
                yield trial
                continue
            event = trial.event | present({"artifacts": trial_artifacts(run, file.parent)})
            told = enriched(event, read_agent_logs(file.parent, recordings=False))
            yield Parsed(
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
        self, path: Path, plan: RunPlan, seen: dict[_Identity, Any], *, alone: bool = False
    ) -> Iterator[Parsed | Unreadable | Remark]:
        """Trials that only the run-level file has: crashed ones, or all of them (H2, H6)."""
        file = path if is_file(path) else path / RESULTS
        results, problems = run_file_entries(file)
        yield from problems
        revision = mtime_ns(file)
        for number, result in enumerate(results):
            trial = self._trial(result, "", plan, revision)
            if isinstance(trial, str):
                yield Unreadable(file, f"results[{number}]: {trial}")
                continue
            identity, verdict = _identity(trial.event), trial.event.get("resolved")
            if identity in seen:
                if seen[identity] != verdict:
                    values = f"is_resolved is {seen[identity]}, not {verdict}"
                    yield Remark(file, OTHER_VERDICT, f"{trial.event.get('trial_name')}: {values}")
            elif not (alone and has_own_file(path, *identity)):
                seen[identity] = verdict
                home = directory_of(path, *identity)
                left = present({"artifacts": trial_artifacts(path, home)})
                yield Parsed(file, trial.event | left, from_run_file=True)

    def _read_trial(self, file: Path, plan: RunPlan) -> _Trial | Unreadable:
        try:
            trial = self._trial(read_object(file), clean_name(file.parent), plan, mtime_ns(file))
        except FileError as error:
            return Unreadable(file, str(error))
        return Unreadable(file, trial) if isinstance(trial, str) else trial

    def _trial(self, result: Any, place: str, plan: RunPlan, revision: int) -> _Trial | str:
        if not isinstance(result, dict):
            return f"not a trial result but a JSON {type(result).__name__}"
        task_id = text(result.get("task_id"))
        if task_id is None:
            return f"not a trial result: `task_id` is {result.get('task_id')!r}, not text"
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
            **usage_in(result, plan.agent or UNKNOWN),
            "started_at": result.get("trial_started_at"),
            "finished_at": result.get("trial_ended_at"),
        }
        return _Trial(present(event), run)


_Identity = tuple[str, str | None]


def _identity(event: dict[str, Any]) -> _Identity:
    return event["task_id"], event.get("trial_name")


class _Trial(NamedTuple):
    event: dict[str, Any]
    run: str | None
    """The run at the end of the trial's name (G2), if it has one (H4)."""


def _run_started(
    lock: dict[str, Any], metadata: dict[str, Any], plan: RunPlan, revision: int
) -> dict[str, Any]:
    dataset, config = part(lock, "dataset"), part(lock, "run_config")
    tasks = dataset.get("task_ids") or metadata.get("task_ids") or metadata.get("dataset_size")
    attempts = config.get("n_attempts") or metadata.get("n_attempts")
    return present(
        {
            "type": "run_started",
            "harness": TerminalBench.name,
            "revision": revision,
            "started_at": metadata.get("start_time") or lock.get("created_at"),
            "planned_at": lock.get("created_at"),
            "tasks": tasks,
            "attempts": attempts,
            "order": task_by_task(tasks, attempts),
            "order_kind": "chosen" if sorts_by_duration(lock) else None,
            "concurrency": config.get("n_concurrent_trials") or metadata.get("n_concurrent_trials"),
            "agent_models": [label_for_reporting(plan.agent, plan.model)] if plan.agent else None,
            "benchmark": dataset.get("name") or metadata.get("dataset_name"),
            "benchmark_version": dataset.get("version") or metadata.get("dataset_version"),
            "provenance": _made(lock, metadata),
        }
    )


def _size(tasks: Any) -> int:
    return len(tasks) if isinstance(tasks, list) else count_of(tasks) or 0


def _made(lock: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str] | None:
    dataset, config = part(lock, "dataset"), part(lock, "run_config")
    limits = {of: config.get(f"global_{of}_timeout_sec") for of in ("agent", "test", "setup")}
    as_task_says = "as the task says" if config else None
    return made_with(
        {
            "dataset": dataset.get("name") or metadata.get("dataset_name"),
            "dataset_version": dataset.get("version") or metadata.get("dataset_version"),
            "harness_version": part(lock, "harness").get("version"),
            "timeout": limits if any(limits.values()) else as_task_says,
            "timeout_multiplier": config.get("global_timeout_multiplier"),
            "concurrency": config.get("n_concurrent_trials") or metadata.get("n_concurrent_trials"),
        }
    )
