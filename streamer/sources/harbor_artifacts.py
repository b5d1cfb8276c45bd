"""Where a trial of harbor keeps the files that readers look for: logs, trajectories, what was collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from streamer.schemas.limits import MAX_ARTIFACTS
from streamer.sources.artifacts import TRIAL
from streamer.sources.files import is_plain, text, walk
from streamer.sources.harbor_layout import CONFIG, LOCK, RESULT
from streamer.sources.harbor_trajectory import steps_of

OWN_FILES = (CONFIG, LOCK, RESULT)
"""Files of a trial that its event is made from."""

WRITTEN_TO = ("agent", "user-agent", "verifier")
"""Directories of a trial, and of each of its steps, that agents and the verifier write to."""

COLLECTED = "artifacts"
"""The directory of what harbor collects from the environment, at any depth."""


def folders_of(trial: Path, result: Mapping[str, Any]) -> Iterator[str]:
    """The directories of a trial whose files are its artifacts, relative to it."""
    names = (text(step.get("step_name")) for step in steps_of(result))
    homes = [trial, *(trial / "steps" / name for name in names if name and is_plain(name))]
    yield TRIAL
    yield from ((home / name).relative_to(trial).as_posix() for home in homes for name in WRITTEN_TO)
    for home in homes:
        for directory in islice(walk(home / COLLECTED, lambda _: False), MAX_ARTIFACTS):
            yield directory.relative_to(trial).as_posix()
