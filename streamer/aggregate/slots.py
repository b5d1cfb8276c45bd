"""Slots: the place one result fills, and the rule that decides which result stands in it (R17).

What a slot has seen is a map from fingerprint to the greatest (revision, finished_at) that this
content came with, and a floor. Joining two such maps is associative, commutative and idempotent:
copies of a slot can be merged in any order, any number of times.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from schemas.canonical import canonical_json, sha256_hex
from schemas.decode import decode
from schemas.events import Event, TrialResult, TrialRetracted, known_content
from schemas.identity import encode_id
from streamer.score import Scored, model_for_reporting

SlotKey = tuple[str, str, int, str, str, str | None, str | None]
"""(shard, task_id, attempt, agent, model normalised for reporting, tier, subtest)."""

GroupKey = tuple[str, str, int, str | None, str | None]
"""(shard, task_id, attempt, tier, subtest): the trial group of sub-trials (R10)."""

Standing = tuple[int, int, str]
"""(revision, finished_at in microseconds, fingerprint); the greatest wins (R17)."""

Place = tuple[int, int]
"""(revision, finished_at in microseconds) that a losing content came with."""

NO_LOSERS: dict[str, Place] = {}
"""Shared by all slots without losers, so never changed."""

NO_TIME = -(2**63)
"""Stands for a null time: lower than every time."""

FINGERPRINT_CHARACTERS = 32
_encoded = lru_cache(maxsize=4096)(encode_id)
_reported = lru_cache(maxsize=4096)(model_for_reporting)
"""For ids of which a run has few."""

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
        _reported(event.model),
        event.tier,
        event.subtest,
    )


def slot_topic_key(run_key: str, key: SlotKey) -> str:
    """Key of a slot in the topic `scored-trials`: its parts percent-encoded, joined by `|`.

    Args:
        run_key: the run's id, percent-encoded.

    >>> slot_topic_key("r", ("", "a|b", 1, "c", "d/e", "T0", None))
    'r||a%7Cb|1|c|d%2Fe|T0|'
    """
    shard, task_id, attempt, agent, model, tier, subtest = key
    who = f"{_encoded(agent)}|{_encoded(model)}"
    where = f"{_encoded(tier or '')}|{_encoded(subtest or '')}"
    return f"{run_key}|{_encoded(shard)}|{encode_id(task_id)}|{attempt}|{who}|{where}"


def fingerprint(event: Event) -> str:
    """Digest of the canonical content without the revision (R17), 32 hexadecimal characters."""
    content = known_content(event)
    if "model" in content:
        content["model"] = _reported(content["model"])
    return sha256_hex(canonical_json(content))[:FINGERPRINT_CHARACTERS]


def event_of(raw: bytes) -> TrialResult:
    """The event that a slot keeps as received."""
    event = decode(raw)
    if not isinstance(event, TrialResult):  # pragma: no cover - raw was decoded before it was stored
        raise TypeError(f"a slot holds something that is not a trial_result: {event}")
    return event


class Slot:
    """What one slot holds.

    Attributes:
        revision: the winner's, None while the slot is empty.
        raw: the winner's event as received.
        agent_index: the winner's position in a multi-agent trial, None for a trial of its own.
        losers: fingerprint -> (revision, finished_at) of the other contents seen above the floor.
        floor: results up to this revision are withdrawn, None if nothing was retracted.
        scored: score of a sub-trial (R10), which depends on the others; None for a trial of its own,
            whose score follows from `raw`.
        page: number of the state page that holds the slot, None while no page of this writer does.
    """

    __slots__ = ("_rest", "agent_index", "floor", "losers", "page", "raw", "revision", "scored")

    def __init__(self) -> None:
        self.revision: int | None = None
        self.raw: bytes = b""
        self.agent_index: int | None = None
        self.losers = NO_LOSERS
        self.floor: int | None = None
        self.scored: Scored | None = None
        self.page: int | None = None
        self._rest: tuple[int, str] | None = None

    @property
    def winner(self) -> Standing | None:
        """Standing of the result that counts, None while the slot is empty."""
        return None if self.revision is None else (self.revision, *self._finished_at_and_fingerprint())

    @property
    def fingerprint(self) -> str:
        """Of the winner's content."""
        return self._finished_at_and_fingerprint()[1]

    def _finished_at_and_fingerprint(self) -> tuple[int, str]:
        """The winner's, from its event when they are first asked for: most slots never see a second one."""
        if self._rest is None:
            event = event_of(self.raw)
            self._rest = microseconds(event.finished_at), fingerprint(event)
        return self._rest

    @property
    def superseded(self) -> int:
        """Results that lost this slot."""
        return len(self.losers)

    @property
    def in_conflict(self) -> bool:
        """True if the fingerprint alone decided (R17)."""
        winner = self.winner if self.losers else None
        return winner is not None and winner[:2] in self.losers.values()

    def fill(self, revision: int, raw: bytes, agent_index: int | None) -> None:
        """Let the first result of all stand here."""
        self.revision, self.raw, self.agent_index = revision, raw, agent_index

    def offer(self, standing: Standing, raw: bytes, agent_index: int | None) -> bool:
        """Offer a result; True if it changed what the slot knows, be it only the revision."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        winner = self.winner
        if winner is not None:
            if standing[2] == winner[2] and standing <= winner:
                return False
            if standing < winner:
                return self.lose(standing)
            if standing[2] != winner[2]:
                self._note(winner)
        if self.losers is not NO_LOSERS:
            self.losers.pop(standing[2], None)
        self.fill(standing[0], raw, agent_index)
        self._rest = standing[1:]
        return True

    def lose(self, standing: Standing) -> bool:
        """Note a content that does not win; True if that was news."""
        if self.floor is not None and standing[0] <= self.floor:
            return False
        if self.revision is not None and standing[2] == self.fingerprint:
            return False
        held = self.losers.get(standing[2])
        if held is not None and held >= standing[:2]:
            return False
        self._note(standing)
        return True

    def retract(self, revision: int) -> bool:
        """Withdraw everything up to `revision`; True if the floor rose."""
        if self.floor is not None and revision <= self.floor:
            return False
        self.floor = revision
        self.losers = {print_: at for print_, at in self.losers.items() if at[0] > revision} or NO_LOSERS
        if self.revision is not None and self.revision <= revision:
            self.revision, self.raw, self.agent_index, self._rest = None, b"", None, None
        return True

    def _note(self, loser: Standing) -> None:
        if self.losers is NO_LOSERS:
            self.losers = {}
        self.losers[loser[2]] = loser[:2]
