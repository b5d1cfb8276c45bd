"""The script that writes one run: write_run.lua and its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

import orjson

from schemas.metrics import BOARD_METRICS
from streamer.sinks.entry import Entry
from streamer.sinks.names import Names

SCRIPT = files("streamer.sinks").joinpath("write_run.lua").read_text(encoding="utf-8")
HISTORY_LENGTH = 10_000
"""Entries kept of a run's history, about."""


class WriteRun:
    """Builds the command that writes entries of one run, guarded."""

    def __init__(self, names: Names, expire_seconds: int | None) -> None:
        self._names = names
        options = {
            "expire_seconds": expire_seconds or 0,
            "history_length": HISTORY_LENGTH,
            "channel": names.updates,
            "metrics": list(BOARD_METRICS),
        }
        self._options = orjson.dumps(options)

    def command(self, run_id: str, entries: Iterable[Entry]) -> tuple[str | bytes | int, ...]:
        """EVAL of the script; replies {refused entries, benchmark before}."""
        arguments = [part for entry in entries for part in entry.script_arguments(self._names)]
        return ("EVAL", SCRIPT, 1, self._names.versions(run_id), self._options, *arguments)
