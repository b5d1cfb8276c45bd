"""A partition of a topic, by a name of ours."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """Names one partition; equal to the tuples by which Faust and aiokafka name it.

    >>> TopicPartition("trial-events", 3) == ("trial-events", 3)
    True
    """

    topic: str
    partition: int
