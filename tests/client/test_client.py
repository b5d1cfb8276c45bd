"""What `from streamer.client import` offers, and what it does not load."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_client_imports_neither_broker_nor_store() -> None:
    code = (
        "import sys, streamer.client as c; c.Counts; sys.exit(bool({'aiokafka', 'redis'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_every_public_name_is_there() -> None:
    import streamer.client

    missing = [name for name in streamer.client.__all__ if not hasattr(streamer.client, name)]
    assert missing == []
    assert callable(streamer.client.subscribe)
