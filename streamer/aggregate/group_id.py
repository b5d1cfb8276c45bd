"""Which group of a run a summary describes, and the names by which topics and Redis know it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

from streamer.schemas.identity import agent_model_key, agent_model_label, decode_id, encode_id

SummaryKind = Literal["agent_model", "tier", "run"]


@dataclass(frozen=True, slots=True)
class GroupId:
    """An agent:model, a tier, an agent:model within a tier, or with nothing set the run itself.

    Attributes:
        tier: set for tiers, and for an agent:model within one; not encoded.
        agent: set for an agent:model, also within a tier; not encoded.
        model: set where the agent is.

    >>> agent, tier = GroupId(None, "a", "m"), GroupId("T0")
    >>> agent.kind, agent.topic_key("r"), agent.redis_suffix
    ('agent_model', 'r|a:m', 'agent_model:a:m')
    >>> tier.kind, tier.topic_key("r"), tier.redis_suffix
    ('tier', 'r|T0', 'tier:T0')
    >>> RUN.kind, RUN.topic_key("r"), RUN.redis_suffix
    ('run', 'r', 'run')
    """

    tier: str | None = None
    agent: str | None = None
    model: str | None = None

    @property
    def kind(self) -> SummaryKind:
        """Which topic and which family of Redis keys hold the summary."""
        if self.tier is not None:
            return "tier"
        return "run" if self.agent is None else "agent_model"

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
        return ":".join((self.kind, *self._parts()))

    @classmethod
    def of_topic_key(cls, kind: SummaryKind, key: str) -> Self:
        """Inverse of :meth:`topic_key`.

        >>> GroupId.of_topic_key("tier", "r|T1|a%3Ab:m"), GroupId.of_topic_key("run", "r") == RUN
        (GroupId(tier='T1', agent='a:b', model='m'), True)
        """
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
        """Agents and tiers by name, the run last."""
        return self._order() < other._order()

    def _order(self) -> tuple[bool, str, str, str]:
        return (self == RUN, self.tier or "", self.agent or "", self.model or "")


RUN = GroupId()
"""The run itself."""


@lru_cache(maxsize=4096)
def groups_of(agent: str, model: str, tier: str | None, *, baseline: bool) -> tuple[GroupId, ...]:
    """The groups that a trial counts in; baselines stay out of pooled tiers (R4)."""
    if tier is None:
        return (GroupId(None, agent, model),)
    if baseline:
        return (GroupId(None, agent, model), GroupId(tier, agent, model))
    return (GroupId(None, agent, model), GroupId(tier, agent, model), GroupId(tier))
