"""The differences between the log, folded again, and Redis or a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from streamer.aggregate.changes import ScoredChange, SummaryChange
from streamer.ops.published import SCORED, TopicKey
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import NOT_DIGESTED, canonical_json, digest_of, sha256_hex

SHOWN_FIELDS = 10
"""Trials in flight of a run that are named, if more differ."""

SHOWN_SCORED = 10
"""Scored trials of a run that are named, if more differ."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One key that does not hold what the log says.

    Attributes:
        key: of the topic; in Redis the suffix within the run, as `agent_model:A:M`. Ids percent-encoded.
        log: digest by the log, None: there is no such summary.
        found: digest recomputed from the value that was found, None: there is none.
        fields: names of the fields that differ; `digest` if the value contradicts its own digest. Slots, if
            the trials in flight differ.
        topic: the topic in which it was found, without the namespace; None: in Redis.
        partition: its partition.
        reason: why it differs, where the value tells: another version of the semantics; None: not known.
    """

    key: str
    log: str | None
    found: str | None
    fields: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    reason: str | None = None


def difference(key: str, change: SummaryChange | None, value: bytes | None) -> Mismatch | None:
    """The difference between a stored summary and the log; None if they agree."""
    log = None if change is None else change.digest
    if value is None:
        return Mismatch(key, log, None)
    try:
        stored: dict[str, Any] = orjson.loads(value)
        found = digest_of(stored)
    except (orjson.JSONDecodeError, AttributeError):
        return Mismatch(key, log, "unreadable")
    if found == log and stored.get("digest") == found:
        return None
    own = {"digest"} if stored.get("digest") != found else set()
    if change is None:
        return Mismatch(key, None, found, tuple(sorted(own)))
    told: dict[str, Any] = orjson.loads(change.value or b"{}")
    names = (told.keys() | stored.keys()) - NOT_DIGESTED
    differing = {name for name in names if told.get(name, _ABSENT) != stored.get(name, _ABSENT)}
    return Mismatch(key, log, found, tuple(sorted(differing | own)), reason=_other_version(stored))


def _other_version(stored: Mapping[str, Any]) -> str | None:
    """The message about a summary that another semantics version published; None for any other.

    >>> _other_version({"semantics_version": SEMANTICS_VERSION}) is None
    True
    """
    version = stored.get("semantics_version")
    if version == SEMANTICS_VERSION:
        return None
    return (
        f"published by semantics_version {version}, compared by {SEMANTICS_VERSION}; "
        "the workers publish it again once they are upgraded"
    )


def hash_differences(suffix: str, log: Mapping[str, str], found: Mapping[bytes, bytes]) -> list[Mismatch]:
    """A hash of a run in Redis against the log: one difference, or [] if they agree.

    Its `fields` are the first fields of the hash that differ.
    """
    stored = {_readable(key): _readable(value) for key, value in found.items()}
    if log == stored:
        return []
    fields = [key for key in sorted({*log, *stored}) if log.get(key) != stored.get(key)]
    return [Mismatch(suffix, _digest(log), _digest(stored), tuple(fields[:SHOWN_FIELDS]))]


def _digest(fields: Mapping[str, str]) -> str | None:
    return sha256_hex(canonical_json(fields)) if fields else None


def _readable(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def other_bytes(place: TopicKey, log: str, in_topic: bytes, in_redis: bytes) -> list[Mismatch]:
    """Topic and Redis hold the same summary: [] if in the same bytes too, else one difference."""
    if in_topic == in_redis:
        return []
    one, other = orjson.loads(in_topic), orjson.loads(in_redis)
    names = (name for name in one.keys() | other.keys() if one.get(name, _ABSENT) != other.get(name, _ABSENT))
    return [Mismatch(place.text, log, log, tuple(sorted(names)), place.topic, place.partition)]


def scored_digests(changes: Iterable[ScoredChange]) -> dict[bytes, str]:
    """Key to digest of the scored trials by the log."""
    return {c.key.encode(): str(orjson.loads(c.value)["digest"]) for c in changes if c.value is not None}


def digest_found(value: bytes) -> str:
    """Digest of a scored trial that was found, recomputed; `unreadable` if that cannot be done."""
    try:
        return digest_of(orjson.loads(value))
    except (orjson.JSONDecodeError, AttributeError):
        return "unreadable"


def scored_differences(
    partition: int, log: Mapping[bytes, str], found: Mapping[TopicKey, str]
) -> list[Mismatch]:
    """Scored trials of a run that are missing, wrong, too many or in a wrong partition; the first ones.

    Args:
        partition: of the run.
        log: key to digest by the log.
        found: place to digest in the topic.
    """
    wanted = {TopicKey(SCORED, partition, key): digest for key, digest in log.items()}
    wrong = sorted(place for place in {*wanted, *found} if wanted.get(place) != found.get(place))
    named = [
        Mismatch(place.text, wanted.get(place), found.get(place), (), SCORED, place.partition)
        for place in wrong[:SHOWN_SCORED]
    ]
    if more := len(wrong) - len(named):
        named.append(Mismatch(f"and {more:,} more", None, None, (), SCORED, partition))
    return named
