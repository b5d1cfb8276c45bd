"""Which partition of the event topic a run lives in."""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


@lru_cache(maxsize=65_536)
def partition_of(run_id: str, partitions: int) -> int:
    """Partition of a run, as Java's default partitioner would choose for the key `run_id`.

    >>> partition_of("run-1", 8)
    5
    """
    return partition_of_key(run_id.encode("utf-8"), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Partition of any key, likewise."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
