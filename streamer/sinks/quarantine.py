"""What the changelog of state pages says of a run that is set apart, under the key `/quarantined/RUN`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from schemas.identity import decode_id, encode_id

PREFIX = "/quarantined/"
"""No id of a run is empty, so no page's key begins so."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a run is set apart, and what is to be done about it.

    Attributes:
        reason: what went wrong; None: nothing did, a repair was asked for all the same.
        at: offset of the last event that the run had seen.
        repair: name of the request to fold the run again; None: nobody asked.
        deleted_to: greatest revision of a deletion that came since; None: none did.

    >>> asked = Quarantine("OverflowError: too large", at=7).asked("8f2a")
    >>> Quarantine.read(asked.value()) == asked, asked.repair
    (True, '8f2a')
    """

    reason: str | None
    at: int = -1
    repair: str | None = None
    deleted_to: int | None = None

    @classmethod
    def read(cls, value: bytes) -> Quarantine:
        """From the record's value."""
        told: dict[str, Any] = orjson.loads(value)
        return cls(told["reason"], told["at"], told["repair"], told["deleted_to"])

    def value(self) -> bytes:
        """The record's value."""
        told = {"reason": self.reason, "at": self.at, "repair": self.repair, "deleted_to": self.deleted_to}
        return orjson.dumps(told)

    def asked(self, request: str) -> Quarantine:
        """The same with a request to fold the run again."""
        return replace(self, repair=request)

    def deleted(self, revision: int) -> Quarantine:
        """The same after a deletion: the run is folded again without what that took."""
        known = revision if self.deleted_to is None else max(revision, self.deleted_to)
        return replace(self, deleted_to=known)

    @property
    def waits_for_repair(self) -> bool:
        """True if the run is to be folded again."""
        return self.repair is not None or self.deleted_to is not None


def quarantine_key(run_id: str) -> str:
    """Key of a run's record.

    >>> quarantine_key("a/b")
    '/quarantined/a%2Fb'
    """
    return f"{PREFIX}{encode_id(run_id)}"


def quarantined_run(key: str) -> str | None:
    """The run that such a key names; None for every other key.

    >>> quarantined_run(quarantine_key("a/b")), quarantined_run("a/w/1")
    ('a/b', None)
    """
    return decode_id(key.removeprefix(PREFIX)) if key.startswith(PREFIX) else None
