"""Harness run directories to events: all of `streamer convert` except its command line.

Decisions for all harnesses:

- A run's id is the name of its directory (G5). If different runs share a name, the folders above are
  added, and the report says so. A copy (same harness id, or same name inside another run) is the same run.
- With `--run-id` every run becomes a shard of that run, and a part of its plan.
- A trial whose content was already sent is a duplicate: counted, not sent again. Harness ids identify trials
  across runs, so a partial copy of one run inside another (H5) adds nothing.
- A trial is left out and reported if it is deeper than the harness writes, names another run and is not a
  duplicate. It belongs to a run that was not converted.
- Names that are too long are cut, invalid fields left out, and secrets removed
  (:mod:`streamer.sources.base`). The report lists these, and unreadable files.
- A trial that has begun is sent as `trial_started`, unless its slot has a result or the run is a copy.
- The user's declarations replace the plan in the files.
- If several files are one run, as a log and its retries, the latest plan is sent. The plans of a run's parts,
  such as shards of a log, become one plan (R34).
"""

from __future__ import annotations

import functools
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from pathlib import Path
from typing import Any, cast

from streamer.schemas.base import canonical_json, sha256_hex
from streamer.sources.base import (
    AUTO,
    TIMES_WITHOUT_ZONE,
    ConvertOptions,
    ConvertReport,
    Item,
    Parsed,
    Remark,
    RunPlan,
    Source,
    Unreadable,
    clean_text,
    explanation_of,
    fit_event,
    noting_cleaned_ids,
    silence,
    slot_of,
    with_short_names,
)
from streamer.sources.every_eval_ever import EveryEvalEver
from streamer.sources.fc_eval import FcEval
from streamer.sources.files import (
    STARTED,
    clean_name,
    entries,
    is_directory,
    is_file,
    listing_once,
    peek,
    present,
    walk,
)
from streamer.sources.harbor import Harbor
from streamer.sources.inspect import Inspect
from streamer.sources.scylla import Scylla
from streamer.sources.swe_bench import SweBench
from streamer.sources.terminal_bench import TerminalBench
from streamer.text import counted

# -----------------------------------------------------------------------------
# Find the runs below the user's paths, and determine their ids.


RUN_FILE = re.compile(
    r".*_results\.json|.+\..+\.json|.+__.+__.+\.json|(?:.*[_-])?report\.json|.*_samples\.jsonl|.+\.eval"
    r"|\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d.*\.json|[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}\.json",
    re.DOTALL,
)
"""Names of files that may be a run: a list of results (H2), a report, rows, a log, an evaluation (a UUID)."""

COUNTED = 10_000
"""The limit for counting directories without a run."""

SHOWN = 4

SEARCHED_UPWARDS = 5
"""How many levels above a path to search for its run. ProjectScylla's results lie as deep in it."""


@dataclass(slots=True)
class SourceRun:
    """A run found on disk; `run_id` is the plan's name, with folders above it if two runs share the name."""

    source: Source
    path: Path
    plan: RunPlan
    only: Path
    nested: bool
    run_id: str

    @property
    def is_itself(self) -> bool:
        """Whether the directory has the harness's name for the run, unlike a renamed copy (H4)."""
        return not self.plan.aliases


def discover(
    paths: Sequence[Path],
    sources: Sequence[Source],
    options: ConvertOptions,
    *,
    around: bool = True,
    report: ConvertReport | None = None,
) -> tuple[list[SourceRun], list[Unreadable], list[str]]:
    """Runs at, below or around the paths, without repeats; then unreadable files, and notes for the user.

    Originals come before possible copies: nested and renamed runs, run-level files. With `around` it finds
    the run that contains a path, too.
    """
    with listing_once():
        return _discover(paths, sources, options, around, report or ConvertReport())


def _discover(
    paths: Sequence[Path],
    sources: Sequence[Source],
    options: ConvertOptions,
    around: bool,
    report: ConvertReport,
) -> tuple[list[SourceRun], list[Unreadable], list[str]]:
    notes: list[str] = []
    runs: dict[Path, SourceRun] = {}
    problems: list[Unreadable] = []
    for path in paths:
        try:
            root = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problems.append(Unreadable(path, f"cannot be read: {reason}"))
            continue
        runs_there = list(_runs_of(root, sources, problems, report))
        if not runs_there and around:
            runs_there = _run_around(root, sources)
        if not runs_there:
            names = " or ".join(source.name for source in sources)
            problems.append(Unreadable(path, f"no {names} run here, below or above it: {_content(root)}"))
            notes = [f"{s.name} looks for {s.looks_for}" for s in sources if hasattr(s, "looks_for")]
        for source, place, nested in runs_there:
            report.activity = ("reading the plan of", place)
            _add(
                runs, SourceRun(source, place, source.plan(place, options), _common(root, place), nested, "")
            )
    ordered = sorted(runs.values(), key=lambda run: (run.nested, not run.is_itself, is_file(run.path)))
    notes += _name(ordered)
    return ordered, problems, notes


