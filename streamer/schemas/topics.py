"""The topics: what lies in each, under which key, kept how. Data for the AsyncAPI document.

>>> [topic.name for topic in TOPICS if not topic.messages]
['trials-changelog', 'streamer-meta']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streamer.schemas.base import Message
from streamer.schemas.comparison import RunComparison
from streamer.schemas.events import EVENT_TYPES
from streamer.schemas.news import GradeChange, Rejection, Rescored
from streamer.schemas.scored_trial import ScoredTrial
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary

DEFAULT_PARTITIONS = 8
"""Partitions of a topic unless the deployment says otherwise; never changed afterwards."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic without its namespace prefix.

    Attributes:
        name: the topic's name in the default namespace.
        title: a few words for people.
        description: what lies in it.
        key: what the record key is.
        action: what the worker does with it, `receive` or `send`.
        messages: models of its values; none where the format is private to the worker.
        compacted: True: Kafka keeps the latest value of each key; a record without a value is a tombstone.
        retention_ms: milliseconds that records are kept, -1 without a limit; None: the broker's default.
        partitions: how many it is made with unless the deployment says otherwise.
    """

    name: str
    title: str
    description: str
    key: str
    action: Literal["receive", "send"] = "send"
    messages: tuple[type[Message], ...] = ()
    compacted: bool = True
    retention_ms: int | None = None
    partitions: int = DEFAULT_PARTITIONS


TOPICS: tuple[Topic, ...] = (
    Topic(
        "trial-events",
        "Events of harnesses",
        "What harnesses publish, one JSON object a record of at most 1 MiB. Everything is rebuilt from it. "
        "A record with the header `streamer-forwarded` has been sent on to its partition once.",
        "run_id in UTF-8, not encoded",
        "receive",
        EVENT_TYPES,
        compacted=False,
        retention_ms=-1,
    ),
    Topic(
        "trial-rejections",
        "Rejected records",
        "Records of trial-events that were not folded, with their bytes and the way to mend them.",
        "the key of the rejected record, or the percent-encoded run_id where the partition was wrong",
        messages=(Rejection,),
        compacted=False,
    ),
    Topic(
        "scored-trials",
        "Scored trials",
        "The winner of each slot with its numbers.",
        "run|shard|task|attempt|agent|model|tier|subtest, each percent-encoded, empty where null",
        messages=(ScoredTrial,),
    ),
    Topic(
        "grade-changes",
        "News",
        "Grades that moved and trials that were scored again. Which ones appear depends on batching.",
        "run_id, percent-encoded",
        messages=(GradeChange, Rescored),
        compacted=False,
    ),
    Topic(
        "agent-model-summaries",
        "Summaries of agent:models",
        "The running summary of each agent:model of a run.",
        "run|agent:model, ids percent-encoded",
        messages=(AgentModelSummary,),
    ),
    Topic(
        "tier-summaries",
        "Summaries of tiers",
        "The running summary of each tier of a run, pooled and per agent:model within it.",
        "run|tier, or run|tier|agent:model within it, ids percent-encoded",
        messages=(TierSummary,),
    ),
    Topic(
        "run-summaries",
        "Summaries of runs",
        "The running summary of each run.",
        "run_id, percent-encoded",
        messages=(RunSummary,),
    ),
    Topic(
        "run-comparisons",
        "Comparisons of agents",
        "Counts of every two agents of a run and the rank of each, published at most once a second.",
        "run_id, percent-encoded",
        messages=(RunComparison,),
    ),
    Topic(
        "trials-changelog",
        "State pages",
        "State of the workers. Private: its format changes without notice.",
        "run/writer/page, run percent-encoded",
    ),
    Topic(
        "streamer-meta",
        "Epoch",
        "The epoch that summaries are published under. Private: its format changes without notice.",
        "name of the entry",
        partitions=1,
    ),
)
