"""What changed in a run, on its way to Kafka and Redis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from streamer.aggregate.group_id import GroupId, SummaryKind


@dataclass(frozen=True, slots=True)
class SummaryChange:
    """One summary that changed; `value` None is a tombstone (the run was deleted, the group emptied).

    Attributes:
        run_id: the run, not encoded.
        group: which group of the run it describes.
        value: canonical published bytes, shared by topic and Redis; None: tombstone.
        summary: the same as a dict (what `value` parses to); None: tombstone.
        epoch: grows with every new beginning of the log; a higher one wins.
        state_version: offset of the last event folded into the run; -1: none.
        digest: digest of the summary; "" for a tombstone.
    """

    run_id: str
    group: GroupId
    value: bytes | None
    summary: dict[str, Any] | None
    epoch: int
    state_version: int
    digest: str

    @classmethod
    def tombstone(cls, run_id: str, group: GroupId, epoch: int, state_version: int) -> Self:
        """The summary is gone from this version on."""
        return cls(run_id, group, None, None, epoch, state_version, "")

    @property
    def kind(self) -> SummaryKind:
        """Which topic and which family of Redis keys hold it."""
        return self.group.kind

    @property
    def key(self) -> str:
        """Key in the topic, ids percent-encoded."""
        return self.group.topic_key(self.run_id)


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
