"""Plug-ins that harnesses call while they run, so that their events are published at once.

A hook makes the same events as the harness's connector. It hands work over and returns: neither the broker
nor the disk delays a harness, and no error of ours reaches it.
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

    Any other value counts as unset: then it is active where `streamer up` runs on this machine.
    """
    said = os.environ.get(variable, "").strip().lower()
    return said in ON or (said not in OFF and read_discovery() is not None)
