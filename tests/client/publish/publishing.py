"""What tests of the publishers share: a broker that can be hurt, and what arrived there."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from streamer.client import TrialPublisher
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of
from streamer.storage.log import read_topic
from streamer.worker.process import ensure_topics

PARTITIONS = 4
DEADLINE_SECONDS = 20

LARGE = {f"bench.{number}": {"agent/nop": 0.5, "oracle/nop": 0.25} for number in range(1_000)}
"""Benchmarks of a trial that is checked in slices."""


def settings_of(bootstrap: str, namespace: str = "", *, embedded: bool = True) -> Settings:
    """Settings of a deployment with four partitions."""
    return Settings(bootstrap=bootstrap, namespace=namespace, embedded=embedded, partitions=PARTITIONS)


def make_topics(settings: Settings) -> Settings:
    """Create the topics as a worker does."""
    asyncio.run(ensure_topics(settings))
    return settings


def arrived(settings: Settings) -> Counter[str]:
    """How often the event of each task is in the event topic; each must lie in its run's partition."""
    result: Counter[str] = Counter()
    for record in read_topic(settings, Names(settings.namespace).trial_events):
        event = orjson.loads(record.value)
        assert record.key == event["run_id"].encode()
        assert record.partition == partition_of(event["run_id"], PARTITIONS)
        result[event["task_id"]] += 1
    return result


def tasks(count: int) -> set[str]:
    """Names of the tasks that `Harness` publishes."""
    return {f"task-{number}" for number in range(count)}


class Harness:
    """Publishes one trial after the other, and notes how long each call held it up."""

    def __init__(self, publisher: TrialPublisher) -> None:
        self._publisher = publisher
        self.published = 0
        self.longest_call_seconds = 0.0

    def publish(self, count: int = 1) -> None:
        """The next `count` trials, spread over five runs, about a thousand a second."""
        for number in range(self.published, self.published + count):
            before = time.perf_counter()
            self._publisher.trial(run_id=f"run {number % 5}", task_id=f"task-{number}", resolved=True)
            self.longest_call_seconds = max(self.longest_call_seconds, time.perf_counter() - before)
            time.sleep(0.001)  # the harness at work
        self.published += count

    def publish_until(self, condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
        """Go on publishing until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            self.publish()


@contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """Nothing can be made in the directory meanwhile, not even by root: a file stands in its place."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text("no directory")
    yield
    directory.unlink()


def spilled_lines(directory: Path) -> list[dict[str, Any]]:
    """Events in the spill files of a directory, whole lines only."""
    lines = b"".join(path.read_bytes() for path in directory.glob("*.spill.ndjson")).split(b"\n")[:-1]
    return [orjson.loads(line) for line in lines if line]


def events(settings: Settings) -> list[dict[str, Any]]:
    """All events in the event topic."""
    topic = Names(settings.namespace).trial_events
    return [orjson.loads(record.value) for record in read_topic(settings, topic)]
