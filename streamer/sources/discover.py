"""Find the runs below the paths that the user named, and give each its id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.sources.base import ConvertOptions, RunPlan, Source, Unreadable
from streamer.sources.files import clean_name, entries, is_directory, is_file, walk

RUN_FILE = re.compile(
    r".*_results\.json|.+\..+\.json|.*_samples\.jsonl|.+\.eval|\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d.*\.json",
    re.DOTALL,
)
"""Names of files that may be runs of their own: a list of results (H2), a report, rows of samples, a log."""

SEARCHED_UPWARDS = 4
"""How far above a path inside a run the run itself is looked for."""


@dataclass(slots=True)
class FoundRun:
    """A run found on disk.

    Attributes:
        source: the connector that reads it.
        path: its directory, or the run-level file it consists of.
        plan: what it says of itself.
        only: the part of it that the user named; the run's path if all of it.
        nested: it lies inside another run, as copies do.
        run_id: the name in its plan, or that and the folders above where two runs share a name.
    """

    source: Source
    path: Path
    plan: RunPlan
    only: Path
    nested: bool
    run_id: str

    @property
    def is_itself(self) -> bool:
        """Whether the directory is named as the harness named the run; a renamed copy is not (H4)."""
        return not self.plan.aliases


def discover(
    paths: Sequence[Path], sources: Sequence[Source], options: ConvertOptions, *, around: bool = True
) -> tuple[list[FoundRun], list[Unreadable], list[str]]:
    """Runs at, below or around the paths, each once; then what could not be read, and notes for the user.

    `around`: look for the run that a path lies in where there is none at or below it.

    Originals come before what may be copies of them: runs inside runs, renamed runs, run-level files.
    """
    runs: dict[Path, FoundRun] = {}
    problems: list[Unreadable] = []
    for path in paths:
        try:
            root = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problems.append(Unreadable(path, f"cannot be read: {reason}"))
            continue
        found = list(_runs_of(root, sources, problems))
        if not found and around:
            found = _run_around(root, sources)
        if not found:
            names = " or ".join(source.name for source in sources)
            problems.append(Unreadable(path, f"no run of {names} here, below or around it"))
        for source, place, nested in found:
            _add(runs, FoundRun(source, place, source.plan(place, options), _common(root, place), nested, ""))
    ordered = sorted(runs.values(), key=lambda run: (run.nested, not run.is_itself, is_file(run.path)))
    return ordered, problems, _name(ordered)


def outermost_run(
    root: Path, place: Path, sources: Sequence[Source], options: ConvertOptions, no_runs: set[Path]
) -> FoundRun | None:
    """The first run on the way from a directory down to a place below it, looked for nowhere else.

    `no_runs`: directories that are known to be none, and need not be looked at; filled.
    """
    for directory in (*reversed([p for p in place.parents if p.is_relative_to(root)]), place):
        if directory in no_runs:
            continue
        if directory.is_symlink() or not is_directory(directory):
            return None
        for source in _claim(directory, sources):
            plan = source.plan(directory, options)
            return FoundRun(source, directory, plan, directory, False, plan.run_id)
        no_runs.add(directory)
    return None


def without_copies(runs: Sequence[FoundRun]) -> list[FoundRun]:
    """The first of each group of runs with one id or with a harness id in common; none that is nested."""
    kept: dict[str, FoundRun] = {}
    uuids: set[str] = set()
    for run in runs:
        if not run.nested and not uuids & run.plan.uuids:
            kept.setdefault(run.run_id, run)
            uuids |= run.plan.uuids
    return list(kept.values())


def latest_of_retries(runs: Sequence[FoundRun]) -> dict[str, Path]:
    """Run to the latest of its files, where several files are one run, as a log and its retries are."""
    files: dict[str, list[FoundRun]] = {}
    for run in runs:
        if is_file(run.path):
            files.setdefault(run.run_id, []).append(run)
    return {name: max(found, key=_planned_at).path for name, found in files.items() if len(found) > 1}


def _planned_at(run: FoundRun) -> int:
    return int((run.plan.started or {}).get("revision", -1))


def _runs_of(
    root: Path, sources: Sequence[Source], problems: list[Unreadable]
) -> Iterator[tuple[Source, Path, bool]]:
    """The runs at and below a path: connector, place, whether it lies inside another run."""
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
    """The first connector that detects a run at the path, if any."""
    return [source for source in sources if source.detect(path)][:1]


def _run_around(path: Path, sources: Sequence[Source]) -> list[tuple[Source, Path, bool]]:
    """The run that a path lies in: a task's or a trial's directory, or a file of it."""
    for parent in path.parents[:SEARCHED_UPWARDS]:
        for source in _claim(parent, sources):
            return [(source, parent, False)]
    return []


def _common(root: Path, place: Path) -> Path:
    return root if root.is_relative_to(place) else place


def _add(runs: dict[Path, FoundRun], run: FoundRun) -> None:
    """Take a run in once, and whole if it was named whole once."""
    held = runs.setdefault(run.path, run)
    if held.only != run.only:
        held.only = held.path
    held.nested = held.nested and run.nested


def _name(runs: Sequence[FoundRun]) -> list[str]:
    """Set every run's id. The folders above them keep different runs of one name apart."""
    notes = []
    groups: dict[str, list[list[FoundRun]]] = {}
    for run in runs:
        same_name = groups.setdefault(run.plan.run_id, [])
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
                f"{len(same_name)} different runs are named {name!r}; they are kept apart as "
                f"{', '.join(qualified)}. Convert them one by one to keep the name"
            )
    return notes


def _same(run: FoundRun, other: FoundRun) -> bool:
    """Whether two runs of one name are copies of one another rather than two runs."""
    if run.plan.uuids & other.plan.uuids or run.path.parent == other.path.parent:
        return True
    return run.nested and not (run.plan.uuids and other.plan.uuids)


def _qualified(paths: Sequence[Path], name: str) -> list[str]:
    """The name with as many folders above as it takes to tell the paths apart; alone, the plain name."""
    names = [name] * len(paths)
    for level in range(max(len(path.parts) for path in paths)):
        if len(set(names)) == len(names):
            break
        names = [
            f"{clean_name(path.parents[level])}/{named}" if level < len(path.parents) else named
            for path, named in zip(paths, names, strict=True)
        ]
    return names
