"""The scripts that write one run and read one run, each in one step, and their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files

import orjson

from streamer.redis.keys import Keys
from streamer.redis.reconcile import Write
from streamer.schemas.metrics import BOARD_METRICS

SCRIPT = files("streamer.redis").joinpath("write_run.lua").read_text(encoding="utf-8")
READ_SCRIPT = files("streamer.redis").joinpath("read_run.lua").read_text(encoding="utf-8")
NOT_TAKEN = -1
"""Redis does not hold the mark that changes follow: the run has to be sent whole."""

HISTORY_LENGTH = 10_000
"""Entries kept of a run's history, about."""


class WriteRun:
    """Builds the command that writes one run, guarded."""

    def __init__(self, keys: Keys, expire_seconds: int | None) -> None:
        self._keys = keys
        options = {
            "expire_seconds": expire_seconds or 0,
            "history_length": HISTORY_LENGTH,
            "channel": keys.updates,
            "metrics": list(BOARD_METRICS),
        }
        self._options = orjson.dumps(options)

    def command(self, write: Write) -> tuple[str | bytes | int, ...]:
        """EVAL of the script; replies {refused entries, or NOT_TAKEN, and the benchmark before}."""
        mode = "whole" if write.whole else "changes"
        changes = [part for entry in write.entries for part in entry.script_arguments(self._keys)]
        versions = self._keys.versions(write.run_id)
        return ("EVAL", SCRIPT, 1, versions, self._options, write.follows, write.mark, mode, *changes)


def read_run(
    keys: Keys, run_id: str, kinds: Iterable[str], known: Mapping[str, str] | None = None
) -> tuple[str | int, ...]:
    """EVAL_RO of the script that reads a run from one moment; see read_run.lua for its reply.

    Args:
        kinds: `run`, `agent_model`, `tier`, `within` for the agent:models within tiers,
            `comparisons`, `in_flight`, `tasks`.
        known: version of each key suffix whose summary is wanted only in another version.
    """
    wanted = {"kinds": dict.fromkeys(kinds, True), "known": dict(known or {})}
    return ("EVAL_RO", READ_SCRIPT, 1, keys.versions(run_id), orjson.dumps(wanted).decode())
