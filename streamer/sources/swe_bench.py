"""Reports and logs of the harness of SWE-bench; the layout is in `swe_bench_layout`.

- A report of a run and its directory of logs are one run: its id is the harness's run id.
- Verdict: an instance is resolved or not, as its own report.json says, else as the report of the run says.
  An instance with an empty patch is not resolved (`empty_patch`). One that the harness could not grade has no
  verdict (`error`): it counts as not resolved, and apart. An instance without a prediction is no trial: it is
  planned and missing. So the counts equal the counts of
  `make_run_report`.
- A likely fault of the environment has the failure mode `infra_failure`. The harness leaves it among the
  unresolved, and so do we (R19).
- Metrics: `fail_to_pass` and `pass_to_pass` are the shares of these tests that passed.
- The harness names only the model of a prediction, which mostly stands for an agent too. Its name is kept as
  it stands in the files, with `__` for `/`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.schemas.base import UNKNOWN
from streamer.sources.base import ConvertOptions, Parsed, RunPlan, Unreadable
from streamer.sources.files import (
    TRIAL,
    FileError,
    artifacts_of,
    clean_name,
    entries,
    is_directory,
    is_file,
    listed,
    mtime_ns,
    part,
    present,
    read_bytes,
    read_object,
    read_optional,
    start_of,
    subdirectories,
    text,
)

# -----------------------------------------------------------------------------
# Where the harness of SWE-bench keeps its files, as its package swebench 5.0.2 writes them.
#
# <where it was started>/
#   <model>.<run>.json                       the report of a run, at its end (`make_run_report`)
#   logs/run_evaluation/<run>/
#     run.json                               dataset and split, when it starts; not in versions before 5
#     <model>/<instance>/
#       patch.diff  eval.sh  run_instance.log  test_output.txt
#       report.json                          when the instance was graded; none where the harness failed
#
# `/` in a model's name is written as `__`.


LOGS = Path("logs", "run_evaluation")
METADATA = "run.json"
REPORT = "report.json"
INSTANCE_LOG = "run_instance.log"

_HEAD_BYTES = 4096
_NAME = re.compile(r"(.+)\.json", re.DOTALL)
_MARK = b'"total_instances"'
"""The first key of every report of a run."""


@dataclass(frozen=True, slots=True)
class Place:
    """A run, and what of it is asked for.

    Attributes:
        home: the directory that the harness was started in.
        run: the run's id.
        model: only its results are asked for; None: results of all models.
    """

    home: Path
    run: str
    model: str | None = None

    @property
    def logs(self) -> Path:
        """The directory of the run's logs."""
        return self.home / LOGS / self.run

    def reports(self, problems: list[Unreadable]) -> dict[str, tuple[Path, dict[str, Any]]]:
        """Model to the report of its run, file and content; what cannot be read is a problem."""
        files = (self.home / e.name for e in entries(self.home) if e.is_file(follow_symlinks=False))
        reports = {}
        for file in files:
            place = place_of(file) if is_report(file) else None
            if place and place.run == self.run and place.model and (content := read_optional(file, problems)):
                reports[place.model] = (file, content)
        return reports

    def models(self) -> list[str]:
        return [directory.name for directory in subdirectories(self.logs)]


def place_of(path: Path) -> Place:
    """The run that a report or a directory of logs is of.

    Both the model and the run may have dots in their names. The logs tell where the name parts; without them
    the run is what follows the last dot.
    """
    if is_directory(path):
        return Place(path.absolute().parents[len(LOGS.parts)], path.name)
    match = _NAME.fullmatch(path.name)
    parts = (match[1] if match else path.name).split(".")
    splits = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
    logged = (s for s in splits if is_directory(path.parent / LOGS / s[1] / s[0]))
    model, run = next(logged, splits[0])
    return Place(path.parent, run, model)


def is_report(path: Path) -> bool:
    """Whether a file is the report of a run: by its name, and by what it begins with."""
    if path.name.count(".") < 2 or not _NAME.fullmatch(path.name) or not is_file(path):
        return False
    try:
        with path.open("rb") as opened:
            return _MARK in opened.read(_HEAD_BYTES)
    except OSError:
        return False


def is_logs(path: Path) -> bool:
    """Whether a directory has the logs of a run."""
    return is_directory(path) and path.absolute().parts[-len(LOGS.parts) - 1 : -1] == LOGS.parts


def instances(directory: Path, within: Path | None) -> Iterator[Path]:
    """The directories of a model's instances; only that one, if `within` is one of them."""
    for instance in subdirectories(directory):
        if within is None or instance == within:
            yield instance


