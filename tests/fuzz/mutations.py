"""Documents -> broken ones: bytes are flipped, cut and doubled; values become what no harness would write."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

HEAVY = 0.004
"""Share of documents that get something large: deep nesting, a long text."""

DEEP = (60, 200, 1_000, 100_000)
LONG = (600, 5_000, 100_000, 1_200_000)


class Raw(str):
    """JSON text to put in place of a value as it is, which `json.dumps` would not write."""


VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400,
    0.1, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
    "", " ", "0", "NaN", "Infinity", "null", "T0", "T99", "unknown", "nop", "oracle", "é" * 300, "x" * 513,
    "\x00", "\x1b[31m", "\r\n", "\u2028", "\u202e", "\ufeff", "\ud800", "|", "a|b:c{d}%",
    "../../etc", "/", ".", "..",
    "2026-01-31T09:30:00Z", "2026-01-31T09:30:00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00",
    "2026-02-30T00:00:00Z", "2026-01-31T24:00:00Z", "1" * 30,
    [], {}, [[]], [None], {"": {}}, [1, "a", None, {}], {"a": [1.5, float("nan")]}, [1e308, 1e308, -1e308],
    Raw("1e400"), Raw("-1e400"), Raw("1" * 400), Raw("1" * 5_000), Raw("0." + "1" * 400), Raw("1E+99999"),
    Raw("01"), Raw("+1"), Raw(".5"), Raw("0x1"), Raw("'a'"), Raw("undefined"), Raw("NaN"), Raw("-NaN"),
    Raw(""), Raw('"\\ud800"'), Raw('"\\udc00\\ud800"'), Raw('"\\u0000"'), Raw('"\\x41"'),
    Raw('{"a":1,"a":2}'), Raw("[1,]"),
)  # fmt: skip
"""Numbers beyond every limit, texts of every alphabet, odd times, wrong types, and what is no JSON."""

NOISE = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf",
    b"\x1b[2J", b"\x7f", b"\x85",
    b"\r", b"\n", b"\t", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"1e999", b"-", b"\xe2\x80\xa8",
    b"/*", b"null",
)  # fmt: skip
"""Bytes put in: not UTF-8, control characters, and what JSON is made of."""


def mutated(document: bytes, rng: Random) -> bytes:
    """A document with one to three things broken."""
    data = document
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(data, rng)
    return data


def with_odd_value(data: bytes, rng: Random) -> bytes:
    """JSON with one value replaced, one name renamed or one entry gone; other bytes as they are."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return with_noise(data, rng)
    places = list(_places(value))
    if not places:
        return with_noise(data, rng)
    holder, key = rng.choice(places)
    way = rng.random()
    marker = "@@the place of the value@@"
    if way < 0.08:
        del holder[key]
    elif way < 0.16 and isinstance(holder, dict):
        holder[str(rng.choice(VALUES))[:600]] = holder.pop(key)
    elif way < 0.2 and isinstance(holder, dict):
        return _doubled_key(value, holder, key, rng)
    else:
        holder[key] = marker
    odd = _odd_json(rng)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.8).replace(f'"{marker}"', odd)
    return text.encode("utf-8", "surrogatepass")


def with_noise(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(NOISE) * rng.choice((1, 1, 1, 3)) + data[at:]


def with_flipped_bits(data: bytes, rng: Random) -> bytes:
    if not data:
        return b"\x80"
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut_off(data: bytes, rng: Random) -> bytes:
    """The beginning alone, or the end alone."""
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.8 else data[at:]


def with_part_doubled(data: bytes, rng: Random) -> bytes:
    """A part twice, or not at all."""
    first, last = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    part = data[first : min(last, first + 5_000)]
    return (
        data[:last] + part + data[last:] if rng.random() < 0.6 else data[:first] + data[first + len(part) :]
    )


def encoded_otherwise(data: bytes, rng: Random) -> bytes:
    """UTF-16, UTF-8 with a mark, Latin-1, other line ends, or nothing."""
    way = rng.randrange(6)
    if way == 0:
        return b""
    if way == 1:
        return b"\xef\xbb\xbf" + data
    if way == 2:
        return data.replace(b"\n", b"\r\n")
    if way == 3:
        return rng.randbytes(rng.randrange(200))
    return data.decode("utf-8", "replace").encode("utf-16" if way == 4 else "latin-1", "replace")


_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(with_odd_value,) * 8,
    *(with_noise,) * 2,
    *(with_flipped_bits,) * 2,
    *(cut_off, with_part_doubled, encoded_otherwise),
)


def _places(value: Any, depth: int = 0) -> Any:
    """Every (holder, key) in a JSON value, down to a depth."""
    if depth > 12:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items)[:200]:
        yield value, key
        yield from _places(part, depth + 1)


def _odd_json(rng: Random) -> str:
    if rng.random() < HEAVY:
        if rng.random() < 0.5:
            depth = rng.choice(DEEP)
            opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")))
            return opening * depth + "1" + closing * depth
        return json.dumps(rng.choice(("x", "é", "\\", "\x00")) * rng.choice(LONG))
    odd = rng.choice(VALUES)
    return str(odd) if isinstance(odd, Raw) else json.dumps(odd, ensure_ascii=rng.random() < 0.5)


def _doubled_key(value: Any, holder: dict[str, Any], key: str, rng: Random) -> bytes:
    marker = "@@the second one@@"
    name, stored = f"{marker}{key}", holder[key]
    holder.clear()
    holder.update({key: stored, name: marker})
    text = json.dumps(value).replace(json.dumps(name), json.dumps(key)).replace(f'"{marker}"', _odd_json(rng))
    return text.encode("utf-8", "surrogatepass")