def _content(root: Path) -> str:
    if is_file(root):
        keys = ", ".join(list(peek(root))[:SHOWN])
        return f"it holds an object with {keys}" if keys else "it is another kind of file"
    files = [
        e.name
        for directory in islice(walk(root, lambda _: False), COUNTED)
        for e in entries(directory)
        if not e.is_dir(follow_symlinks=False)
    ]
    kinds = Counter(Path(name).suffix.lower() or "without an ending" for name in files)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(SHOWN))
    return f"it has {counted(len(files), 'file')}" + (f" ({shown}), such as {files[0]!r}" if files else "")


def outermost_run(
    root: Path, place: Path, sources: Sequence[Source], options: ConvertOptions, no_runs: set[Path]
) -> SourceRun | None:
    """The first run on the way down from a directory to a place. `no_runs` caches directories without one."""
    for directory in (*reversed([p for p in place.parents if p.is_relative_to(root)]), place):
        if directory in no_runs:
            continue
        if directory.is_symlink() or not is_directory(directory):
            return None
        for source in _claim(directory, sources):
            plan = source.plan(directory, options)
            return SourceRun(source, directory, plan, directory, False, plan.run_id)
        no_runs.add(directory)
    return None


def without_copies(runs: Sequence[SourceRun]) -> list[SourceRun]:
    """The first of each group of runs that share an id or a harness id, without nested ones."""
    kept: dict[tuple[str, str | None], SourceRun] = {}
    seen: set[tuple[str, str | None]] = set()
    for run in runs:
        uuids = {(uuid, run.plan.part) for uuid in run.plan.uuids}
        if not run.nested and not seen & uuids:
            kept.setdefault((run.run_id, run.plan.part), run)
            seen |= uuids
    return list(kept.values())


def latest_of_retries(runs: Sequence[SourceRun]) -> dict[tuple[str, str | None], Path]:
    """The latest file of each run and part with several files, such as a log and its retries."""
    files: dict[tuple[str, str | None], list[SourceRun]] = {}
    for run in runs:
        if is_file(run.path):
            files.setdefault((run.run_id, run.plan.part), []).append(run)
    return {name: max(paths, key=_planned_at).path for name, paths in files.items() if len(paths) > 1}


def _planned_at(run: SourceRun) -> tuple[int, int]:
    """Times of the plan and the end. A recovered log has the lost log's plan."""
    planned, ended = ((event or {}).get("revision", -1) for event in (run.plan.started, run.plan.finished))
    return int(planned), int(ended)


def _runs_of(
    root: Path, sources: Sequence[Source], problems: list[Unreadable], report: ConvertReport
) -> Iterator[tuple[Source, Path, bool]]:
    if is_file(root):
        yield from ((source, root, False) for source in _claim(root, sources))
        return
    claimed: dict[Path, Source] = {}

    def owner(path: Path) -> Source | None:
        return next((claimed[parent] for parent in (path, *path.parents) if parent in claimed), None)

    def skip(directory: Path) -> bool:
        source = owner(directory)
        return source is not None and source.skip(directory)

    for directory in walk(root, skip, lambda path, why: problems.append(Unreadable(path, why))):
        report.activity = ("looking for runs in", directory)
        outer = owner(directory)
        for source in _claim(directory, sources):
            claimed[directory] = source
            yield source, directory, outer is not None
        for entry in entries(directory):
            if RUN_FILE.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                yield from (
                    (s, Path(entry.path), outer is not None) for s in _claim(Path(entry.path), sources)
                )


def _claim(path: Path, sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if source.detect(path)][:1]


def _run_around(path: Path, sources: Sequence[Source]) -> list[tuple[Source, Path, bool]]:
    for parent in path.parents[:SEARCHED_UPWARDS]:
        for source in _claim(parent, sources):
            return [(source, parent, False)]
    return []


def _common(root: Path, place: Path) -> Path:
    return root if root.is_relative_to(place) else place


