"""Fold the log again and compare with what Redis, and the topics, say.

A difference counts only when nothing can be in flight. Before the log is read, the workers have committed
everything, and their heartbeats say that it is published. A partition that no heartbeat names gets
some seconds. The log has not grown until Redis was read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, cast

import orjson

from streamer.aggregate.changes import SummaryChange
from streamer.client.reader import StateReader
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.ops.differences import (
    Mismatch,
    difference,
    digest_found,
    hash_differences,
    other_bytes,
    scored_differences,
)
from streamer.ops.flow import Flow, live_workers
from streamer.ops.folded_log import FoldedLog, fold_log
from streamer.ops.lag import PartitionLag, read_lags
from streamer.ops.published import SCORED, TOPICS, TopicKey, by_run, latest_of
from streamer.redis.connect import SyncClient, sync_client
from streamer.redis.entry import DELETED, HASHES
from streamer.redis.keys import Keys
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.identity import decode_id
from streamer.score import PriceTable
from streamer.settings import Settings

POLL_SECONDS = 0.1
HEARD_SECONDS = 5.0
"""All workers at work are heard of within this time, even if Redis has just lost their heartbeats."""

REDIS_TIMEOUT_SECONDS = 5.0

VerifyResult = Literal["equal", "differs", "unverifiable"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one run: `summaries` compared, the differences, or why it cannot be verified.

    `in_log` is False for a run that the log does not know; the differences are then all that was found of it.
    `semantics_version` is the one by which the log was folded.
    """

    run_id: str
    outcome: VerifyResult
    summaries: int = 0
    differences: tuple[Mismatch, ...] = ()
    reason: str | None = None
    in_log: bool = True
    semantics_version: int = SEMANTICS_VERSION


@dataclass(frozen=True, slots=True)
class _InTopics:
    """The content of the topics by run: bytes of summaries, digests of scored trials."""

    summaries: Mapping[str, Mapping[TopicKey, bytes]] = field(default_factory=dict)
    scored: Mapping[str, Mapping[TopicKey, str]] = field(default_factory=dict)


