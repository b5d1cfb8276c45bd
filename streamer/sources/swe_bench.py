"""Reports and logs of SWE-bench's harness.

- A report of a run and its directory of logs are one run, named by the harness's run id.
- The verdict comes from the instance's own report.json, else from the run's report. An empty patch is not
  resolved (`empty_patch`). An instance that could not be graded has no verdict (`error`) and counts as not
  resolved. One without a prediction is missing. So the counts equal `make_run_report`'s.
- A likely fault of the environment has the failure mode `infra_failure`, and stays unresolved (R19).
- Metrics: `fail_to_pass` and `pass_to_pass` are the shares of these tests that passed.
- The harness names only a prediction's model, which often stands for an agent too; `__` stands for `/`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from streamer.schemas.base import UNKNOWN
from streamer.sources.base import (
    ConvertOptions,
    Item,
    Parsed,
    Remark,
    RunPlan,
    Unreadable,
    count_of,
    id_of,
    made_with,
    silence,
)
from streamer.sources.files import (
    MAX_FILE_BYTES,
    TRIAL,
    FileError,
    artifacts_of,
    clean_name,
    entries,
    is_directory,
    is_file,
    listed,
    mtime_ns,
    open_text,
    part,
    peek,
    present,
    read_object,
    read_optional,
    start_of,
    subdirectories,
    text,
)
from streamer.text import counted

# -----------------------------------------------------------------------------
# The file layout of SWE-bench's harness, in its package swebench 5.0.2.
#
# <where it was started>/
#   <model>.<run>.json                       the report of a run, at its end (`make_run_report`)
#   logs/run_evaluation/<run>/
#     run.json                               dataset and split, when it starts; not in versions before 5
#     <model>/<instance>/
#       patch.diff  eval.sh  run_instance.log  test_output.txt
#       report.json                          when the instance was graded; none where the harness failed
#   <report_dir>/<model>.<run>.json          where `--report_dir` asks for it; heeded since version 5
#
# `/` in a model's name is written as `__`. Two others write reports with the same lists:
#
# <dataset>__<split>__<run>.json             sb-cli, which names no model; its early versions: <run>.json
# <user>/<config, model, dataset>/
#   results.json                             the same report, moved by SWE-agent
# <dataset>/<model, options>/
#   output.report.json  metadata.json        OpenHands, also for benchmarks of its own
# <dataset>/<agent>/<model, options>/
#   report.json  metadata.json               OpenHands before version 1


LOGS = Path("logs", "run_evaluation")
METADATA, REPORT, INSTANCE_LOG = "run.json", "report.json", "run_instance.log"

OPENHANDS = "metadata.json"
"""OpenHands' file with the model beside its report: under `llm`, before version 1 under `llm_config`."""

OUTPUT, NAMELESS, MOVED = "output", "report", "results"
"""Placeholders for model and run id in a report's name; a copy's name continues after them. The first two are
OpenHands', the last is SWE-agent's for a report of sb-cli.
"""

DEFAULT_MODEL = "openhands"
"""OpenHands' model name in its own reports if its user gave none, in either capitalisation."""

HOSTED_KEYS = frozenset({"pending_instances", "failed_instances", "pending_ids", "failed_ids"})
"""Keys only in reports of sb-cli, which grades on servers."""

GRADED_ERRORS = "almost_resolved_ids"
"""Key only in OpenHands' reports of ProgramBench. They list graded instances with an error as unresolved."""

GUESSED = "with model and run split at the last dot in the report's name"
"""The remark on a name with several dots but without logs."""

_HOSTED = re.compile(r"(.+?)__(.+?)__(.+)", re.DOTALL)
_MODEL = re.compile(r'"model": ?"([^"]+)"')

_READ_CHARACTERS = 8 * 1024 * 1024
"""The part of a file that is searched for the mark: several times the longest report."""

_MARK = '"total_instances"'

NO_REPORT = f"no report of SWE-bench: {_MARK} is inside another object"


