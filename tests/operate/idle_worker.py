"""Stands in for the worker where a test is not about it: reports once that it is there, then waits.

With an argument it writes its STREAMER_* variables to that file first.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from streamer.storage.entries import Keys

FOLDED = 10**9
"""Whatever the journal brings."""

if __name__ == "__main__":
    if sys.argv[1:]:
        given = {name: value for name, value in os.environ.items() if name.startswith("STREAMER_")}
        Path(sys.argv[1]).write_text(json.dumps(given))
    redis = urlsplit(os.environ["STREAMER_REDIS"])
    with socket.create_connection((redis.hostname, redis.port)) as connection:
        key = Keys(os.environ["STREAMER_NAMESPACE"]).workers
        at = datetime.now(UTC).isoformat()
        report = json.dumps(
            {"at": at, "partitions": [0], "catching_up": [], "folded_to": {"0": FOLDED}},
            separators=(",", ":"),
        )
        connection.sendall(f"HSET {key} stand-in '{report}'\r\n".encode())
        connection.recv(64)
    signal.pause()
