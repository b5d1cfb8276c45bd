"""Slots: the place one result fills, and the rule that decides which result stands in it (R17).

What a slot has seen is a map from fingerprint to the greatest (revision, finished_at) that this
content came with, and a floor. Joining two such maps is associative, commutative and idempotent:
copies of a slot can be merged in any order, any number of times.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from schemas.canonical import canonical_json, sha256_hex
from schemas.events import Event, TrialResult, TrialRetracted, event_content
from schemas.identity import encode_id
from streamer.score import Scored, model_for_reporting

SlotKey = tuple[str, str, int, str, str, str | None, str | None]
"""(shard, task_id, attempt, agent, model normalised for reporting, tier, subtest)."""

GroupKey = tuple[str, str, int, str | None, str | None]
"""(shard, task_id, attempt, tier, subtest): the trial group of sub-trials (R10)."""

Standing = tuple[int, int, str]
"""(revision, finished_at in microseconds, fingerprint); the greatest wins (R17)."""

NO_TIME = -(2**63)
"""Stands for a null time: lower than every time."""

FINGERPRINT_CHARACTERS = 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime | None) -> int:
    """Microseconds since 1970, :data:`NO_TIME` for null."""
    return NO_TIME if moment is None else (moment - _EPOCH) // _MICROSECOND


def rfc3339(at: int) -> str | None:
    """A time in microseconds as RFC 3339 text in UTC; None for :data:`NO_TIME`.

    >>> rfc3339(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    if at == NO_TIME:
        return None
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def slot_key(event: TrialResult | TrialRetracted) -> SlotKey:
    """The slot that an event concerns; the model is normalised first (R24)."""
    return (
        event.shard,
        event.task_id,
        event.attempt,
        event.agent,
        model_for_reporting(event.model),
        event.tier,
        event.subtest,
    )


def slot_topic_key(run_id: str, key: SlotKey) -> str:
    """Key of a slot in the topic `scored-trials`: its parts percent-encoded, joined by `|`."""
    parts = ("" if part is None else encode_id(str(part)) for part in (run_id, *key))
    return "|".join(parts)


def fingerprint(event: Event) -> str:
    """Digest of the canonical content without the revision (R17), 32 hexadecimal characters."""
    content = event_content(event)
    if "model" in content:
        content["model"] = model_for_reporting(content["model"])
    return sha256_hex(canonical_json(content))[:FINGERPRINT_CHARACTERS]


class Slot:
    """What one slot holds.

    Attributes:
        winner: standing of the result that counts, None while the slot is empty.
        raw: the winner's event as received.
        agent_index: the winner's position in a multi-agent trial, None for a trial of its own.
        losers: fingerprint -> (revision, finished_at) of the other contents seen above the floor.
        floor: results up to this revision are withdrawn, None if nothing was retracted.
        scored: the winner's score, None while the slot is empty.
        page: number of the state page that holds the slot, None while no page of this writer does.
    """

    __slots__ = ("agent_index", "floor", "losers", "page", "raw", "scored", "winner")

    def __init__(self) -> None:
        self.winner: Standing | None = None
        self.raw: bytes = b""
        self.agent_index: int | None = None
        self.losers: dict[str, tuple[int, int]] = {}
        self.floor: int | None = None
        self.scored: Scored | None = None
        self.page: int | None = None

    @property
    def superseded(self) -> int:
        """Results that lost this slot."""
        return len(self.losers)

    @property
    def in_conflict(self) -> bool:
        """True if the fingerprint alone decided (R17)."""
        return self.winner is not None and self.winner[:2] in self.losers.values()

    def offer(self, standing: Standing, raw: bytes, agent_index: int | None) -> bool:
        """Offer a result; True if it changed what the slot knows, be it only the revision."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        if self.winner is None:
            self._take(standing, raw, agent_index)
            return True
        if standing[2] == self.winner[2]:
            if standing <= self.winner:
                return False
            self.winner = standing
            self.raw = raw
            return True
        if standing > self.winner:
            self.losers[self.winner[2]] = self.winner[:2]
            self.losers.pop(standing[2], None)
            self._take(standing, raw, agent_index)
            return True
        return self.lose(standing)

    def lose(self, standing: Standing) -> bool:
        """Note a content that does not win; True if that was news."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        if self.winner is not None and standing[2] == self.winner[2]:
            return False
        held = self.losers.get(standing[2])
        if held is not None and held >= standing[:2]:
            return False
        self.losers[standing[2]] = standing[:2]
        return True

    def retract(self, revision: int) -> bool:
        """Withdraw everything up to `revision`; True if the floor rose."""
        if self.floor is not None and revision <= self.floor:
            return False
        self.floor = revision
        self.losers = {print_: at for print_, at in self.losers.items() if at[0] > revision}
        if self.winner is not None and self.winner[0] <= revision:
            self.winner, self.raw, self.agent_index = None, b"", None
        return True

    def _take(self, standing: Standing, raw: bytes, agent_index: int | None) -> None:
        self.winner, self.raw, self.agent_index = standing, raw, agent_index
