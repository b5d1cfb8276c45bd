"""The records of the changelog of state pages besides pages: runs set apart, and runs to fold again.

Under `/quarantined/RUN`, written by the worker: why the run is set apart. Under `/repair/RUN`, written by an
operator's command: the name of a request to fold the run again. The worker takes both away when the run is in
good order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from streamer.schemas.identity import decode_id, encode_id

BY_DELETION = "deleted"
"""Name of the request to fold a run again that a deletion makes."""

_QUARANTINED, _REPAIR = "/quarantined/", "/repair/"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a run is set apart.

    Attributes:
        reason: what went wrong.
        at: offset of the last event that the run had seen.
        deleted_to: greatest revision of a deletion that came since; None: no deletion came.

    >>> known = Quarantine("OverflowError: too large", at=7)
    >>> Quarantine.read(known.deleted(5).deleted(3).value()).deleted_to
    5
    """

    reason: str
    at: int
    deleted_to: int | None = None

    @classmethod
    def read(cls, value: bytes) -> Quarantine:
        """From the record's value."""
        told = orjson.loads(value)
        return cls(told["reason"], told["at"], told["deleted_to"])

    def value(self) -> bytes:
        """The record's value."""
        return orjson.dumps({"reason": self.reason, "at": self.at, "deleted_to": self.deleted_to})

    def deleted(self, revision: int) -> Quarantine:
        """The same after a deletion: the run is to be folded again without what that took."""
        known = revision if self.deleted_to is None else max(revision, self.deleted_to)
        return replace(self, deleted_to=known)


def quarantine_key(run_id: str) -> str:
    """Key of the record of a run that is set apart.

    >>> quarantine_key("a/b"), quarantined_run(quarantine_key("a/b")), quarantined_run("a/w/1")
    ('/quarantined/a%2Fb', 'a/b', None)
    """
    return f"{_QUARANTINED}{encode_id(run_id)}"


def quarantined_run(key: str) -> str | None:
    """The run of such a key; None for every other key."""
    return decode_id(key.removeprefix(_QUARANTINED)) if key.startswith(_QUARANTINED) else None


def repair_key(run_id: str) -> str:
    """Key of a request to fold a run again; its value is the request's name.

    >>> repair_key("a/b"), run_to_repair(repair_key("a/b")), run_to_repair("a/w/1")
    ('/repair/a%2Fb', 'a/b', None)
    """
    return f"{_REPAIR}{encode_id(run_id)}"


def run_to_repair(key: str) -> str | None:
    """The run of such a key; None for every other key."""
    return decode_id(key.removeprefix(_REPAIR)) if key.startswith(_REPAIR) else None