class Report(NamedTuple):
    place: Place
    file: Path
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A run and its requested part.

    `report` is None if every report with the run's name counts. `shard` is the dataset if run ids are unique
    only within a dataset. In an OpenHands run, `evaluation` names the logs and `served` the model.
    """

    home: Path
    run: str
    model: str | None = None
    report: Path | None = None
    shard: str = ""
    guess: str = ""
    evaluation: str = ""
    served: str | None = None

    @property
    def logs(self) -> Path:
        return self.home / LOGS / (self.evaluation or self.run)

    def reports(self, options: ConvertOptions, problems: list[Unreadable]) -> list[Report]:
        here = (e for e in entries(self.home) if self.evaluation or self.run in e.name)
        beside = (self.home / e.name for e in here if e.is_file(follow_symlinks=False))
        files = [self.report] if self.report else filter(is_report, chain(self._elsewhere(), beside))
        reports = []
        for file in files:
            broken: list[Unreadable] = []
            content = _with_errors(read_optional(file, broken))
            place = place_of(file, options, content)
            if content and "total_instances" not in content:
                broken, content = [Unreadable(file, NO_REPORT)], {}
            if (place.logs, place.run) == (self.logs, self.run):
                problems += broken
                reports += [Report(place, file, content)] if content and place.model else []
        return reports

    def _elsewhere(self) -> Iterator[Path]:
        """The newest report of each logged model in a directory beside the logs."""
        models = self.models()
        folders = subdirectories(self.home) if models else []
        for model in models:
            yield max((folder / f"{model}.{self.logs.name}.json" for folder in folders), key=mtime_ns)

    def models(self) -> list[str]:
        return [directory.name for directory in subdirectories(self.logs)]

    def logged(self, model: str | None) -> set[str]:
        return set(map(clean_name, subdirectories(self.logs / model))) if model else set()


def place_of(path: Path, options: ConvertOptions, content: Mapping[str, Any] | None = None) -> Place:
    """The run of a report or a directory of logs; a model in `options` helps to split the name."""
    if is_directory(path):
        return _logged(path.absolute().parents[len(LOGS.parts)], path.name, None, options.model)
    stem = path.name.removesuffix(".json")
    parts = stem.split(".")
    splits = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
    for home in (path.parent, path.parent.parent):
        for model, run in splits:
            if is_directory(home / LOGS / run / model) and (
                home == path.parent or not is_file(home / path.name)
            ):
                return _logged(home, run, model, options.model)
    content = peek(path) if content is None else content
    named = text(content.get("model_name_or_path")) or options.model
    if HOSTED_KEYS & content.keys() and stem != MOVED:
        hosted = _HOSTED.fullmatch(stem)
        run, shard = (hosted[3], f"{hosted[1]}/{hosted[2]}") if hosted else (stem, "")
        return Place(path.parent, run, options.model or UNKNOWN, shard=shard)
    is_default = parts[0].lower() == DEFAULT_MODEL and _openhands(path.parent)[0] is not None
    if is_default or not splits or splits[0][1] == NAMELESS or parts[0] == OUTPUT:
        named = options.model if (named or "").lower() == DEFAULT_MODEL else named
        return _nameless(path, OUTPUT if is_default else stem.removesuffix(f".{NAMELESS}"), named)
    settled = [s for s in splits if s[0] == (named or "").replace("/", "__") or s[1].startswith("eval_")]
    model, run = (settled or splits)[0]
    guess = "" if settled or len(splits) == 1 else f"model {model}, run {run}; --model NAME settles it"
    return Place(path.parent, run, model, guess=guess)


def _nameless(path: Path, stem: str, model: str | None) -> Place:
    """The run of a report that its directories name, with OpenHands' only logs if they are beside it."""
    asked, above = _openhands(path.parent)
    own = [] if stem in (OUTPUT, NAMELESS, MOVED) else [stem]
    place = Place(path.parent, "/".join([*above, *own]), model or asked or UNKNOWN, path)
    evaluations = subdirectories(path.parent / LOGS)
    models = [directory.name for logs in evaluations for directory in subdirectories(logs)]
    if own or not asked or len(evaluations) != 1 or len(models) != 1:
        return place
    return replace(place, model=models[0], report=None, evaluation=evaluations[0].name, served=place.model)


