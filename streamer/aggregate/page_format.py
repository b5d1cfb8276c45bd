"""What a state page looks like: one JSON line, its header, then events as they were received, compressed.

The header has the format's version `v`, the offset of the last event that the run had seen (`as_of`), and the
time of its latest event (`at`). For a page of slots it has one entry for each slot: the length of its event,
or an object with that (`n`), the slot's key (`k`), its losers (`l`), floor (`f`) and starts (`s`). For the
page of the run itself: the lengths of the plan events (`plan`), and up to where it is deleted
(`deleted_to`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson
from cramjam import lz4

from streamer.aggregate.keys import SlotKey, slot_key
from streamer.schemas.decode import decode
from streamer.schemas.identity import decode_id, encode_id
from streamer.schemas.plain import AnyTrial, plain_trial

RUN_PAGE = 0
PAGE_VERSION = 3
READ_VERSIONS = (1, 2, 3)
"""Version 1 had its events as they are, version 2 had no starts."""


class PageError(ValueError):
    """A page that this version cannot read. The message names the page and what to do."""


class PageFromTheFuture(PageError):
    """A page that a newer version wrote: the deployment's fault, not the run's."""


def page_key(run_id: str, writer: str, number: int) -> str:
    """Key of a page in the table: `RUN/WRITER/N`, the run percent-encoded."""
    return f"{encode_id(run_id)}/{writer}/{number}"


def run_of_page(key: str) -> str:
    """The run that a page belongs to."""
    return decode_id(key.split("/", 1)[0])


def is_run_page(key: str) -> bool:
    """True for the page with what concerns the run itself."""
    return key.endswith(f"/{RUN_PAGE}")


def written(header: dict[str, Any], raws: list[bytes]) -> bytes:
    """A page with this header and these events."""
    body = b"".join(raws)
    head = orjson.dumps(header | {"v": PAGE_VERSION})
    return b"%b\n%b" % (head, bytes(lz4.compress_block(body)) if body else b"")


def opened(value: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and events of a page; raises what reading JSON and lz4 raise, and PageError for its version."""
    head, _, body = value.partition(b"\n")
    header = orjson.loads(head)
    if header["v"] not in READ_VERSIONS:
        readable = ", ".join(map(str, READ_VERSIONS))
        raise PageFromTheFuture(
            f"has version {header['v']}, this worker reads {readable}. Upgrade the worker."
        )
    return header, bytes(lz4.decompress_block(body)) if body and header["v"] > 1 else body


def seen_by(value: bytes) -> int:
    """Offset of the last event that a page has seen."""
    return int(orjson.loads(value.partition(b"\n")[0])["as_of"])


def slots_on(value: bytes) -> list[SlotKey]:
    """The slots on a page."""
    header, body = opened(value)
    entries = header.get("slots", ())
    raws = (raw for raw in cut(body, map(length_of, entries)) if raw)
    events = (plain_trial(raw) or decode(raw) for raw in raws)
    keys = [slot_key(event) for event in events if isinstance(event, AnyTrial)]
    return keys + [key_of(entry) for entry in entries if not isinstance(entry, int)]


@lru_cache(maxsize=4)
def events_on(value: bytes) -> list[bytes]:
    """The events on a page; whoever looks at one looks at its neighbours next."""
    header, body = opened(value)
    return list(cut(body, map(length_of, header["slots"])))


def cut(body: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    """The events on a page, which follow each other without anything between them."""
    offset = 0
    for length in lengths:
        yield body[offset : offset + length]
        offset += length


def length_of(entry: int | dict[str, Any]) -> int:
    """Bytes of a slot's event, from its header entry."""
    return entry if isinstance(entry, int) else int(entry["n"])


def key_of(entry: dict[str, Any]) -> SlotKey:
    """Key of a slot that is more than its event."""
    return SlotKey(*entry["k"])
