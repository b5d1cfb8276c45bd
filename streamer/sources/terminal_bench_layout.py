"""Where the Terminal-Bench family of harnesses keeps its files (semantics G1, G2, H2).

<run>/                                   the run's name is that of its directory (G5, H4)
  tb.lock  run_metadata.json  results.json         any of them may be missing
  <task>/<task>.<attempt>-of-<n>[.<run>]/results.json
<run>_results.json, <run>__results.json  run-level files without a directory
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from streamer.schemas.limits import MAX_PLANNED_ATTEMPTS
from streamer.sources.artifacts import TRIAL, artifacts_of
from streamer.sources.files import (
    FileError,
    clean_name,
    exists,
    is_directory,
    is_file,
    is_plain,
    part,
    read_json,
    read_object,
    subdirectories,
    text,
    walk,
)

RESULTS = "results.json"
METADATA = "run_metadata.json"
LOCK = "tb.lock"
FC_EVAL_LOCK = "fc.lock"
MARKERS = (METADATA, LOCK, FC_EVAL_LOCK)
LOG_DIRECTORIES = frozenset({"sessions", "panes", "agent-logs"})
KEPT = (TRIAL, "panes", "sessions", "agent-logs")
"""The directories of a trial that the harness keeps logs, screens and recordings in."""

SORTS_SINCE = (0, 2, 13)
"""The oldest version of terminal-bench that is known to sort tasks by their expected duration."""

TRIAL_DEPTH = 2
"""Directories between a run and its trials: the task's and the trial's own."""

_ATTEMPT = re.compile(r"\.([0-9]{1,9})-of-[0-9]+(?:\.(.*))?\Z", re.DOTALL)
_ATTEMPT_ANYWHERE = re.compile(r"\.([0-9]{1,9})-of-[0-9]+(?:\.(.*))?", re.DOTALL)
_SUB_TRIAL = re.compile(r"\.agent-\d+-")
_RUN_FILE_SUFFIX = re.compile(r"_{1,2}results\.json$|\.json$")
_SEARCHED_UPWARDS = 3
"""How far above a directory without any run-level file the run is looked for that it may be part of."""


def attempt_and_run(task_id: str, trial_name: str) -> tuple[int, str | None]:
    """Attempt and run id in a trial's name, `<task>.<attempt>-of-<n>[.<run>]` (G2); attempt 1 if unsaid.

    Both the task and the run may hold dots, and the run anything at all.

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
    """Name of the run at a directory or a run-level file."""
    if is_directory(path):
        return clean_name(path)
    return clean_name(path.parent) if path.name == RESULTS else _RUN_FILE_SUFFIX.sub("", clean_name(path))


def is_run_file(path: Path) -> bool:
    """A run-level results file; a broken one counts if it is named like one, so that it gets reported."""
    try:
        content = read_object(path)
    except FileError:
        return path.name.endswith("_results.json")
    results = content.get("results")
    if not isinstance(results, list):
        return False
    return "n_resolved" in content or any(isinstance(r, dict) and "trial_name" in r for r in results)


def is_run_directory(path: Path) -> bool:
    """Whether a directory has a run-level file of its own."""
    if any(is_file(path / marker) for marker in MARKERS):
        return True
    return not _is_trial_directory(path) and is_file(path / RESULTS) and is_run_file(path / RESULTS)


def _is_trial_directory(path: Path) -> bool:
    return path.name.startswith(f"{path.parent.name}.") and bool(
        _ATTEMPT.match(path.name, len(path.parent.name))
    )


def _holds_trials(path: Path) -> bool:
    """Whether the layout alone says run directory: <task>/<task>.<attempt>-of-<n>.../results.json."""
    return any(
        _is_trial_directory(trial) and is_file(trial / RESULTS)
        for task in subdirectories(path)
        for trial in subdirectories(task)
    )


def _has_broken_results(path: Path) -> bool:
    """Whether a directory has a results file that is no JSON: claimed as a run, so that it gets reported."""
    if _is_trial_directory(path) or not is_file(path / RESULTS):
        return False
    try:
        read_json(path / RESULTS)
    except FileError:
        return True
    return False


def is_run_place(path: Path) -> bool:
    """Whether a directory is a run: by a file of its own, or by its layout if no run above has it."""
    if is_run_directory(path):
        return True
    above = path.parents[:_SEARCHED_UPWARDS]
    return (_holds_trials(path) or _has_broken_results(path)) and not any(
        is_run_directory(parent) or _holds_trials(parent) for parent in above
    )


