"""Whether a hook publishes: a variable decides, else whether a stack runs on this machine."""

from __future__ import annotations

import os

from streamer.discovery import read_discovery

ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})


def is_active(variable: str) -> bool:
    """Whether a hook publishes.

    Args:
        variable: its environment variable: 1, true, yes or on, and 0, false, no or off, in any case. Unset or
            empty: it is active where `streamer up` runs on this machine. Any other text is as if unset.
    """
    said = os.environ.get(variable, "").strip().lower()
    return said in ON or (said not in OFF and read_discovery() is not None)
