"""Sizes and times of the worker, each with its unit and its reason."""

from __future__ import annotations

from streamer.kafka.constants import MAX_MESSAGE_BYTES

MAX_RECORD_BYTES = MAX_MESSAGE_BYTES - 16 * 1024
"""Largest key and value together, before compression: the record batch around them needs some room."""

SEND_BATCH_BYTES = 512 * 1024
"""Records of one topic and partition are sent in record batches of about this size."""

MAX_POLL_RECORDS = 4_000
"""Records in one batch at most: about 2 MB, a few tens of milliseconds of folding."""

PAGES_PER_TURN = 50
"""State pages loaded before the event loop gets its turn: about 30 ms."""

MAX_UNDONE_RECORDS = 8_000
"""Handed on but not done: beyond this the transport stops fetching, which bounds the memory."""

USUAL_RECORD_BYTES = 4 * 1024
"""A larger record counts as several of those not done, which so take 32 MB at most, and one batch more."""

FETCH_TURN_SECONDS = 0.2
"""How long one fetch waits for records: partitions resumed meanwhile have to wait along."""

EMBEDDED_FETCH_WAIT_MS = 10
"""The embedded broker never wakes a fetch: this is the latency (p50 3 ms at 10, 130 ms at 500)."""

BROKER_PATIENCE_SECONDS = 300.0
"""How long a request to the broker may take. Long: a request given up on may still take effect later."""

EMBEDDED_SESSION_TIMEOUT_SECONDS = 3.0
"""The embedded broker waits half the session timeout at each join, rounded up to whole seconds."""