def _add(runs: dict[Path, SourceRun], run: SourceRun) -> None:
    """Add a run once; if any path names the whole run, it is read as a whole."""
    stored = runs.setdefault(run.path, run)
    if stored.only != run.only:
        stored.only = stored.path
    stored.nested = stored.nested and run.nested


def _name(runs: Sequence[SourceRun]) -> list[str]:
    notes = []
    groups: dict[str, list[list[SourceRun]]] = {}
    for run in runs:
        same_name = groups.setdefault(clean_text(run.plan.run_id), [])
        twin = next((group for group in same_name if any(_same(run, other) for other in group)), None)
        if twin is None:
            same_name.append([run])
        else:
            twin.append(run)
    for name, same_name in groups.items():
        qualified = _qualified([group[0].path for group in same_name], name)
        for group, run_id in zip(same_name, qualified, strict=True):
            for run in group:
                run.run_id = run_id
        if len(same_name) > 1:
            notes.append(
                f"{len(same_name)} different runs are named {name!r}; their ids become "
                f"{', '.join(qualified)}. Convert them one by one to keep the name"
            )
    return notes


def _same(run: SourceRun, other: SourceRun) -> bool:
    """Whether two runs with one name are copies of each other."""
    if run.plan.uuids & other.plan.uuids or run.path.parent == other.path.parent:
        return True
    return run.nested and not (run.plan.uuids and other.plan.uuids)


def _qualified(paths: Sequence[Path], name: str) -> list[str]:
    names = [name] * len(paths)
    for level in range(max(len(path.parts) for path in paths)):
        if len(set(names)) == len(names):
            break
        names = [
            f"{clean_name(path.parents[level])}/{named}" if level < len(path.parents) else named
            for path, named in zip(paths, names, strict=True)
        ]
    return names


# -----------------------------------------------------------------------------
# Connectors of other packages: entry points of the group `streamer.sources`.
#
# A package that has, in its pyproject.toml,
#
#     [project.entry-points."streamer.sources"]
#     my-harness = "my_package.my_module:MyHarness"
#
# makes `--harness my-harness` known; `auto` asks it after ours. It is loaded when it is first needed. It
# provides a class (called without arguments) or an object with `name`, `detect`, `plan` and `trials` as in
# `streamer.sources.base.Source`; `skip` and `part` may be missing. An error in it is reported once, with its
# name, and does not stop anything else.


GROUP = "streamer.sources"
NEEDED = ("detect", "plan", "trials")

_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """An unusable connector of another package; the text names it, its package and the reason."""


@functools.cache
def _offers() -> dict[str, list[EntryPoint]]:
    offers: dict[str, list[EntryPoint]] = defaultdict(list)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.value not in (offer.value for offer in offers[entry.name]):
            offers[entry.name].append(entry)
    return dict(offers)


def plugin_names(taken: Collection[str]) -> tuple[str, ...]:
    """Names of other packages' connectors except those `taken`, sorted; does not load them."""
    return tuple(name for name in _offers() if name not in taken)


def load_all(taken: Collection[str]) -> list[Source]:
    """Every working connector of other packages. The reason why one does not work is reported once."""
    for name in _offers().keys() & set(taken):
        _warn(f"{_described(name)} is left out: streamer has a connector with that name; rename it")
    return [source for name in plugin_names(taken) if (source := _loaded_or_warned(name))]


@functools.cache
def load(name: str) -> Source:
    """The connector of an entry point. Raises PluginError if it is ambiguous or unusable."""
    if len(_offers()[name]) > 1:
        raise PluginError(f"{_described(name)} is left out: two packages use that name; uninstall one")
    try:
        loaded = _offers()[name][0].load()
        source = loaded() if isinstance(loaded, type) else loaded
        missing = [method for method in NEEDED if not callable(getattr(source, method, None))]
        own_name = getattr(source, "name", None)
    except Exception as error:
        raise PluginError(f"{_described(name)} cannot be loaded: {_reason(error)}") from error
    if missing:
        raise PluginError(f"{_described(name)} is not a connector: it has no method {', '.join(missing)}")
    if own_name != name:
        raise PluginError(f"{_described(name)} is left out: its object has the name {own_name!r}")
    return _Guarded(source, _described(name))


@functools.cache
def _loaded_or_warned(name: str) -> Source | None:
    try:
        return load(name)
    except PluginError as error:
        _warn(str(error))
        return None


@functools.cache
def _warn(text: str) -> None:
    _log.warning("%s", text)


