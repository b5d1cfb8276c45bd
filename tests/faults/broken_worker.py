"""A worker with one of its safeguards switched off, run as `python -m tests.faults.broken_worker`.

The variable BROKEN names it. The suite must then fail: otherwise it proves nothing.

- `guard`: Redis takes any version, also one older than what it has, whatever was written between.
- `dedup`: every result fills a slot of its own, so that duplicates and corrections count again.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

from streamer.folding import state
from streamer.folding.slots import SlotKey, slot_key
from streamer.settings import Settings
from streamer.storage import entries
from streamer.worker.process import run_worker

GUARD = "local function refused(suffix, version)\n"
FOLLOWS = "local follows, mark, mode = ARGV[2], ARGV[3], ARGV[4]\n"


def main() -> int:
    """Switch it off, then run the worker."""
    {"guard": _without_guard, "dedup": _without_slots}[os.environ["BROKEN"]]()
    return run_worker(Settings())


def _without_guard() -> None:
    assert GUARD in entries.SCRIPT
    assert FOLLOWS in entries.SCRIPT
    unguarded = entries.SCRIPT.replace(GUARD, f"{GUARD}  if true then return false end\n")
    entries.SCRIPT = unguarded.replace(FOLLOWS, f"{FOLLOWS}follows = ''\n")


def _without_slots() -> None:
    serial = itertools.count()

    def a_slot_of_its_own(event: Any) -> SlotKey:
        if getattr(event, "agent_index", None) is not None:
            return slot_key(event)  # sub-trials are looked up by their slots
        key = slot_key(event)
        return key._replace(shard=f"{key.shard}{os.getpid()}-{next(serial)}")

    state.slot_key = a_slot_of_its_own  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