# -----------------------------------------------------------------------------
# Reports and logs of the harness of SWE-bench; the layout is in `swe_bench_layout`.


UNSET, ERROR, EMPTY_PATCH, INFRA_FAILURE = "unset", "error", "empty_patch", "infra_failure"

PLANNED = ("completed_ids", "incomplete_ids", "empty_patch_ids", "error_ids")
"""Lists of a report that together name every instance of the dataset."""

ENDED = ("completed_ids", "empty_patch_ids", "error_ids")
"""Lists of a report that name the instances with a prediction."""

ENDINGS = ("resolved_ids", "unresolved_ids", "empty_patch_ids", "error_ids")
"""Lists of a report of which each instance with a prediction stands in one."""

LISTS = tuple(dict.fromkeys((*PLANNED, *ENDINGS, "infra_failure_ids")))
"""Lists of a report that are read."""

LINES_OF_LOG = 10
"""So much of the end of an instance's log is the message of an error."""

SHOWN = 40
"""So many characters of an odd value are shown."""


class SweBench:
    """Connector for the harness of SWE-bench."""

    name = "swe-bench"

    def detect(self, path: Path) -> bool:
        return is_report(path) or is_logs(path)

    def skip(self, directory: Path) -> bool:
        return is_logs(directory.parent.parent)

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        place = place_of(path)
        plan = RunPlan(run_id=clean_name(Path(place.run)))
        plan.uuids = frozenset({str(place.logs.absolute())})
        reports = place.reports(plan.problems)
        plan.problems += (
            Unreadable(file, why) for file, report in reports.values() for why in _wrong_with(report)
        )
        metadata = read_optional(place.logs / METADATA, plan.problems)
        revision = max(map(mtime_ns, (place.logs / METADATA, *(file for file, _ in reports.values()))))
        tasks = {task for _, content in reports.values() for task in _ids(content, *PLANNED)}
        plan.started = present(
            {
                "type": "run_started",
                "harness": self.name,
                "revision": revision,
                "started_at": metadata.get("created_at"),
                "tasks": sorted(tasks) or None,
                "attempts": 1,
                "plan_complete": (bool(tasks) or not reports) and not plan.problems,
                "benchmark": metadata.get("dataset"),
            }
        )
        if reports and set(place.models()) <= reports.keys():
            plan.finished = {"type": "run_finished", "revision": revision, "status": "completed"}
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Parsed | Unreadable]:
        place = place_of(path)
        reports = place.reports([])
        models = [place.model] if place.model else sorted({*place.models(), *reports})
        for model in models:
            file, report = reports.get(model, (None, {}))
            yield from _Results(path, model, file, report, options).trials(place.logs / model, within)

    def part(self, run: Path, changed: Path) -> Path | None:
        """The directory of the instance; for a file above it the whole run."""
        if not is_directory(run):
            return None
        inside = changed.relative_to(run).parts
        instance = run.joinpath(*inside[:2])
        return instance if len(inside) >= 2 and is_directory(instance) else None


@dataclass(frozen=True, slots=True)
class _Results:
    """The results of one model.

    Attributes:
        path: the run as it was detected.
        model: as the harness writes its name.
        file: the report of the run; None while there is none.
        report: what it holds.
        options: what the user asked for.
    """

    path: Path
    model: str
    file: Path | None
    report: dict[str, Any]
    options: ConvertOptions

    def trials(self, home: Path, within: Path | None) -> Iterator[Parsed | Unreadable]:
        """The trials of the logs, then those that only the report names."""
        logged = set()
        for instance in instances(home, within):
            logged.add(clean_name(instance))
            yield from self._of_logs(instance)
        if self.file is not None and within is None:
            for task in _ids(self.report, *ENDED):
                if task not in logged:
                    yield Parsed(self._named(self.file), self._event(task, None, {}))

    def _of_logs(self, instance: Path) -> Iterator[Parsed | Unreadable]:
        """The result in the directory of an instance, or its start."""
        task, own = clean_name(instance), instance / REPORT
        result: dict[str, Any] = {}
        if is_file(own):
            try:
                result = _own_result(own, task)
            except FileError as error:
                yield Unreadable(self._named(own), f"{instance.name}/{REPORT}: {error}")
        elif self.file is None:
            yield start_of(instance, self._slot(task), instance / INSTANCE_LOG)
            return
        if result or task in _ids(self.report, *ENDED):
            file = next(filter(is_file, (own, instance / INSTANCE_LOG)), instance)
            yield Parsed(self._named(file), self._event(task, instance, result))

    def _named(self, file: Path) -> Path:
        """The file that a result is reported with: where the run is a report, the report."""
        return file if file.is_relative_to(self.path) else self.path

    def _slot(self, task: str) -> dict[str, Any]:
        agent = self.options.agent or UNKNOWN
        return {"task_id": task, "attempt": 1, "agent": agent, "model": clean_name(Path(self.model))}

    def _event(self, task: str, instance: Path | None, result: dict[str, Any]) -> dict[str, Any]:
        """A trial: by its own result if there is one, else by the report of the run."""
        resolved, mode = _ending(task, result, self.report)
        files = [self.file, instance / REPORT if instance else None]
        return present(
            {
                "type": "trial_result",
                "harness": SweBench.name,
                **self._slot(task),
                "revision": max(mtime_ns(file) for file in files if file),
                "resolved": resolved,
                "failure_mode": mode,
                "message": None if resolved else _message(task, mode, instance, result, self.report),
                "metrics": _metrics(result),
                "artifacts": artifacts_of(self.path, instance, (TRIAL,), (REPORT,)),
            }
        )