def _described(name: str) -> str:
    givers = (f"{entry.value} of {entry.dist.name if entry.dist else '?'}" for entry in _offers()[name])
    return f"connector {name!r} ({', '.join(givers)})"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _check(value: Any, is_right: bool, needed: str) -> None:
    if not is_right:
        raise TypeError(f"{value!r:.60} is not {needed}")


class _Guarded:
    """A wrapper that turns a plug-in connector's exceptions into problems of the files."""

    def __init__(self, source: Any, described: str) -> None:
        self.name: str = source.name
        self._source = source
        self._described = described

    def detect(self, path: Path) -> bool:
        return bool(self._asked("detect", "it is not asked about that path", path))

    def skip(self, directory: Path) -> bool:
        return bool(self._asked("skip", "nothing is skipped", directory))

    def plan(self, path: Path, options: ConvertOptions) -> RunPlan:
        try:
            plan: RunPlan = self._source.plan(path, options)
            _check(plan, isinstance(plan, RunPlan), "a RunPlan")
        except Exception as error:
            plan = RunPlan(clean_name(path), problems=[self._failed(path, "plan", error)])
        return plan

    def trials(
        self, path: Path, plan: RunPlan, options: ConvertOptions, within: Path | None = None
    ) -> Iterator[Item]:
        partly = {"within": within} if hasattr(self._source, "part") else {}
        try:
            for item in self._source.trials(path, plan, options, **partly):
                known = isinstance(item, Parsed | Unreadable | Remark) and isinstance(item.path, Path)
                _check(item, known, "Parsed, Unreadable or Remark with a Path")
                if within is None or item.path.is_relative_to(within):
                    yield item
        except Exception as error:
            yield self._failed(within or path, "trials", error)

    def part(self, run: Path, changed: Path) -> Path | None:
        return cast("Path | None", self._asked("part", "runs are read as a whole", run, changed))

    def _asked(self, method: str, otherwise: str, *paths: Path) -> Any:
        try:
            return getattr(self._source, method)(*paths) if hasattr(self._source, method) else None
        except Exception as error:
            _warn(f"{self._described} fails in {method}, so {otherwise}: {_reason(error)}")
            return None

    def _failed(self, path: Path, method: str, error: Exception) -> Unreadable:
        return Unreadable(path, f"{self._described} fails in {method}: {_reason(error)}")


# -----------------------------------------------------------------------------
# All connectors: ours, then other packages'.


SOURCES: tuple[Source, ...] = (
    *(Inspect(), FcEval(), TerminalBench(), Scylla()),
    *(Harbor(), SweBench(), EveryEvalEver()),
)
"""The connectors in order of detection. Inspect is first because it reads only the first bytes."""

TAKEN = frozenset({AUTO, *(source.name for source in SOURCES)})

HARNESSES = (AUTO, *(source.name for source in SOURCES), *plugin_names(TAKEN))
"""The values of `--harness`. Other packages' connectors are named without being loaded."""


def sources_for(harness: str) -> Sequence[Source]:
    """The connectors for a `--harness` value, including other packages'. Raises ValueError, PluginError."""
    if harness == AUTO:
        return [*SOURCES, *load_all(TAKEN)]
    if harness in TAKEN:
        return [source for source in SOURCES if source.name == harness]
    if harness in plugin_names(TAKEN):
        return [load(harness)]
    raise ValueError(f"harness {harness!r} is unknown; allowed: {', '.join(HARNESSES)}")


# -----------------------------------------------------------------------------
# One conversion: the events of all runs, each sent once.


_WHERE = frozenset({"run_id", "shard", "agent", "model"})
"""Fields that a copied trial takes from its surrounding run rather than from its own file."""

_NOT_CONTENT = frozenset({"revision", "message", "artifacts"})
"""Fields in which copies of a trial may differ: copy time, and files besides the result."""

NOT_SHUFFLED = (
    "run {}: its order is declared as shuffled, but its harness orders tasks itself. Declare this only if "
    "the harness was changed"
)


