"""Whether the state pages of a partition hold everything that was folded: a mark among them says so.

A changelog can lose records: deleted and created again, emptied, cut at its beginning by a retention that
somebody set. What is left would look like a smaller state. So each partition of the changelog holds a mark:
from the offset that it names on, the pages are complete. No mark, or a changelog that begins later than
its mark says: the pages may lack something, and the partition is folded again from the event log.
"""

from __future__ import annotations

import orjson

PREFIX = "/covered/"
"""No id of a run is empty, so no page's key begins so."""


class StateLost(RuntimeError):
    """Neither the pages nor the log hold everything."""

    def __init__(self, changelog: str, topic: str, partition: int, start: int, group: str) -> None:
        super().__init__(
            f"partition {partition}: {changelog} has lost state pages, and {topic}, from which they could be "
            f"folded again, begins at offset {start:,}. Going on would publish less than was said before. "
            f"Restore one of the two topics; or, to go on with what is left, delete the offsets of group "
            f"{group} for {topic} and start the worker again"
        )


def mark_key(partition: int) -> str:
    """Key of a partition's mark in the table `trials`."""
    return f"{PREFIX}{partition}"


def is_mark(key: str) -> bool:
    """True for the key of a mark, False for that of a page.

    >>> is_mark(mark_key(3)), is_mark("run/writer/1")
    (True, False)
    """
    return key.startswith(PREFIX)


def mark(beginning: int) -> bytes:
    """The mark's value: the pages from offset `beginning` of the changelog on are complete."""
    return orjson.dumps({"complete_from": beginning})


def covers(value: bytes | None, beginning: int) -> bool:
    """Whether a mark says that a changelog that begins at `beginning` holds every page.

    >>> covers(mark(5), 5), covers(mark(5), 4), covers(mark(5), 6), covers(None, 0)
    (True, True, False, False)
    """
    return value is not None and beginning <= int(orjson.loads(value)["complete_from"])
