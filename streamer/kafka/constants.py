"""Sizes and times of everything that talks to Kafka, each with its unit and its reason."""

from __future__ import annotations

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest record batch on both sides of the wire: a state page with one 1 MiB event, and room."""

FETCH_WAIT_MS = 500
"""How long a broker may hold an empty fetch. Apache Kafka answers at once when data come."""

SHORT_WAIT_MS = 20
"""The same on the embedded broker: it holds an empty fetch for the whole time, whatever comes.

This is the latency of its followers.
"""

END_WAIT_MS = 5
"""The same for a reader that only asks where a partition ends, and reads up to there."""

REQUEST_MS = 15_000
"""How long a request of a reader or of an admin client may take, for a person who waits."""

PATIENCE_SECONDS = 60.0
"""A partition that gives nothing new for so long cannot be read."""
