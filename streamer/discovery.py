"""Where the running `streamer up` of this machine is: a small JSON file that it writes and removes.

It holds `bootstrap`, `redis`, `namespace`, `partitions`, `pid`, `data_dir` (null if ephemeral), `started_at`
(Unix seconds). STREAMER_DISCOVERY names another file.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import platformdirs

CLOCK_SLACK_SECONDS = 60.0
"""The wall clock may have been set since the machine started."""


def discovery_path() -> Path:
    """The file; one per user of this machine."""
    named = os.environ.get("STREAMER_DISCOVERY")
    if named:
        return Path(named)
    return user_data_dir() / "running.json"


def user_data_dir() -> Path:
    """The user's data directory for this program."""
    return Path(platformdirs.user_data_dir("streamer", appauthor=False))


def read_discovery() -> dict[str, Any] | None:
    """The data that the running stack wrote; None without any, or if the process that wrote it has ended."""
    try:
        found = json.loads(discovery_path().read_text())
        alive = _alive(found["pid"], found["started_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if alive else None


def write_discovery(found: dict[str, Any]) -> None:
    """Tell other commands about this process's stack; a reader never sees half a file.

    A stack that was announced before and still runs is remembered, and found again when this one ends.
    """
    _write(found | {"before": read_discovery()})


def _write(found: dict[str, Any]) -> None:
    path = discovery_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(found, indent=2) + "\n")
    partial.replace(path)


def remove_discovery() -> None:
    """Remove the file if this process wrote it (another stack may have been started since).

    The stack that was announced before this one is announced again, if it still runs.
    """
    found = read_discovery()
    if found is None or found["pid"] != os.getpid():
        return
    before = found.get("before")
    while before is not None and not _alive(before["pid"], before["started_at"]):
        before = before.get("before")
    if before is None:
        discovery_path().unlink(missing_ok=True)
    else:
        _write(before)


def discovered_settings() -> dict[str, Any]:
    """The settings that follow from a running stack, {} without one."""
    found = read_discovery()
    if found is None:
        return {}
    names = ("bootstrap", "redis", "namespace", "partitions")
    return {"embedded": True} | {name: found[name] for name in names if name in found}


def _alive(pid: int, started_at: float) -> bool:
    """True if that process runs and cannot be another one that got its number after a restart."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    if (
        boot_clock is not None
        and started_at < time.time() - time.clock_gettime(boot_clock) - CLOCK_SLACK_SECONDS
    ):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
