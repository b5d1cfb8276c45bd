"""How long an agent's way was, from the trajectory in ATIF that harbor's agents leave beside their logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from streamer.sources.files import FileError, is_file, is_plain, part, read_object, text
from streamer.sources.harbor_layout import step_homes, steps_of

TRAJECTORY = "trajectory.json"


def trajectory_length(trial: Path, result: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """Steps that the agent itself took, over all steps of the task; or None and, if worth saying, why.

    Steps that a continuation repeats from before are not counted again.
    """
    files = [file for file in _files(trial, result) if is_file(file)]
    if not files:
        return None, None
    steps = steps_of(result)
    if steps and part(part(result, "config"), "agent").get("resume_trajectory") is True:
        return None, "no length: the trajectories of the steps overlap (resume_trajectory)"
    if steps and len(files) < len(steps):
        return None, f"no length: only {len(files)} of {len(steps)} steps have a {TRAJECTORY}"
    try:
        return sum(map(_length, files)), None
    except FileError as error:
        return None, f"no length: {error}"


def _files(trial: Path, result: Mapping[str, Any]) -> list[Path]:
    if not isinstance(result.get("step_results"), list):
        return [trial / "agent" / TRAJECTORY]
    return [home / "agent" / TRAJECTORY for home in step_homes(trial, result)]


def _length(file: Path) -> int:
    """The agent's own steps in a trajectory and those that continue it. Raises FileError."""
    return sum(
        isinstance(step, dict) and step.get("source") == "agent" and step.get("is_copied_context") is not True
        for segment in _segments(file)
        for step in segment
    )


def _segments(file: Path) -> Iterator[list[Any]]:
    """The steps of a trajectory and of each that continues it, which lies beside it. Raises FileError."""
    seen: set[Path] = set()
    following: Path | None = file
    while following and following not in seen:
        seen.add(following)
        try:
            content = read_object(following)
        except FileError as error:
            raise FileError(f"{following.name}: {error}") from error
        if not isinstance(content.get("steps"), list):
            raise FileError(f"{following.name} is no trajectory: it has no list under `steps`")
        yield content["steps"]
        name = text(content.get("continued_trajectory_ref"))
        following = file.with_name(name) if name and is_plain(name) else None
