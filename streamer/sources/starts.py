"""Trials that have begun and have no result yet.

Nearly no harness writes down when a trial starts before it ends. Then the start is the time at which the
harness made the first of what it makes for a trial, as the file system has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamer.aggregate.keys import rfc3339
from streamer.sources.base import Found
from streamer.sources.files import first_written_ns, known

STARTED = "trial_started"


def start_of(trial: Path, slot: Mapping[str, Any], *made_first: Path, started_at: str | None = None) -> Found:
    """The start of a trial.

    Args:
        trial: its directory.
        slot: the fields that say which slot its result will fill.
        made_first: files or directories that the harness makes for every trial at its start. The earliest
            time of writing among them is the start; those that are not there do not count.
        started_at: the start, if the files say it already.
    """
    written = first_written_ns(*made_first)
    started_at = started_at or (rfc3339(written // 1000) if written else None)
    return Found(trial, known({"type": STARTED, **slot, "revision": written, "started_at": started_at}))