class Verification:
    """Verifies runs; use it once.

    Args:
        settings: where the broker and Redis are.
        prices: the price table of the workers (R2).
        wait_seconds: how long to wait for what is in flight, if there are differences.
        topics: whether to compare the summaries and scored trials in the topics too.

    Attributes:
        places: where the topics should hold summaries by the log, if they were compared.
        truncated: true if the log has lost its beginning.
    """

    def __init__(
        self, settings: Settings, *, prices: PriceTable, wait_seconds: float, topics: bool = False
    ) -> None:
        self._settings = settings
        self._names = Names(settings.namespace)
        self._keys = Keys(settings.namespace)
        self._prices = prices
        self._topics = topics
        self.places: set[TopicKey] = set()
        self.truncated = False
        self._count = 1
        self._heard_by = time.monotonic() + HEARD_SECONDS
        self._deadline = time.monotonic() + wait_seconds

    def verify(self, run_id: str | None) -> list[Verdict]:
        """Verdicts, by run id: of one run, or of every run in the log or in Redis if None.

        Raises:
            TopicMissing, TopicUnreadable, KafkaError, TimeoutError: the log cannot be read.
            RedisError, RedisUnavailable: Redis cannot.
        """
        options = self._settings.redis_options()
        with (
            sync_client(self._settings.redis, options, REDIS_TIMEOUT_SECONDS) as client,
            StateReader(self._settings) as reader,
        ):
            while True:
                before = self._flow(reader)
                self._count, self.places = len(before.partitions), set()
                if truncated := _truncated(before.partitions, self._names.trial_events):
                    self.truncated = True
                    return [Verdict(run_id or "*", "unverifiable", reason=truncated)]
                verdicts = self._compare(client, self._folded(run_id), run_id)
                if all(verdict.outcome == "equal" for verdict in verdicts):
                    return verdicts
                in_flight = before.in_flight
                if in_flight is None and self._flow(reader).ends == before.ends:
                    certain = not before.without_owner or time.monotonic() >= self._heard_by
                    if certain or not any(one.outcome == "differs" for one in verdicts):
                        return verdicts
                    self._wait_for_owners(reader)
                    continue
                if time.monotonic() >= self._deadline:
                    return [_undecided(verdict, in_flight or "events keep coming") for verdict in verdicts]
                self._wait_until_idle(reader)

    def _flow(self, reader: StateReader) -> Flow:
        partitions = asyncio.run(read_lags(self._settings))
        return Flow(tuple(partitions), tuple(worker.status for worker in live_workers(reader)))

    def _wait_for_owners(self, reader: StateReader) -> None:
        """Wait until every partition has an owner, or all workers at work must have been heard."""
        while time.monotonic() < self._heard_by and self._flow(reader).without_owner:
            time.sleep(POLL_SECONDS)

    def _wait_until_idle(self, reader: StateReader) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(POLL_SECONDS)
            if self._flow(reader).in_flight is None:
                return

    def _folded(self, run_id: str | None) -> FoldedLog:
        return fold_log(self._settings, prices=self._prices, run_id=run_id, scored=self._topics)

    def _compare(self, client: SyncClient, log: FoldedLog, run_id: str | None) -> list[Verdict]:
        members = cast("list[bytes]", client.zrange(self._keys.runs, 0, -1))
        in_redis = [decode_id(member.decode()) for member in members]
        in_topics = _InTopics()
        if self._topics:
            in_topics = _InTopics(
                by_run(latest_of(self._settings, TOPICS.values(), bytes, run_id=run_id)),
                by_run(latest_of(self._settings, [SCORED], digest_found, run_id=run_id)),
            )
        every = {*log.runs, *log.failed, *in_redis, *in_topics.summaries, *in_topics.scored}
        return [
            self._verdict(client, log, run, in_topics, bool(in_redis))
            for run in (sorted(every) if run_id is None else [run_id])
        ]

    def _verdict(
        self, client: SyncClient, log: FoldedLog, run_id: str, in_topics: _InTopics, redis_has_runs: bool
    ) -> Verdict:
        expected = log.runs.get(run_id, {})
        found = self._stored(client, run_id, expected)
        pairs = ((key, expected.get(key), found.get(key)) for key in sorted({*expected, *found}))
        differences = [d for key, change, value in pairs if (d := difference(key, change, value))]
        for suffix in HASHES:
            stored = cast("dict[bytes, bytes]", client.hgetall(self._keys.of_run(run_id, suffix)))
            differences += hash_differences(suffix, log.hashes.get(run_id, {}).get(suffix, {}), stored)
        if self._topics:
            differences += self._of_topics(run_id, expected, found, in_topics.summaries.get(run_id, {}))
            scored = log.scored.get(run_id, {}), in_topics.scored.get(run_id, {})
            differences += scored_differences(partition_of(run_id, self._count), *scored)
        if reason := log.failed.get(run_id) or _degraded(found):
            self.places |= in_topics.summaries.get(run_id, {}).keys()  # what stands is all there is of it
            reason = f"in quarantine ({reason}). `streamer runs repair` folds it again"
            return Verdict(run_id, "unverifiable", len(expected), tuple(differences), reason)
        if run_id not in log.runs:
            reason = _unknown(run_id, log.others | log.runs.keys())
            return Verdict(run_id, "unverifiable", 0, tuple(differences), reason, in_log=False)
        if expected and not found and not redis_has_runs:
            reason = "Redis holds no runs at all; a running worker writes them anew within seconds"
            return Verdict(run_id, "unverifiable", reason=reason)
        return Verdict(run_id, "differs" if differences else "equal", len(expected), tuple(differences))

    def _of_topics(
        self,
        run_id: str,
        expected: Mapping[str, SummaryChange],
        in_redis: Mapping[str, bytes],
        found: Mapping[TopicKey, bytes],
    ) -> Iterator[Mismatch]:
        """Summaries in the topics against the log, and, where they are right, against the bytes in Redis."""
        number = partition_of(run_id, self._count)
        wanted = {TopicKey(TOPICS[c.kind], number, c.key.encode()): (key, c) for key, c in expected.items()}
        self.places |= wanted.keys()
        for place in sorted({*wanted, *found}):
            key, change = wanted.get(place, ("", None))
            value, stored = found.get(place), in_redis.get(key)
            if wrong := difference(place.text, change, value):
                yield replace(wrong, topic=place.topic, partition=place.partition)
            elif change and value and stored and not difference(key, change, stored):
                yield from other_bytes(place, change.digest, value, stored)

    def _stored(
        self, client: SyncClient, run_id: str, expected: Mapping[str, SummaryChange]
    ) -> dict[str, bytes]:
        """Every summary of the run in Redis, by key suffix."""
        fields = cast("list[bytes]", client.hkeys(self._keys.versions(run_id)))
        suffixes = sorted({*expected, *(name.decode() for name in fields)} - {DELETED, *HASHES})
        pipe = client.pipeline(transaction=False)
        for suffix in suffixes:
            pipe.get(self._keys.of_run(run_id, suffix))
        values = zip(suffixes, pipe.execute(), strict=True)
        return {suffix: value for suffix, value in values if value is not None}


def _degraded(found: Mapping[str, bytes]) -> str | None:
    """Why newer events of a run are not counted, as its summaries say; None if they are."""
    try:
        reason = orjson.loads(found.get("run", b"{}")).get("degraded")
    except (orjson.JSONDecodeError, AttributeError):
        return None  # the comparison says so
    return None if reason is None else str(reason)


def _truncated(partitions: Iterable[PartitionLag], topic: str) -> str | None:
    cut = [f"{p.partition} (from offset {p.beginning:,})" for p in partitions if p.beginning > 0]
    if not cut:
        return None
    return (
        f"the log is truncated: topic {topic!r} has lost the beginning of partitions {', '.join(cut)}. "
        "Keep it whole with retention.ms=-1 and retention.bytes=-1"
    )


def _undecided(verdict: Verdict, reason: str) -> Verdict:
    if verdict.outcome == "differs":
        return Verdict(verdict.run_id, "unverifiable", verdict.summaries, verdict.differences, reason)
    return verdict


def _unknown(run_id: str, known: Iterable[str]) -> str:
    close = get_close_matches(run_id, list(known), n=3)
    hint = f"Did you mean {', '.join(close)}?" if close else "`streamer query runs` lists the runs in Redis"
    return f"the log holds no events of run {run_id!r}. {hint}"
