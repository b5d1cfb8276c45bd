"""inspect_ai itself, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.peers import peer_environment

collect_ignore = ["arithmetic.py", "record.py"]
"""The tasks need inspect_ai, which runs them in an environment of its own."""

INSPECT = "inspect-ai==0.3.285"
"""The version that the connector and the hook are tested with."""


@pytest.fixture(scope="session")
def inspect_ai() -> Path:
    """The folder of an environment with inspect_ai and what our base needs."""
    return peer_environment(INSPECT)
