"""Writing as harnesses do: in place and not at once, so that a reader may see half a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

MEAN_SECONDS = 55.0
"""How long a simulated trial takes on average, about, in simulated time."""

PIECES = 3
SHARE_OF_WRITING = 0.1
"""Part of a trial's time that one file takes to be written."""


class Disk:
    """A run directory being written.

    Args:
        root: the run directory.
        seed: of the places where files are cut.
        pace_seconds: how long a trial takes on average.
        sleep: waits.
        written: called with each file when it is complete.
        piece_seconds: between two writes of one file; None: the usual share of a trial's time. It is part
            of the time that goes by, not beside it.
    """

    def __init__(
        self,
        root: Path,
        seed: int,
        pace_seconds: float,
        sleep: Callable[[float], None],
        written: Callable[[Path], None],
        piece_seconds: float | None = None,
    ) -> None:
        self.root = root
        self._random = Random(f"{seed} cuts")
        self._pace = pace_seconds
        self._sleep = sleep
        self._written = written
        self._piece_seconds = pace_seconds * SHARE_OF_WRITING if piece_seconds is None else piece_seconds
        self._spent = 0.0

    @property
    def name(self) -> str:
        """The run's id."""
        return self.root.absolute().name

    def pause_writing(self) -> None:
        """Wait as a harness does between two writes of one file."""
        if self._pace:
            self._sleep(self._piece_seconds)
            self._spent += self._piece_seconds

    def pass_time(self, seconds: float) -> None:
        """Let simulated time go by, at the pace at which a trial takes so long on average."""
        if not self._pace or seconds <= 0:
            return
        left = self._pace * seconds / MEAN_SECONDS - self._spent
        self._spent = max(0.0, -left)
        self._sleep(max(0.0, left))

    def make(self, *names: str) -> Path:
        """A directory below the run's."""
        path = self.root.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def json(self, path: Path, value: Any) -> None:
        """Write JSON over what is there."""
        self.text(path, json.dumps(value, indent=4))

    def text(self, path: Path, text: str) -> None:
        """Write text over what is there, in pieces; the file is empty first."""
        data = text.encode()
        cuts = sorted(self._random.randrange(len(data) + 1) for _ in range(self._random.randrange(PIECES)))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb", buffering=0) as file:
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                if start:
                    self.pause_writing()
                file.write(data[start:end])
        self._written(path)
