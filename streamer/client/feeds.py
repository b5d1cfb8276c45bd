"""Readers that follow a public topic.

Delivery is at least once, and around a failure several writers may publish. A guard drops values older than
the last one of their key, so a reader never goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from msgspec import Struct

from streamer.schemas.base import encode_id, run_of_key
from streamer.schemas.wire import Guard, Version, version_of
from streamer.settings import Settings
from streamer.storage.kafka import Names, partitions_of
from streamer.storage.log import LogRecord, PartitionReader, following_wait_ms, read_topic

FEEDS = {
    "agent-model": "agent-model-summaries",
    "tier": "tier-summaries",
    "run": "run-summaries",
    "comparison": "run-comparisons",
    "grades": "grade-changes",
    "rejections": "trial-rejections",
    "trials": "scored-trials",
}

Feed = Literal["agent-model", "tier", "run", "comparison", "grades", "rejections", "trials"]


@dataclass(frozen=True, slots=True)
class Update:
    """One published message.

    >>> update = Update("nightly", b"...", {"run_id": "nightly", "epoch": 2, "state_version": 7}, 0)
    >>> update.run_id, update.version
    ('nightly', (2, 7))

    Attributes:
        key: record key as text; "" if there is none.
        value: the published bytes; None: the key was deleted.
        message: the parsed value; None: deleted, or no JSON object.
        timestamp_ms: publication time, Unix milliseconds.
    """

    key: str
    value: bytes | None
    message: dict[str, Any] | None
    timestamp_ms: int

    @property
    def run_id(self) -> str:
        """The run of the message, or else of the key."""
        named = self.message.get("run_id") if self.message else None
        return str(named) if named else run_of_key(self.key)

    @property
    def version(self) -> Version | None:
        """The pair (epoch, state_version); None if the message has none."""
        if self.message is None or "state_version" not in self.message:
            return None
        return version_of(self.message)


async def subscribe(
    feed: Feed,
    settings: Settings | None = None,
    *,
    run_id: str | None = None,
    from_beginning: bool = False,
    on_ready: Callable[[], None] = lambda: None,
    on_caught_up: Callable[[], None] = lambda: None,
    follow: bool = True,
) -> AsyncIterator[Update]:
    """The messages of a feed as they are published; it needs the broker, not Redis.

    Break out of it under `contextlib.aclosing`, so that it disconnects at once.

    Args:
        feed: a key of `FEEDS`.
        settings: the broker's address; None: as every command finds it.
        run_id: only messages about this run; None: all.
        from_beginning: start with everything in the topic, not only with later messages.
        on_ready: called once, when all later messages will be seen.
        on_caught_up: called once, after the last message that the topic held at the start.
        follow: continue without end; False stops there.

    Raises:
        TopicMissing: no worker has created the topics.
        aiokafka.errors.KafkaError: the broker is unreachable, or refuses.
    """
    settings = settings or Settings()
    topic = Names(settings.namespace).topic(FEEDS[feed])
    versioned, guard = feed not in ("grades", "rejections"), Guard()
    places = [(topic, number) for number in await partitions_of(settings, topic)]
    async with PartitionReader(settings, places, wait_ms=following_wait_ms(settings)) as reader:
        ends = await reader.ends()
        on_ready()
        for start, stop in (({} if from_beginning else ends, ends), (ends, None)):
            async for batch in reader.read(start, stop, patience_seconds=None):
                for record in batch:
                    update = _update(record)
                    is_newer = not versioned or guard.is_news(update.key, update.version)
                    if is_newer and (run_id is None or update.run_id == run_id):
                        yield update
            if stop is ends:
                on_caught_up()
                if not follow:
                    return


def _update(record: Any) -> Update:
    message = None
    if record.value is not None:
        try:
            message = orjson.loads(record.value)
        except orjson.JSONDecodeError:
            message = None
    return Update(
        key=(record.key or b"").decode(errors="replace"),
        value=record.value,
        message=message if isinstance(message, dict) else None,
        timestamp_ms=record.timestamp,
    )


# -----------------------------------------------------------------------------
# The only reader of scored trials: records of their topic as changes of one run.


class TrialChange(Struct, frozen=True, gc=False):
    """The change of a slot by one record; `key` is the slot's key on the topic.

    `value` is the scored trial as published, `trial` its parsed form, `version` (epoch, state_version).
    All three are None for an emptied slot.
    """

    key: bytes
    offset: int
    value: bytes | None
    trial: Any
    version: Version | None


class ScoredTrialReader:
    """Parses the records of one run, and drops records of late writers.

    `parse` converts a scored trial for the caller, and `version` returns its (epoch, state_version).

    >>> from types import SimpleNamespace as Record
    >>> values = (b'{"epoch":1,"state_version":%d}' % version for version in (5, 4))
    >>> records = [Record(key=b"r|slot", offset=at, value=value) for at, value in enumerate(values)]
    >>> reader = ScoredTrialReader("r")
    >>> [reader.change(record) is not None for record in records]
    [True, False]
    >>> reader.change(Record(key=b"r|slot", offset=2, value=None))
    TrialChange(key=b'r|slot', offset=2, value=None, trial=None, version=None)
    >>> reader.change(Record(key=b"other|slot", offset=3, value=None))
    """

    def __init__(
        self,
        run_id: str,
        parse: Callable[[bytes], Any] = orjson.loads,
        version: Callable[[Any], Version] = version_of,
    ) -> None:
        self._prefix = f"{encode_id(run_id)}|".encode()
        self._guard = Guard()
        self._parse, self._version = parse, version

    def change(self, record: LogRecord) -> TrialChange | None:
        if record.key is None or not record.key.startswith(self._prefix):
            return None
        trial = None if record.value is None else self._parse(record.value)
        version = None if trial is None else self._version(trial)
        change = TrialChange(record.key, record.offset, record.value, trial, version)
        return change if self._guard.is_news(change.key, change.version) else None


# -----------------------------------------------------------------------------
# Single trials, which only the log knows.


class NotInLog(Exception):
    def __init__(self, run_id: str, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} holds nothing for run {run_id!r}. `streamer query runs` lists the runs; if "
            "the run is listed, its part of the log was deleted"
        )


def scored_trials(settings: Settings, run_id: str) -> list[bytes]:
    """The scored trial of every filled slot of a run, as published, ordered by key.

    Raises:
        NotInLog: the log has no such trial.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.storage.log`.
    """
    if not (trials := scored_trials_of(settings, [run_id])[run_id]):
        raise NotInLog(run_id, Names(settings.namespace).scored_trials)
    return trials


def scored_trials_of(settings: Settings, run_ids: Collection[str]) -> dict[str, list[bytes]]:
    """The scored trials of several runs, by run id, in one pass; a run may have none."""
    topic = Names(settings.namespace).scored_trials
    readers = {run_id: ScoredTrialReader(run_id) for run_id in run_ids}
    latest: dict[str, dict[bytes, bytes]] = {run_id: {} for run_id in run_ids}
    only = next(iter(run_ids)) if len(run_ids) == 1 else None
    for record in read_topic(settings, topic, run_id=only):
        run_id = run_of_key((record.key or b"").decode(errors="replace"))
        if run_id not in readers or (change := readers[run_id].change(record)) is None:
            continue
        if change.value is None:
            latest[run_id].pop(change.key, None)
        else:
            latest[run_id][change.key] = change.value
    return {run_id: [trials[key] for key in sorted(trials)] for run_id, trials in latest.items()}


async def until_one_ends(*work: Coroutine[Any, Any, Any]) -> None:
    """Run several coroutines until one ends, then cancel the others; raises its exception."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
