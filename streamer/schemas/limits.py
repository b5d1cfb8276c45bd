"""Limits of the values in an event. Each follows from what is done with the value.

The JSON Schema of the events shows them, pydantic and the fast reading of :mod:`streamer.schemas.plain`
enforce them, and connectors cut names to them. An event beyond a limit becomes a rejection with its bytes.
"""

from __future__ import annotations

import sys

MAX_RECORD_BYTES = 1024 * 1024
"""An event as JSON: a state page with one event, and its rejection, fit a message of 4 MiB."""

MAX_ID_CHARACTERS = 512
"""A run, a task or a shard: parts of topic and Redis keys. They are not keys inside a summary."""

MAX_NAME_CHARACTERS = 128
"""Text that is a key inside a summary, or a group of its own: agent, model, tier, failure mode, ..."""

MAX_AGENT_MODEL_CHARACTERS = 4 * MAX_NAME_CHARACTERS + 1
"""A label `agent:model`: two names, of which the first is percent-encoded."""

MAX_TEXT_CHARACTERS = 1024
"""Text for people. At most five such texts stand in a run summary, with 6 bytes a character: 30 KiB."""

MAX_BENCHMARK_NAME_CHARACTERS = 4096
"""A benchmark's name with its parameters; the score takes it apart."""

LARGE_EVENT_BYTES = 2048
"""Larger results mostly have benchmarks, which is faster to look for than to find while reading."""

MAX_COUNT = 2**53
"""A count (tokens, steps): the largest integer that every JSON reader keeps exact. Sums may exceed it."""

MAX_ORDINAL = 2**31
"""The n-th attempt of a task, or the place of an agent: attempts are counted in 32 bits."""

MAX_REVISION = 2**63 - 1
"""A revision is Unix nanoseconds in 64 bits."""

MAX_AMOUNT = sys.float_info.max
"""Dollars, seconds, scores: any finite float. Sums are exact, and Infinity beyond the range (R14, R18)."""

MAX_TASKS = 1_000_000
MAX_PLANNED_ATTEMPTS = 10_000
MAX_TIERS = 100
MAX_SUBTESTS = 1_000
MAX_AGENT_MODELS = 5_000
"""The product of a plan: tasks x attempts x tiers x subtests x agents stays below 2**63."""

MAX_BASELINES = 100
"""Baseline agents; each trial's agent is looked up among them."""

MAX_INFRASTRUCTURE_FAILURES = 100
"""Failure modes that a plan names; each trial's is looked up among them."""

MAX_LABELS = 100
MAX_LABEL_VALUE_CHARACTERS = 512
"""Free labels of a run, all of which stand in its summary."""

MAX_METRICS = 64
MAX_METRIC_NAME_CHARACTERS = 64
"""Named metrics of a trial, or of a plan (R30). A group keeps statistics of each."""

MAX_TRIAL_LABELS = 16
MAX_TRIAL_LABEL_KEY_CHARACTERS = 64
MAX_TRIAL_LABEL_VALUE_CHARACTERS = 256
"""Free labels of a trial. They stay with the event; no summary holds them."""

MAX_MESSAGE_CHARACTERS = 4096
"""Why a trial failed, for people. It stays with the event."""

MAX_ARTIFACTS = 32
MAX_LINK_CHARACTERS = 2048
"""Files of a trial, each with the path or the link where it lies. They stay with the event."""

MAX_BENCHMARKS_PER_TRIAL = 10_000
"""All of them are scored at once: some milliseconds."""

MAX_CLAIMS = 1_000
"""Entries that a log claims; scoring looks for about twenty."""

FIRST_YEAR = 2000
YEAR_AFTER_LAST = 2200
"""A time outside, in UTC, comes from a wrong clock or a wrong unit: it is missing, and counted so."""

EARLIEST_MICROSECONDS = 946_684_800 * 10**6
LATEST_MICROSECONDS = 7_258_118_400 * 10**6
"""The beginnings of those two years, Unix time."""