def _logged(home: Path, run: str, model: str | None, given: str | None) -> Place:
    """The run of logs. Beside OpenHands' metadata, the harness's model and its only run id say nothing."""
    asked, above = _openhands(home)
    own = [run] if len(subdirectories(home / LOGS)) > 1 else []
    named = Place(home, "/".join([*above, *own]), model, evaluation=run, served=given or asked)
    return named if asked else Place(home, run, model)


def _openhands(home: Path) -> tuple[str | None, list[str]]:
    """The model in OpenHands' metadata, and the directories that name its run: the dataset's and the model's,
    which is nested for each `/` in the name. Before version 1 a directory for the agent is between the two.
    Harbor's benchmarks have `llm` as JSON in text.
    """
    metadata = peek(home / OPENHANDS)
    written = _MODEL.search(text(metadata.get("llm")) or "")
    model = text((part(metadata, "llm") or part(metadata, "llm_config")).get("model"))
    asked = written[1] if written else model
    nested = (asked or "").split("/")[:-1]
    is_nested = nested == [folder.name for folder in reversed(home.parents[: len(nested)])]
    has_agent = metadata.get("agent_class") == home.parent.name
    depth = 2 + has_agent + (len(nested) if is_nested else 0)
    above = reversed([home, *home.parents][:depth])
    return asked, [clean_name(folder) for folder in above if folder.name]


def is_report(path: Path) -> bool:
    if path.suffix != ".json" or not is_file(path):
        return False
    try:
        with open_text(path) as opened:
            return _MARK in opened.read(_READ_CHARACTERS)
    except FileError:
        return False


def is_logs(path: Path) -> bool:
    return is_directory(path) and path.absolute().parts[-len(LOGS.parts) - 1 : -1] == LOGS.parts


# -----------------------------------------------------------------------------
# The connector: the events of one run of SWE-bench's harness.


UNSET, ERROR, EMPTY_PATCH, INFRA_FAILURE = "unset", "error", "empty_patch", "infra_failure"

ENDINGS = ("resolved_ids", "unresolved_ids", "empty_patch_ids", "error_ids")
"""The lists of a report, each instance with a prediction in exactly one."""

UNGRADED = ("incomplete_ids", "pending_ids")
"""The lists of instances without a result."""

UNGRADED_TOO = ("error_ids", "empty_patch_ids")
"""Lists whose instances OpenHands lists as incomplete, too, because no test of theirs ran."""

LISTS = ("completed_ids", "failed_ids", *UNGRADED, *ENDINGS)
"""The lists of a report that together name every instance; some harnesses omit some."""

_OVERLAPPING = (
    ("completed", "completed instances", ("completed_ids", "resolved_ids", "unresolved_ids")),
    ("error", "instances with an error", ("error_ids",)),
    ("failed", "failed instances", ("failed_ids",)),
    ("pending", "pending instances", ("pending_ids",)),
)
"""Counts whose lists may name more instances than the count has, and share them with other lists."""

Ending = tuple[Any, str]
"""Verdict, if there is one, and failure mode."""

LINES_OF_LOG = 10

SHOWN = 40