def convert(
    paths: Sequence[Path], options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    """Events of all runs at, below or around the paths, each ready for JSON and valid by the schema. The
    report fills up as the events are consumed. Raises ValueError at once if `options.harness` is unknown.
    """
    sources = sources_for(options.harness)

    def events() -> Iterator[dict[str, Any]]:
        runs, problems, notes = discover(paths, sources, options, report=report)
        report.notes += notes
        report.unreadable += problems
        yield from convert_runs(runs, options, report)

    return events()


def convert_runs(
    runs: Sequence[SourceRun], options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    return _Conversion(options, report).events(runs)


def convert_part(
    run: SourceRun, part: Path, options: ConvertOptions, report: ConvertReport
) -> Iterator[dict[str, Any]]:
    """Trials in a part of one run, except those that only the whole can distinguish from copies."""
    return _Conversion(options, report).part_events(run, part)


def convert_plan(run: SourceRun, options: ConvertOptions, report: ConvertReport) -> Iterator[dict[str, Any]]:
    yield from _Conversion(options, report).plan_events(run)


def _equal_ids(originals: Mapping[str, Collection[str]]) -> list[str]:
    several = [(cleaned, texts) for cleaned, texts in originals.items() if len(texts) > 1]
    return [
        f"{' and '.join(map(repr, sorted(texts)[:SHOWN]))} become {cleaned!r}: ids allow no such "
        "characters. Rename one, or results replace each other"
        for cleaned, texts in several[:1]
    ]


class _Conversion:
    def __init__(self, options: ConvertOptions, report: ConvertReport) -> None:
        self._options = options
        self._report = report
        self._sent: set[str] = set()
        self._slots: set[tuple[Any, ...]] = set()
        self._retries: dict[tuple[str, str | None], Path] = {}

    def events(self, runs: Sequence[SourceRun]) -> Iterator[dict[str, Any]]:
        pooled = {run.path for run in without_copies(runs)} if self._options.run_id is not None else None
        doubtful: list[tuple[SourceRun, Parsed]] = []
        self._retries = latest_of_retries(runs)
        for run in runs:
            yield from self._run_events(run, doubtful, with_plan=pooled is None or run.path in pooled)
        for run, trial in doubtful:
            yield from self._doubtful_event(run, trial)

    def _run_events(
        self, run: SourceRun, doubtful: list[tuple[SourceRun, Parsed]], with_plan: bool
    ) -> Iterator[dict[str, Any]]:
        self._report.activity = ("reading", run.path)
        self._report.unreadable += run.plan.problems
        trials: list[dict[str, Any]] = []
        begun: list[Parsed] = []
        copies = 0
        with listing_once(), noting_cleaned_ids() as originals:
            for item in self._trials(run):
                if item.event.get("type") == STARTED:
                    begun.append(item)
                elif item.other_run is not None:
                    doubtful.append((run, item))
                else:
                    broken = len(self._report.unreadable)
                    sent = self._trial_events(run, item)
                    copies += not sent and broken == len(self._report.unreadable)
                    trials += sent
        run.plan.notes += _equal_ids(originals)
        self._note_silence(run, len(set(map(slot_of, trials))) + copies)
        latest = self._retries.get((run.run_id, run.plan.part))
        if not trials and latest != run.path and (copies or not (begun or run.plan.tells_something)):
            return
        with_plan = with_plan if latest is None else latest == run.path
        starts = [] if run.nested else list(self._start_events(run, begun))
        self._report.runs.extend([] if run.run_id in self._report.runs else [run.run_id])
        if with_plan and (started := self._started(run)):
            yield from self._plan_event(run, started)
        yield from trials + starts
        if with_plan and run.plan.end:
            yield from self._plan_event(run, run.plan.end)

    def _note_silence(self, run: SourceRun, count: int) -> None:
        plan = run.plan
        if run.only == run.path and plan.announced is not None and count < plan.announced:
            plan.lacks(silence("trials with a result", plan.announced, count) or "")
        notes = (f"run {run.run_id}: {note}" for note in plan.notes)
        self._report.notes += (note for note in notes if note not in self._report.notes)

    def plan_events(self, run: SourceRun) -> Iterator[dict[str, Any]]:
        for event in (self._started(run), run.plan.end):
            yield from self._plan_event(run, event) if event else ()

    def _started(self, run: SourceRun) -> dict[str, Any] | None:
        started = run.plan.started or ({"type": "run_started"} if self._options.declared else None)
        if self._part(run) is None:
            return started
        return {"type": "run_started", "plan_complete": not run.plan.problems, **(started or {})}

    def part_events(self, run: SourceRun, part: Path) -> Iterator[dict[str, Any]]:
        begun: list[Parsed] = []
        for item in self._trials(run, part):
            if item.event.get("type") == STARTED:
                begun.append(item)
            elif item.other_run is None and not item.nested:
                yield from self._trial_events(run, item)
        yield from self._start_events(run, begun)

    def _trials(self, run: SourceRun, part: Path | None = None) -> Iterator[Parsed]:
        for item in run.source.trials(run.path, run.plan, self._options, part):
            if not item.path.is_relative_to(run.only):
                continue
            if isinstance(item, Remark):
                self._report.note_remark(run.run_id, item)
            elif isinstance(item, Unreadable):
                self._report.unreadable.append(item)
            else:
                yield item

    def _start_events(self, run: SourceRun, begun: Sequence[Parsed]) -> Iterator[dict[str, Any]]:
        for start in begun:
            event = self._fit(start.path, self._addressed(run, start.event))
            if event is not None and slot_of(event) not in self._slots:
                self._slots.add(slot_of(event))
                self._report.starts.append(start.path)
                yield event

    def _doubtful_event(self, run: SourceRun, trial: Parsed) -> Iterator[dict[str, Any]]:
        if not trial.nested:
            yield from self._trial_events(run, trial)
        elif self._content(run, trial) in self._sent:
            self._report.duplicates += 1
        else:
            reason = f"its name says run {trial.other_run!r}, which is not among the paths"
            self._report.unreadable.append(Unreadable(trial.path, reason))

    def _trial_events(self, run: SourceRun, trial: Parsed) -> list[dict[str, Any]]:
        event = self._fit(trial.path, self._addressed(run, trial.event))
        if event is None:
            return []
        content = self._content(run, trial, event)
        slot = slot_of(event)
        if trial.replaced or content in self._sent or (trial.partial and slot in self._slots):
            self._report.duplicates += not trial.from_run_file
            return []
        self._sent.add(content)
        self._slots.add(slot)
        self._report.trials += 1
        self._report.run_file_trials += trial.from_run_file
        self._report.explanations.append(explanation_of(trial, event))
        scored = self._fit(trial.path, self._addressed(run, trial.scored)) if trial.scored else None
        return [event, scored] if scored else [event]

    def _plan_event(self, run: SourceRun, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        declared = self._options.declared if event["type"] == "run_started" else {}
        if declared.get("order_kind") == "shuffled" and event.get("order_kind") == "chosen":
            self._report.notes.append(NOT_SHUFFLED.format(run.run_id))
        address = {"run_id": self._options.run_id or run.run_id, "part": self._part(run)}
        fitted = self._fit(run.path, {**present(address), **event, **declared})
        yield from [fitted] if fitted else []

    def _part(self, run: SourceRun) -> str | None:
        pooled = run.run_id if self._options.run_id is not None else None
        return "/".join(filter(None, (pooled, run.plan.part))) or None

    def _addressed(self, run: SourceRun, event: dict[str, Any]) -> dict[str, Any]:
        """The event with its run. A pooled run's id becomes its shard, or the shard's prefix."""
        if self._options.run_id is None:
            return {"run_id": run.run_id, **event}
        shard = "/".join(filter(None, (run.run_id, event.get("shard"))))
        return {**event, "run_id": self._options.run_id, "shard": shard}

    def _fit(self, path: Path, event: dict[str, Any]) -> dict[str, Any] | None:
        event, cut = with_short_names(event)
        self._report.cut.extend((path, name, reason) for name, reason in cut.items())
        fitted, misfits = fit_event(event)
        if fitted is None:
            reasons = "; ".join(f"{name} {reason}" for name, reason in misfits.items())
            self._report.unreadable.append(Unreadable(path, f"is not a valid event: {reasons}"))
        else:
            zoneless = {reason for reason in misfits.values() if reason.startswith(TIMES_WITHOUT_ZONE)}
            for reason in zoneless if "task_id" in fitted else ():
                what, _, why = reason.partition(": ")
                self._report.note_remark(fitted["run_id"], Remark(path, what, why))
            others = ((name, reason) for name, reason in misfits.items() if reason not in zoneless)
            self._report.left_out.extend((path, name, reason) for name, reason in others)
        return fitted

    def _content(self, run: SourceRun, trial: Parsed, event: dict[str, Any] | None = None) -> str:
        """Digest of a trial by the harness's own files; its place counts only if it has no id."""
        if event is None or trial.own:
            own = {**trial.event, **trial.own}
            event = fit_event(with_short_names(self._addressed(run, present(own)))[0])[0] or {}
        ignored = _NOT_CONTENT | (_WHERE if "trial_id" in event else frozenset())
        return sha256_hex(canonical_json({k: value for k, value in event.items() if k not in ignored}))