def _wrong_with(report: Mapping[str, Any]) -> Iterator[str]:
    """What in a report of a run cannot be: a list without ids, or an instance that ended twice."""
    for name in LISTS:
        ids = report.get(name, [])
        odd = [ids] if not isinstance(ids, list) else [item for item in ids if not text(item)]
        if odd:
            yield f"`{name}` holds {str(odd[0])[:SHOWN]!r} where the ids of instances belong; it is left out"
    counts = Counter(task for name in ENDINGS for task in _ids(report, name))
    if several := [task for task, count in counts.items() if count > 1]:
        names = ", ".join(name for name in ENDINGS if several[0] in _ids(report, name))
        more = f" ({len(several):,} such instances)" if len(several) > 1 else ""
        yield f"the instance {several[0]!r} stands in {names}, and only one of them can be{more}"


def _own_result(file: Path, task: str) -> dict[str, Any]:
    """The result in the report of an instance, never empty. Raises FileError where it holds none."""
    result = part(read_object(file), task)
    if not result:
        raise FileError(f"it holds no result under `{task}`, as swebench writes one")
    return result


def _ending(task: str, result: dict[str, Any], report: dict[str, Any]) -> tuple[Any, str]:
    """Verdict, None where there is none, and failure mode."""
    if task in _ids(report, "empty_patch_ids"):
        return False, EMPTY_PATCH
    infra = result.get("infra_failure") is True or task in _ids(report, "infra_failure_ids")
    if "resolved" in result:
        return result["resolved"], INFRA_FAILURE if infra and result["resolved"] is not True else UNSET
    if task in _ids(report, "resolved_ids"):
        return True, UNSET
    if task in _ids(report, "unresolved_ids"):
        return False, INFRA_FAILURE if infra else UNSET
    return None, INFRA_FAILURE if infra else ERROR


def _message(
    task: str, mode: str, instance: Path | None, result: dict[str, Any], report: dict[str, Any]
) -> str | None:
    """Why an instance is not resolved: the harness's reason, its tests, or the end of its log."""
    reason = text(result.get("infra_failure_reason")) or text(part(report, "failure_reasons").get(task))
    failed = [test for _, tests in _tests(result) for test in tests["failure"]]
    if reason:
        return reason
    if failed:
        return f"failed tests: {', '.join(map(str, failed))}"
    if result.get("patch_successfully_applied") is False:
        return "the patch was not applied, or its tests printed nothing that could be read"
    return _end_of_log(instance / INSTANCE_LOG) if mode == ERROR and instance else None


def _end_of_log(log: Path) -> str | None:
    try:
        lines = read_bytes(log).decode("utf-8", "replace").strip().splitlines()
    except FileError:
        return None
    return "\n".join(lines[-LINES_OF_LOG:]) or None


def _metrics(result: dict[str, Any]) -> dict[str, float] | None:
    """Shares of tests that passed, of both kinds; None without any."""
    shares = {
        name: len(tests["success"]) / (len(tests["success"]) + len(tests["failure"]))
        for name, tests in _tests(result)
        if tests["success"] or tests["failure"]
    }
    return shares or None


def _tests(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Metric's name to the tests that passed and that failed."""
    status = part(result, "tests_status")
    for kind in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        tests = part(status, kind)
        yield kind.lower(), {name: listed(tests, name) for name in ("success", "failure")}


def _ids(report: Mapping[str, Any], *names: str) -> list[str]:
    """The instances that lists of a report name, in order, each once."""
    return list(dict.fromkeys(i for name in names for i in listed(report, name) if text(i)))
