"""The contents of a file as the page shows them: steps, lines of a log, a diff, or a recording to play."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from streamer.artifacts import atif, openhands, terminus
from streamer.artifacts.ansi import Span, lines_of
from streamer.artifacts.opening import CannotBeOpened, FilePart, read_below
from streamer.artifacts.steps import NotThisFormat, Step
from streamer.schemas.base import Message
from streamer.text import counted

MAX_LOG_BYTES = 1 << 20
"""The end of a longer text is shown, since the reason stands there."""

MAX_TRAJECTORY_BYTES = 32 << 20
MAX_CAST_BYTES = 16 << 20

Kind = Literal["steps", "log", "diff", "cast"]

READERS: tuple[Callable[[Any], tuple[list[Step], int]], ...] = (
    atif.atif_steps,
    openhands.openhands_steps,
    terminus.terminus_steps,
)
_STEPS, _DIFFS, _CASTS = (".json",), (".diff", ".patch"), (".cast",)
_ANSWERS = ("response.txt", "response.json")


class ArtifactView(Message):
    """A file of a trial, read for people. All texts are the agent's or the harness's: text, never markup."""

    kind: Kind = Field(description="How it is shown; `cast`: in the player.")
    name: str = Field(description="The artifact's name.")
    size: int = Field(ge=0, description="Bytes of the file.")
    steps: list[Step] = Field(default=[], description="Of a trajectory, in order.")
    lines: list[list[Span]] = Field(default=[], description="Of a log or a diff: each line's pieces.")
    left_out: str | None = Field(default=None, description="What is not shown, in words; null: nothing.")


def view_of(home: Path, path: str, name: str) -> ArtifactView:
    """A file below a run's directory, as the page shows it.

    Raises:
        CannotBeOpened: see `read_below`; or it is not text.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _CASTS:
        part = read_below(home, path, MAX_CAST_BYTES)
        return ArtifactView(kind="cast", name=name, size=part.size)
    if suffix in _STEPS or PurePosixPath(path).name in _ANSWERS:
        found = _steps(home, path, name)
        if found is not None:
            return found
    part = read_below(home, path, MAX_LOG_BYTES, from_end=True)
    lines, before = lines_of(_text_view(part, path))
    kind: Kind = "diff" if suffix in _DIFFS else "log"
    return ArtifactView(
        kind=kind, name=name, size=part.size, lines=lines, left_out=_left_out(part.left_out, before)
    )


def recording(home: Path, path: str) -> str:
    """The text of a recording of a terminal.

    Raises:
        CannotBeOpened: see `read_below`; or it is not a recording.
    """
    if PurePosixPath(path).suffix.lower() not in _CASTS:
        raise CannotBeOpened(f"{path!r} is no recording: only files that end in .cast are played")
    return _text_view(read_below(home, path, MAX_CAST_BYTES), path)


def _steps(home: Path, path: str, name: str) -> ArtifactView | None:
    """The steps of a trajectory; None if no format fits."""
    part = read_below(home, path, MAX_TRAJECTORY_BYTES, from_end=True)
    try:
        content = None if part.left_out else json.loads(part.content)
    except (ValueError, RecursionError):
        return None
    for read in READERS:
        try:
            steps, more = read(content)
        except NotThisFormat:
            continue
        except RecursionError:
            return None
        left = counted(more, "more step") if more else None
        return ArtifactView(kind="steps", name=name, size=part.size, steps=steps, left_out=left)
    return None


def _text_view(part: FilePart, path: str) -> str:
    if b"\0" in part.content[:8192]:
        raise CannotBeOpened(f"{path!r} is not text. Open it on its machine")
    return part.content.decode("utf-8", "replace")


def _left_out(size: int, lines: int) -> str | None:
    parts = [f"{size:,} bytes" if size else "", counted(lines, "line") if lines else ""]
    return " and ".join(filter(None, parts)) + " before this" if size or lines else None
