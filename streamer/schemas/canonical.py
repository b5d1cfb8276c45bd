"""Canonical JSON, how numbers travel in it, and the digest cut from it.

Canonical means: UTF-8, keys sorted by code point, no white space, shortest float that reads back
equal (orjson with `OPT_SORT_KEYS`). Two summaries with equal canonical bytes are the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import msgspec
import orjson

from streamer.schemas.limits import MAX_COUNT

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z

encode_plain: Callable[[msgspec.Struct], bytes] = msgspec.json.Encoder(order="deterministic").encode
"""Canonical bytes of a Struct whose fields are in order, in half the time.

Only where it holds dictionaries, text, times in UTC, integers, truth values, nulls and floats up to
:data:`PLAIN`.
"""

PLAIN = 1e15
"""Up to that, either way from zero, msgspec writes a float as orjson does: without an exponent."""

JsonNumber = float | str | None
"""A float as it travels in JSON: `"Infinity"`, `"-Infinity"`, `"NaN"` for what is not finite (R14)."""

NOT_DIGESTED = frozenset(
    {
        "epoch",
        "state_version",
        "last_event_at",
        "superseded",
        "conflicts",
        "digest",
        "made_with",
        "degraded",
        "state",
    }
)
"""Fields that tell how a summary came about rather than what it says, and what readers add (`state`)."""


def canonical_json(value: Any) -> bytes:
    """Canonical bytes of a JSON value; times in UTC become text.

    >>> canonical_json({"b": 1.0, "a": None})
    b'{"a":null,"b":1.0}'
    """
    return orjson.dumps(value, option=_CANONICAL)


def sha256_hex(data: bytes) -> str:
    """SHA-256 in hexadecimal, 64 characters."""
    return hashlib.sha256(data).hexdigest()


def digest_of(summary: Mapping[str, Any]) -> str:
    """The digest that a summary must carry, recomputed from the summary itself."""
    return sha256_hex(canonical_json({k: v for k, v in summary.items() if k not in NOT_DIGESTED}))


def json_number(value: float | None) -> JsonNumber:
    """The value as it travels in JSON (R14); None (unknown) stays None.

    >>> json_number(0.5), json_number(float("inf")), json_number(float("nan")), json_number(None)
    (0.5, 'Infinity', 'NaN', None)
    """
    if value is None or isfinite(value):
        return value
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def json_count(total: float) -> int | float:
    """A total of counts as it travels in JSON: whole, or a float where integers are not exact any more.

    >>> json_count(3.0), json_count(2**53 + 2), json_count(2.0**70)
    (3, 9007199254740994.0, 1.1805916207174113e+21)
    """
    return int(total) if total <= MAX_COUNT else float(total)