class SweBench:
    name = "swe-bench"
    looks_for = (
        "MODEL.RUN_ID.json, DATASET__SPLIT__RUN_ID.json or report.json with `total_instances`, and "
        "logs/run_evaluation/RUN_ID"
    )

    def detect(self, path: Path) -> bool:
        return is_report(path) or is_logs(path)

    def skip(self, directory: Path) -> bool:
        return is_logs(directory.parent.parent)

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        place = place_of(path, options)
        plan = RunPlan(run_id=_clean(place.run))
        plan.uuids = frozenset({str(place.report or place.logs.absolute())})
        reports = place.reports(options, plan.problems)
        plan.problems += (
            Unreadable(report.file, why) for report in reports for why in _wrong_with(report.content)
        )
        about = peek(place.home / OPENHANDS) if _openhands(place.home)[0] else {}
        metadata = about | read_optional(place.logs / METADATA, plan.problems)
        revision = max(map(mtime_ns, (place.logs / METADATA, *(report.file for report in reports))))
        tasks = {task for report in reports for task in _planned(report.content)}
        datasets = {report.place.shard.partition("/")[0] for report in reports} - {""}
        dataset = metadata.get("dataset") or (datasets.pop() if len(datasets) == 1 else None)
        made = made_with(
            {
                "dataset": metadata.get("dataset"),
                "split": metadata.get("split") or about.get("dataset_split") or about.get("data_split"),
                "limits": {"turns": about.get("max_iterations")},
                "agent_version": about.get("openhands_sdk_version"),
            }
        )
        is_local = "dataset" in metadata and "dataset" not in (made or {})
        plan.started = present(
            {
                "type": "run_started",
                "harness": self.name,
                "revision": revision,
                "started_at": metadata.get("created_at"),
                "tasks": sorted(tasks) or None,
                "attempts": 1,
                "plan_complete": (bool(tasks) or not reports) and not plan.problems,
                "benchmark": Path(name).name if is_local and (name := text(dataset)) else dataset,
                "provenance": made,
            }
        )
        for report in reports:
            for name, why in _silent(report.content).items():
                # sb-cli names only submitted instances, and counts the whole dataset
                if name == "total" and HOSTED_KEYS & report.content.keys():
                    plan.notes.append(why)
                else:
                    plan.lacks(why)
        is_over = not any(_ids(report.content, "pending_ids") for report in reports)
        guests = _guests(place, reports)
        if guests:  # each model has only some of the tasks
            del plan.started["tasks"]
        if reports and is_over and set(place.models()) <= {r.place.model for r in reports} | guests.keys():
            plan.finished = {"type": "run_finished", "revision": revision, "status": "completed"}
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        place = place_of(path, options)
        found = place.reports(options, [])
        reports = {(report.place.model, report.place.shard): report for report in found}
        guests = _guests(place, found)
        known = sorted({*((model, "") for model in place.models()), *reports})
        asked = [(place.model, place.shard)]
        asked += [(model, "") for model, host in guests.items() if host.place.model == place.model]
        for model, shard in asked if place.model else known:
            report = reports.get((model, shard)) or guests.get(model or "")
            endings = _endings(report.content) if report else {}
            shared = {other: place.logged(other) for other, host in guests.items() if host is report}
            own = shared.get(model or "") or endings.keys() - set().union(*shared.values())
            endings = {task: ending for task, ending in endings.items() if task in own}
            results = _Results(path, place.served or model or UNKNOWN, report, options, endings)
            yield from results.trials(place.logs / (model or UNKNOWN), within)
            if (ungraded := results.ungraded) and report and within is None:
                plan.lacks(
                    f"{counted(len(ungraded), 'instance')} with logs and without a result, in them or in the "
                    f"run's report, such as {ungraded[0]!r}"
                )
            if differing := results.differing:
                plan.notes.append(
                    f"{counted(len(differing), 'instance')} with another verdict in {REPORT} than in the "
                    f"run's report, such as {differing[0]!r}; {REPORT} counts"
                )

    def part(self, run: Path, changed: Path) -> Path | None:
        if not is_directory(run):
            return None
        inside = changed.relative_to(run).parts
        instance = run.joinpath(*inside[:2])
        return instance if len(inside) >= 2 and is_directory(instance) else None


