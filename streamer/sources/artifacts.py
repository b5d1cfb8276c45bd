"""The files that a trial left, as `artifacts` of its event: named where they lie, never read.

Only what the harness itself keeps in fixed places is named: the files right in some directories of the trial,
in the order of these directories, then by name. Links are not followed. At most 32 fit an event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from streamer.schemas.limits import MAX_ARTIFACTS, MAX_NAME_CHARACTERS, MAX_TEXT_CHARACTERS
from streamer.sources.files import clean_name, entries, is_directory

MEDIA_TYPES = {
    ".cast": "application/x-asciicast",
    ".csv": "text/csv",
    ".diff": "text/x-diff",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".patch": "text/x-diff",
    ".txt": "text/plain",
    ".xml": "application/xml",
}
"""Ending of a file's name to the media type; others are left out. The system's table differs by machine."""

TRIAL = "."
"""The trial's own directory among those that are looked into."""


def artifacts_of(
    run: Path, trial: Path | None, folders: Iterable[str], own: Collection[str] = ()
) -> list[dict[str, str]] | None:
    """The artifacts of a trial, None without any.

    Args:
        run: the run's directory, or a run-level file in it.
        trial: the trial's directory below it; None: it has none.
        folders: directories of the trial whose files count, relative to it, in order.
        own: files that the event itself is made from; they are no artifacts.
    """
    home = run if is_directory(run) else run.parent
    if trial is None or not trial.is_relative_to(home):
        return None
    found = (
        artifact
        for folder in folders
        for file in _files(trial / folder)
        if file.relative_to(trial).as_posix() not in own and (artifact := _artifact(home, trial, file))
    )
    return list(islice(found, MAX_ARTIFACTS)) or None


def _files(directory: Path) -> Iterator[Path]:
    """The regular files right in a directory, by name; none where it is a link to one."""
    if directory.is_symlink():
        return iter(())
    return (directory / e.name for e in entries(directory) if e.is_file(follow_symlinks=False))


def _artifact(home: Path, trial: Path, file: Path) -> dict[str, str] | None:
    """One artifact; None if its name cannot stand in an event."""
    place, name = file.relative_to(home), file.relative_to(trial).as_posix()
    path = place.as_posix()
    odd = any(clean_name(Path(part)) != part or "\\" in part for part in place.parts)
    if odd or len(path) > MAX_TEXT_CHARACTERS or len(name) > MAX_NAME_CHARACTERS:
        return None
    known = MEDIA_TYPES.get(file.suffix.lower())
    return {"name": name, "path": path} | ({"media_type": known} if known else {})
