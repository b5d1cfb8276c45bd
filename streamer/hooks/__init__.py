"""Plug-ins that harnesses call while they run, so that their events are published immediately.

A hook makes the same events as the harness's connector. It queues the work and returns, so neither broker nor
disk delays a harness, and our errors never reach it.
"""

from __future__ import annotations

import os

from streamer.settings import read_discovery

# -----------------------------------------------------------------------------
# Whether a hook publishes: a variable decides, else whether a stack runs on this machine.


ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})


def is_active(variable: str) -> bool:
    """Whether a hook publishes, by its environment variable: 1, true, yes, on, or 0, false, no, off.

    Any other value counts as unset, and the hook is active if `streamer up` runs on this machine.
    """
    said = os.environ.get(variable, "").strip().lower()
    return said in ON or (said not in OFF and read_discovery() is not None)