@dataclass(frozen=True, slots=True)
class _Results:
    path: Path
    model: str
    report: Report | None
    options: ConvertOptions
    endings: dict[str, Ending]
    differing: list[str] = field(default_factory=list)
    ungraded: list[str] = field(default_factory=list)

    def trials(self, home: Path, within: Path | None) -> Iterator[Item]:
        logged = set()
        for instance in subdirectories(home):
            if within in (None, instance):
                logged.add(clean_name(instance))
                yield from self._of_logs(instance)
        if self.report and within is None:
            for task in self.endings:
                if task not in logged:
                    yield Parsed(self._named(self.report.file), self._event(task, None, {}))
                if guess := self.report.place.guess:
                    yield Remark(self._named(self.report.file), GUESSED, guess)

    def _of_logs(self, instance: Path) -> Iterator[Item]:
        task, own = clean_name(instance), instance / REPORT
        result: dict[str, Any] = {}
        if is_file(own):
            try:
                result = _own_result(own, task)
            except FileError as error:
                if self.endings.get(task) != (None, ERROR):  # as on Modal, where such a file is empty
                    yield Unreadable(self._named(own), f"{instance.name}/{REPORT}: {error}")
        elif task not in self.endings:
            self.ungraded.append(task)
            yield start_of(instance, self._slot(task), instance / INSTANCE_LOG)
            return
        if self._differs(task, result):
            self.differing.append(task)
        if result or task in self.endings:
            file = next(filter(is_file, (own, instance / INSTANCE_LOG)), instance)
            yield Parsed(self._named(file), self._event(task, instance, result))

    def _differs(self, task: str, result: dict[str, Any]) -> bool:
        """Whether the run's report has another verdict than the instance's own (R35)."""
        resolved, mode = self.endings.get(task, (None, EMPTY_PATCH))
        own = result.get("resolved")
        return mode != EMPTY_PATCH and isinstance(own, bool) and own is not resolved

    def _named(self, file: Path) -> Path:
        return file if file.is_relative_to(self.path) else self.path

    def _slot(self, task: str) -> dict[str, Any]:
        agent, shard = self.options.agent or UNKNOWN, self.report.place.shard if self.report else ""
        slot = {"task_id": task, "attempt": 1, "agent": agent, "model": _clean(self.model)}
        return slot | ({"shard": shard} if shard else {})

    def _event(self, task: str, instance: Path | None, result: dict[str, Any]) -> dict[str, Any]:
        report = self.report.content if self.report else {}
        resolved, mode = _ending(task, result, report, self.endings)
        files = [self.report and self.report.file, instance / REPORT if instance else None]
        return present(
            {
                "type": "trial_result",
                "harness": SweBench.name,
                **self._slot(task),
                "revision": max(mtime_ns(file) for file in files if file),
                "resolved": resolved,
                "failure_mode": mode,
                "message": None if resolved else _message(task, mode, instance, result, report),
                "metrics": _metrics(result),
                "artifacts": artifacts_of(self.path, instance, (TRIAL,), (REPORT,)),
            }
        )


def _guests(place: Place, reports: list[Report]) -> dict[str, Report]:
    """The reports of models that have none of their own, because one file had predictions of several models.

    The harness names the report after the first prediction's model, and each log after its own. So another
    model's report has all instances of such a model, but that other model's logs have no such instance.
    """
    guests = {}
    own = {report.place.model for report in reports}
    for report in reports:
        logged = place.logged(report.place.model)
        graded = {task for task, (_, mode) in _endings(report.content).items() if mode != EMPTY_PATCH}
        for model in sorted(set(place.models()) - own) if logged else ():
            if (tasks := place.logged(model)) and tasks <= graded - logged:
                guests[model] = report
    return guests


def _with_errors(report: dict[str, Any]) -> dict[str, Any]:
    """The report with its `error_ids`. Some of OpenHands' reports only count them, among the submitted."""
    if report.get("error_ids") is not None:
        return report
    ended = {*_endings(report), *_ids(report, "pending_ids")}
    errors = [task for task in _ids(report, "submitted_ids") if task not in ended]
    is_counted = bool(errors) and len(errors) == count_of(report.get("error_instances"))
    return report | {"error_ids": errors} if is_counted else report


def _wrong_with(report: Mapping[str, Any]) -> Iterator[str]:
    for name in (*LISTS, "submitted_ids", "infra_failure_ids"):
        ids = report.get(name) or []
        odd = [ids] if not isinstance(ids, list) else [item for item in ids if id_of(item) is None]
        if odd:
            yield f"`{name}` has {str(odd[0])[:SHOWN]!r} instead of instance ids; it is left out"
    lists = [name for name in ENDINGS if name != "error_ids" or GRADED_ERRORS not in report]
    counts = Counter(task for name in lists for task in _ids(report, name))
    open_ones = {*_ids(report, *UNGRADED)} - {*_ids(report, *UNGRADED_TOO)}
    if several := [task for task, count in counts.items() if count > 1 or task in open_ones]:
        names = ", ".join(name for name in (*ENDINGS, *UNGRADED) if several[0] in _ids(report, name))
        more = f" ({len(several):,} such instances)" if len(several) > 1 else ""
        yield f"the instance {several[0]!r} is in {names}, but only one of them can be{more}"


