"""What a cut of a run's state hands to the sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

SummaryKind = Literal["agent_model", "tier", "run"]


@dataclass(frozen=True, slots=True)
class SummaryChange:
    """One summary that changed; `value` None is a tombstone (the run was deleted, the group emptied).

    Attributes:
        kind: which topic and which family of Redis keys.
        run_id: the run, not encoded.
        tier: set for tier summaries, not encoded.
        agent: set for agent:model summaries and for those within a tier, not encoded.
        model: likewise.
        key: the topic key (ids percent-encoded).
        value: canonical published bytes, shared by topic and Redis; None: tombstone.
        summary: the same as a dict (what `value` parses to); None: tombstone.
        epoch: see DESIGN.md, State.
        state_version: offset of the last event folded into the run; -1: none.
        digest: digest of the summary; "" for a tombstone.
    """

    kind: SummaryKind
    run_id: str
    tier: str | None
    agent: str | None
    model: str | None
    key: str
    value: bytes | None
    summary: dict[str, Any] | None
    epoch: int
    state_version: int
    digest: str


class ScoredChange(NamedTuple):
    """One slot's scored trial, for the compacted topic `scored-trials`; None: the slot emptied."""

    run_id: str
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A grade change or a rescoring, for the topic `grade-changes`."""

    run_id: str
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class PageWrite:
    """A state page to write to the table `trials`; None: tombstone."""

    key: str
    value: bytes | None


@dataclass(slots=True)
class Cut:
    """All that changed in one run, cut from one consistent state."""

    run_id: str
    summaries: list[SummaryChange] = field(default_factory=list)
    scored: list[ScoredChange] = field(default_factory=list)
    news: list[NewsItem] = field(default_factory=list)
