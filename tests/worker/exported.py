"""What a worker says of itself in a heartbeat."""

from __future__ import annotations

from typing import Any

STATUS: dict[str, Any] = {
    "partitions": [0, 1],
    "catching_up": [1],
    "lag": {"0": 0, "1": 7},
    "unsent": 3,
    "refused": 5,
    "outdated": ["r"],
    "open_runs": 2,
    "closed_runs": 1,
    "quarantined_runs": 0,
    "waits": None,
    "events_lost": 0,
    "offsets_moved": [],
    "retention": None,
}