def result_files(run: Path, within: Path | None, *, sub_trials: bool) -> Iterator[Path]:
    """Results of trials at any depth below a run; nested runs' left out.

    A directory right below the run is a task's, whatever its name.

    Args:
        run: its directory; a run-level file has none.
        within: only those at and below this directory of the run.
        sub_trials: also results of single agents of a trial (G2).
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
    """Whether a directory is named as one agent's part of a trial; the run's own name may look like it."""
    _, rest = attempt_and_run(directory.parent.name, directory.name)
    return bool(_SUB_TRIAL.search(f".{(rest or '').removeprefix(run.name)}"))


def trials_begun(run: Path, within: Path | None = None) -> Iterator[Path]:
    """Directories of trials and of sub-trials that have no result of their own, in their proper place.

    `within`: only those in this directory of a task.
    """
    for task in [within] if within else subdirectories(run):
        if not is_run_directory(task):
            for trial in subdirectories(task):
                if _is_trial_directory(trial) and not exists(trial / RESULTS):
                    yield trial


def made_first(trial: Path) -> Iterator[Path]:
    """The directories that the harness makes at the start of a trial."""
    return (trial / name for name in ("", *sorted(LOG_DIRECTORIES)))


def part_of_run(run: Path, changed: Path) -> Path | None:
    """The task's directory that a path in a run lies in or is, or the run's results; None for other files."""
    names = changed.relative_to(run).parts
    if names == (RESULTS,):
        return changed
    if not names or (len(names) == 1 and not is_directory(changed)):
        return None
    return run / names[0]


def has_own_file(run: Path, task_id: str, trial_name: str | None) -> bool:
    """Whether a trial that the run-level file names has a result of its own in its place."""
    return trial_name is not None and is_file(run / task_id / trial_name / RESULTS)


def directory_of(run: Path, task_id: str, trial_name: str | None) -> Path | None:
    """Where a trial lies that the run-level file names; None if its names lead elsewhere."""
    plain = trial_name and all(map(is_plain, (task_id, trial_name)))
    return run / task_id / trial_name if trial_name and plain and is_directory(run) else None


def trial_artifacts(run: Path, trial: Path | None) -> list[dict[str, str]] | None:
    """The files that a trial left, None without any. `trial`: its directory, if it has one."""
    return artifacts_of(run, trial, KEPT, (RESULTS,))


def failed_tests(result: Mapping[str, Any]) -> str | None:
    """The tests that a result says failed, as its message; None unless the trial failed by some.

    >>> failed_tests({"is_resolved": False, "parser_results": {"test_a": "passed", "test_b": "failed"}})
    'failed tests: test_b'
    """
    tests = part(result, "parser_results")
    failed = [name for name, status in tests.items() if status == "failed"]
    if result.get("is_resolved") is not False or not failed:
        return None
    return f"failed tests: {', '.join(failed)}"


def task_by_task(tasks: Any, attempts: Any) -> list[Any] | None:
    """The order of a run's queue: all attempts at a task, then the next task; None if the tasks are unnamed.

    >>> task_by_task(["b", "a"], 2), task_by_task(["b", "a"], 1), task_by_task(80, 1)
    ([['b', 1], ['b', 2], ['a', 1], ['a', 2]], ['b', 'a'], None)
    """
    if (
        not isinstance(tasks, list)
        or not isinstance(attempts, int)
        or not 1 <= attempts <= MAX_PLANNED_ATTEMPTS
    ):
        return None
    if attempts == 1:
        return tasks
    return [[task, attempt] for task in tasks for attempt in range(1, attempts + 1)]


def sorts_by_duration(lock: Mapping[str, Any]) -> bool:
    """Whether the harness that wrote a lock starts the tasks with the longest expected duration first.

    fc-eval does, and terminal-bench from 0.2.13 on at the latest (`Dataset.sort_by_duration`). No option or
    list of tasks changes that. Earlier versions are not known.
    """
    harness = part(lock, "harness")
    if harness.get("package") == "fc-eval":
        return True
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text(harness.get("version")) or "")
    is_known = numbers is not None and tuple(map(int, numbers.groups())) >= SORTS_SINCE
    return harness.get("package") == "terminal-bench" and is_known


def own_names(
    names: Collection[str], run: Path, claims: Iterable[tuple[Path, str | None]]
) -> Collection[str]:
    """The names of a run: these, and where no trial in its place claims one, what most of them claim (H4).

    Args:
        names: what the files of the run say.
        run: its directory, or its run-level file.
        claims: result of a trial, and the run that the trial's name ends with.
    """
    claimed = Counter(name for file, name in claims if depth(run, file) == TRIAL_DEPTH)
    if claimed.keys() & names:
        return names
    return {*names, *(name for name, _ in claimed.most_common(1) if name)}


def depth(run: Path, file: Path) -> int:
    """Directories from the run to the one a file lies in."""
    return len(file.parent.relative_to(run).parts)


def run_file_results(file: Path) -> list[Any]:
    """The trials that a run-level file lists. FileError if it cannot be read, or lists nothing."""
    results = read_object(file).get("results")
    if not isinstance(results, list):
        raise FileError("not a run-level results file: it has no list under `results`")
    return results
