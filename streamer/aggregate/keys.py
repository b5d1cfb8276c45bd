"""Names: of the place that a result fills, of what its content is known by (R17), and of a run's groups."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Literal, NamedTuple, Self

from streamer.model_names import model_of_agent
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.schemas.content import known_content
from streamer.schemas.events import AnyEvent, Event, TrialRetracted
from streamer.schemas.identity import UNKNOWN, agent_model_key, agent_model_label, decode_id, encode_id
from streamer.schemas.limits import EARLIEST_MICROSECONDS, LATEST_MICROSECONDS
from streamer.schemas.plain import AnyStart, AnyTrial, PlainEvent, PlainTrial, canonical_content

NO_TIME = -(2**63)
"""Stands for a null time: lower than every time."""

FINGERPRINT_CHARACTERS = 32

_encoded = lru_cache(maxsize=4096)(encode_id)
_reported = lru_cache(maxsize=4096)(model_of_agent)
"""For ids of which a run has few."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 24 * 60 * 60

_EARLIEST_TIME, _LATEST_TIME = EARLIEST_MICROSECONDS * 1000, LATEST_MICROSECONDS * 1000
"""Revisions between 2000 and 2200 in ns are taken for times of writing."""


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


def slot_key(event: AnyTrial | AnyStart | TrialRetracted) -> SlotKey:
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
    return f"{run_key}|{slot_in_run(key)}"


def slot_in_run(key: SlotKey) -> str:
    """Key of a slot among the others of its run: :func:`slot_topic_key` without the run.

    >>> slot_in_run(SlotKey("", "a|b", 1, "c", "d/e", "T0", None))
    '|a%7Cb|1|c|d%2Fe|T0|'
    """
    shard, task_id, attempt, agent, model, tier, subtest = key
    place = _encoded_place(agent, model, tier, subtest)
    return f"{shard and _encoded(shard)}|{_encoded(task_id)}|{attempt}|{place}"


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


def event_time(event: AnyEvent | PlainEvent, timestamp_ms: int) -> int:
    """Event time in microseconds: finished, started, the revision if it is a time, the record's timestamp."""
    moment = getattr(event, "finished_at", None) or getattr(event, "started_at", None)
    if moment is not None:
        return microseconds(moment)
    if _EARLIEST_TIME <= event.revision < _LATEST_TIME:
        return event.revision // 1000
    return NO_TIME if timestamp_ms < 0 else timestamp_ms * 1000


SummaryKind = Literal["agent_model", "tier", "run", "comparison"]


@dataclass(frozen=True, slots=True)
class GroupId:
    """An agent:model, a tier, an agent:model within a tier, or with nothing set the run itself.

    The comparison of a run's agents has an id of the same kind, since it travels as summaries do.

    Attributes:
        tier: set for tiers, and for an agent:model within one; not encoded.
        agent: set for an agent:model, also within a tier; not encoded.
        model: set where the agent is.
        compared: the comparison of the run's agents; nothing else is set then.

    >>> agent, tier = GroupId(None, "a", "m"), GroupId("T0")
    >>> agent.kind, agent.topic_key("r"), agent.redis_suffix
    ('agent_model', 'r|a:m', 'agent_model:a:m')
    >>> tier.kind, tier.topic_key("r"), tier.redis_suffix
    ('tier', 'r|T0', 'tier:T0')
    >>> RUN.kind, RUN.topic_key("r"), RUN.redis_suffix
    ('run', 'r', 'run')
    >>> COMPARISON.kind, COMPARISON.topic_key("r"), COMPARISON.redis_suffix
    ('comparison', 'r', 'comparisons')
    """

    tier: str | None = None
    agent: str | None = None
    model: str | None = None
    compared: bool = False

    @property
    def kind(self) -> SummaryKind:
        """Which topic and which family of Redis keys hold the summary."""
        if self.compared:
            return "comparison"
        if self.tier is not None:
            return "tier"
        return "run" if self.agent is None else "agent_model"

    @property
    def type(self) -> str:
        """The `type` of the published value."""
        return "run_comparison" if self.compared else f"{self.kind}_summary"

    @property
    def agent_model(self) -> str | None:
        """The label of the agent:model (R7); None where the group is not of one."""
        return None if self.agent is None else agent_model_label(self.agent, self.model or "")

    def topic_key(self, run_id: str) -> str:
        """Key of the summary in its topic, ids percent-encoded."""
        return "|".join((encode_id(run_id), *self._parts()))

    @property
    def redis_suffix(self) -> str:
        """What follows the run in the summary's Redis key, ids percent-encoded."""
        if self.compared:
            return "comparisons"
        return ":".join((self.kind, *self._parts()))

    @classmethod
    def of_topic_key(cls, kind: SummaryKind, key: str) -> Self:
        """Inverse of :meth:`topic_key`.

        >>> GroupId.of_topic_key("tier", "r|T1|a%3Ab:m"), GroupId.of_topic_key("run", "r") == RUN
        (GroupId(tier='T1', agent='a:b', model='m', compared=False), True)
        """
        if kind == "comparison":
            return cls(compared=True)
        parts = key.split("|")[1:]
        tier = decode_id(parts.pop(0)) if kind == "tier" else None
        if not parts:
            return cls(tier)
        agent, model = parts[0].split(":", 1)
        return cls(tier, decode_id(agent), decode_id(model))

    def _parts(self) -> tuple[str, ...]:
        tier = () if self.tier is None else (encode_id(self.tier),)
        return tier if self.agent is None else (*tier, agent_model_key(self.agent, self.model or ""))

    def __lt__(self, other: GroupId) -> bool:
        """Agents and tiers by name, then the comparison, the run last."""
        return self._order() < other._order()

    def _order(self) -> tuple[bool, bool, str, str, str]:
        return (self == RUN, self.compared, self.tier or "", self.agent or "", self.model or "")


RUN = GroupId()
"""The run itself."""

COMPARISON = GroupId(compared=True)
"""The comparison of the run's agents."""


@lru_cache(maxsize=4096)
def groups_of(agent: str, model: str, tier: str | None, *, baseline: bool) -> tuple[GroupId, ...]:
    """The groups that a trial counts in; baselines stay out of pooled tiers (R4)."""
    if tier is None:
        return (GroupId(None, agent, model),)
    if baseline:
        return (GroupId(None, agent, model), GroupId(tier, agent, model))
    return (GroupId(None, agent, model), GroupId(tier, agent, model), GroupId(tier))
