"""Plug-ins of harnesses: a harness calls them while it runs, and its events are published at once.

A hook makes the same events as the connector of its harness makes of the files. It hands work over and
returns: neither the broker nor the disk holds up a harness, and no error of ours reaches it.
"""

from __future__ import annotations

import os

from streamer.settings import read_discovery

# -----------------------------------------------------------------------------
# Whether a hook publishes: a variable decides, else whether a stack runs on this machine.


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