def _own_result(file: Path, task: str) -> dict[str, Any]:
    result = part(read_object(file), task)
    if not result:
        raise FileError(f"it has no result under `{task}`")
    return result


def _endings(report: Mapping[str, Any]) -> dict[str, Ending]:
    """Verdict and failure mode of each instance with a prediction; the last list that has it counts."""
    completed = (False, UNSET) if report.get("unresolved_ids") is None else (None, ERROR)
    endings: dict[str, Ending] = {}
    for name, ending in (
        ("completed_ids", completed),
        ("failed_ids", (None, ERROR)),
        ("error_ids", (None, ERROR)),
        ("unresolved_ids", (False, UNSET)),
        ("resolved_ids", (True, UNSET)),
        ("empty_patch_ids", (False, EMPTY_PATCH)),
    ):
        endings |= dict.fromkeys(_ids(report, name), ending)
    return endings


def _planned(report: Mapping[str, Any]) -> list[str]:
    """The instances of the dataset that the report names, with or without a result.

    Predictions may name instances outside the dataset. So a submitted instance counts only if the report
    counts more instances than its other lists name.
    """
    tasks = _ids(report, *LISTS)
    is_short = len(tasks) < (count_of(report.get("total_instances")) or 0)
    return list(dict.fromkeys([*tasks, *(_ids(report, "submitted_ids") if is_short else [])]))


def _silent(report: Mapping[str, Any]) -> dict[str, str]:
    endings = _endings(report)
    counts = Counter(endings.values())
    ended = {*_planned(report)} - {*_ids(report, *UNGRADED)} | endings.keys()
    named = {
        "total": ("instances in all", len(_planned(report))),
        "resolved": ("resolved instances", counts[True, UNSET]),
        "unresolved": ("unresolved instances", counts[False, UNSET]),
        "empty_patch": ("instances with an empty patch", counts[False, EMPTY_PATCH]),
    }
    said = {
        name: silence(what, report.get(f"{name}_instances"), count) for name, (what, count) in named.items()
    }
    for name, what, lists in _OVERLAPPING:
        listed_ones = len(_ids(report, *lists))
        announced = max(count_of(report.get(f"{name}_instances")) or 0, listed_ones)
        said[name] = silence(what, announced, listed_ones)
    return present(said | {"submitted": silence("instances with a result", len(ended), len(endings))})


def _ending(task: str, result: dict[str, Any], report: dict[str, Any], endings: dict[str, Ending]) -> Ending:
    resolved, mode = endings.get(task, (None, ERROR))
    if mode == EMPTY_PATCH:
        return resolved, mode
    if "resolved" in result:
        resolved, mode = result["resolved"], UNSET
    infra = result.get("infra_failure") is True or task in listed(report, "infra_failure_ids")
    return resolved, INFRA_FAILURE if infra and resolved is not True else mode


def _message(
    task: str, mode: str, instance: Path | None, result: dict[str, Any], report: dict[str, Any]
) -> str | None:
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
        with open_text(log) as opened:
            lines = opened.read(MAX_FILE_BYTES).strip().splitlines()
    except FileError:
        return None
    return "\n".join(lines[-LINES_OF_LOG:]) or None


def _metrics(result: dict[str, Any]) -> dict[str, float] | None:
    shares = {
        name: len(tests["success"]) / (len(tests["success"]) + len(tests["failure"]))
        for name, tests in _tests(result)
        if tests["success"] or tests["failure"]
    }
    return shares or None


def _tests(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    status = part(result, "tests_status")
    for kind in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        tests = part(status, kind)
        yield kind.lower(), {name: listed(tests, name) for name in ("success", "failure")}


def _ids(report: Mapping[str, Any], *names: str) -> list[str]:
    ids = (id_of(item) for name in names for item in listed(report, name))
    return list(dict.fromkeys(filter(None, ids)))


def _clean(name: str) -> str:
    return "/".join(clean_name(Path(part_of_name)) for part_of_name in name.split("/"))
