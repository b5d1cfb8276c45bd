"""Names of slots: which place of a run a result fills, and what its content is known by (R17)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from streamer.model_names import model_of_agent
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.schemas.events import Event, TrialRetracted, known_content
from streamer.schemas.identity import UNKNOWN, encode_id
from streamer.schemas.plain import AnyTrial, PlainTrial, canonical_content

NO_TIME = -(2**63)
"""Stands for a null time: lower than every time."""

FINGERPRINT_CHARACTERS = 32

_encoded = lru_cache(maxsize=4096)(encode_id)
_reported = lru_cache(maxsize=4096)(model_of_agent)
"""For ids of which a run has few."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 24 * 60 * 60


class TrialGroupKey(NamedTuple):
    """What the sub-trials of one multi-agent trial share (R10)."""

    shard: str
    task_id: str
    attempt: int
    tier: str | None
    subtest: str | None


class SlotKey(NamedTuple):
    """The place that one result fills (R17).

    `model` is spelled as :func:`~streamer.model_names.model_of_agent` says.
    """

    shard: str
    task_id: str
    attempt: int
    agent: str
    model: str
    tier: str | None
    subtest: str | None

    @property
    def trial_group(self) -> TrialGroupKey:
        """The multi-agent trial that a sub-trial in this slot belongs to."""
        return TrialGroupKey(self.shard, self.task_id, self.attempt, self.tier, self.subtest)


def microseconds(moment: datetime | None) -> int:
    """Microseconds since 1970, :data:`NO_TIME` for null."""
    if moment is None:
        return NO_TIME
    since = moment - _EPOCH
    return (since.days * _DAY_SECONDS + since.seconds) * 1_000_000 + since.microseconds


@lru_cache(maxsize=1024)
def rfc3339(at: int) -> str | None:
    """A time in microseconds as RFC 3339 text in UTC; None for :data:`NO_TIME`.

    >>> rfc3339(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    if at == NO_TIME:
        return None
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def slot_key(event: AnyTrial | TrialRetracted) -> SlotKey:
    """The slot that an event concerns; the model is normalised first (R24)."""
    return SlotKey(
        event.shard,
        intern(event.task_id),
        event.attempt,
        intern(event.agent),
        _reported(event.agent, event.model),
        event.tier,
        event.subtest,
    )


def slot_topic_key(run_key: str, key: SlotKey) -> str:
    """Key of a slot in the topic `scored-trials`: its parts percent-encoded, joined by `|`.

    Args:
        run_key: the run's id, percent-encoded.

    >>> slot_topic_key("r", SlotKey("", "a|b", 1, "c", "d/e", "T0", None))
    'r||a%7Cb|1|c|d%2Fe|T0|'
    """
    shard, task_id, attempt, agent, model, tier, subtest = key
    place = _encoded_place(agent, model, tier, subtest)
    return f"{run_key}|{shard and _encoded(shard)}|{_encoded(task_id)}|{attempt}|{place}"


@lru_cache(maxsize=4096)
def _encoded_place(agent: str, model: str, tier: str | None, subtest: str | None) -> str:
    return "|".join(map(encode_id, (agent, model, tier or "", subtest or "")))


def fingerprint(event: Event | PlainTrial) -> str:
    """Digest of the canonical content without the revision (R17), 32 hexadecimal characters."""
    if isinstance(event, PlainTrial):
        content = canonical_content(event, _reported(event.agent, event.model))
    else:
        known = known_content(event)
        if "model" in known:
            known["model"] = _reported(known.get("agent", UNKNOWN), known["model"])
        content = canonical_json(known)
    return sha256_hex(content)[:FINGERPRINT_CHARACTERS]
