"""Where the harness of SWE-bench keeps its files, as its package swebench 5.0.2 writes them.

<where it was started>/
  <model>.<run>.json                       the report of a run, at its end (`make_run_report`)
  logs/run_evaluation/<run>/
    run.json                               dataset and split, when it starts; not in versions before 5
    <model>/<instance>/
      patch.diff  eval.sh  run_instance.log  test_output.txt
      report.json                          when the instance was graded; none where the harness failed

`/` in a model's name is written as `__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.sources.base import Unreadable
from streamer.sources.files import entries, is_directory, is_file, read_optional, subdirectories

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
        found = {}
        for file in files:
            place = place_of(file) if is_report(file) else None
            if place and place.run == self.run and place.model and (content := read_optional(file, problems)):
                found[place.model] = (file, content)
        return found

    def models(self) -> list[str]:
        """The models that have logs."""
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
