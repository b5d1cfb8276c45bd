"""Fold the log again: compare it with Redis and the topics, or rebuild all state from it.

The configuration of the workers' group is here, too: the current one, and the switch to another.

A difference counts only when nothing can be in flight. Before the log is read, the workers have committed
everything, and their heartbeats say that it is published. A partition without a heartbeat gets a few seconds.
The log must not grow before Redis has been read.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast

import orjson

from streamer.client.folded import RunLog
from streamer.client.readers import StateReader
from streamer.folding.fold import BATCH, Pipeline, fold_records
from streamer.folding.prices import PriceTable
from streamer.folding.run import Run
from streamer.folding.slots import RunUpdate, ScoredChange, SummaryChange
from streamer.operate.health import Flow, PartitionLag, live_workers, read_lags, what_is_held
from streamer.schemas.base import (
    NOT_DIGESTED,
    RUN,
    SEMANTICS_VERSION,
    SummaryKind,
    canonical_json,
    decode_id,
    digest_of,
    run_of_key,
    sha256_hex,
)
from streamer.schemas.wire import LogRecord
from streamer.settings import Settings
from streamer.storage.entries import DELETED, HASHES, IN_FLIGHT, TASKS, Keys, entry_of
from streamer.storage.kafka import (
    Names,
    add_partitions,
    administering,
    ours,
    partition_of,
    read_partition_counts,
)
from streamer.storage.log import EPOCH_KEY, LOG_KEY, PartitionReader, epoch_value, greatest_epoch, read_topic
from streamer.storage.outbox import Outbox, ProducerRecord
from streamer.storage.redis import RedisSink, SyncClient, sync_client
from streamer.text import counted

# -----------------------------------------------------------------------------
# The latest summaries in the compacted topics, as any subscriber sees them.


T = TypeVar("T")

TOPICS: dict[SummaryKind, str] = {
    "agent_model": "agent-model-summaries",
    "tier": "tier-summaries",
    "run": "run-summaries",
    "comparison": "run-comparisons",
}

SCORED = "scored-trials"


class TopicKey(NamedTuple):
    topic: str
    partition: int
    key: bytes

    @property
    def run_id(self) -> str:
        """The run that the key names.

        >>> TopicKey("run-summaries", 0, b"a%7Cb|agent:model").run_id
        'a|b'
        """
        return run_of_key(self.text)

    @property
    def text(self) -> str:
        return self.key.decode("utf-8", "backslashreplace")


def latest_of(
    settings: Settings, topics: Iterable[str], keep: Callable[[bytes], T], *, run_id: str | None = None
) -> dict[TopicKey, T]:
    """The last value of each key of these topics, reduced by `keep`, without deleted keys.

    Topics come without the namespace. With a `run_id` only the run's partition is read.
    """
    latest: dict[TopicKey, T] = {}
    for topic in topics:
        for record in read_topic(settings, Names(settings.namespace).topic(topic), run_id=run_id):
            place = TopicKey(topic, record.partition, record.key or b"")
            if record.value is None:
                latest.pop(place, None)
            else:
                latest[place] = keep(record.value)
    return latest


def by_run(latest: Mapping[TopicKey, T]) -> dict[str, dict[TopicKey, T]]:
    runs: dict[str, dict[TopicKey, T]] = {}
    for place, value in latest.items():
        runs.setdefault(place.run_id, {})[place] = value
    return runs


# -----------------------------------------------------------------------------
# The differences between the log, folded again, and Redis or a topic.


SHOWN_FIELDS = 10

SHOWN_SCORED = 10

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One key whose value differs from the log.

    `key` is the topic's, or in Redis the suffix within the run. `log` and `found` are digests, None without a
    summary. `fields` lists what differs, or `digest` if the value contradicts its own digest. `reason` names
    another version of the semantics.
    """

    key: str
    log: str | None
    found: str | None
    fields: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    reason: str | None = None


def difference(key: str, change: SummaryChange | None, value: bytes | None) -> Mismatch | None:
    log = None if change is None else change.digest
    if value is None:
        return Mismatch(key, log, None)
    try:
        stored: dict[str, Any] = orjson.loads(value)
        actual = digest_of(stored)
    except (orjson.JSONDecodeError, AttributeError):
        return Mismatch(key, log, "unreadable")
    if actual == log and stored.get("digest") == actual:
        return None
    own = {"digest"} if stored.get("digest") != actual else set()
    if change is None:
        return Mismatch(key, None, actual, tuple(sorted(own)))
    told: dict[str, Any] = orjson.loads(change.value or b"{}")
    names = (told.keys() | stored.keys()) - NOT_DIGESTED
    differing = {name for name in names if told.get(name, _ABSENT) != stored.get(name, _ABSENT)}
    return Mismatch(key, log, actual, tuple(sorted(differing | own)), reason=_other_version(stored))


def _other_version(stored: Mapping[str, Any]) -> str | None:
    """The message about a summary that another semantics version published; None for the same version.

    >>> _other_version({"semantics_version": SEMANTICS_VERSION}) is None
    True
    """
    version = stored.get("semantics_version")
    if version == SEMANTICS_VERSION:
        return None
    return (
        f"published with semantics_version {version}, compared with {SEMANTICS_VERSION}; upgraded workers "
        "publish it again"
    )


def json_difference(name: str, log: Any, stored: Any, but: Iterable[str]) -> list[Mismatch]:
    """One difference that names the first places where two JSON values differ; [] if they agree.

    `log` has times as text. Keys in `but`, at any depth, are ignored.

    >>> json_difference("x", {"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 5}], "c": 4}, ["c"])[0].fields
    ('a[1].b',)
    """
    expected = canonical_json(log)
    places = tuple(islice(_places(orjson.loads(expected), stored, frozenset(but)), SHOWN_FIELDS))
    return (
        [Mismatch(name, sha256_hex(expected), sha256_hex(canonical_json(stored)), places)] if places else []
    )


def _places(log: Any, stored: Any, but: frozenset[str], at: str = "") -> Iterator[str]:
    if isinstance(log, dict) and isinstance(stored, dict):
        for key in sorted((log.keys() | stored.keys()) - but):
            yield from _places(log.get(key), stored.get(key), but, f"{at}.{key}" if at else key)
    elif isinstance(log, list) and isinstance(stored, list) and len(log) == len(stored):
        for number, pair in enumerate(zip(log, stored, strict=True)):
            yield from _places(*pair, but, f"{at}[{number}]")
    elif log != stored:
        yield at


def hash_differences(suffix: str, log: Mapping[str, str], in_redis: Mapping[bytes, bytes]) -> list[Mismatch]:
    stored = {_readable(key): _readable(value) for key, value in in_redis.items()}
    if log == stored:
        return []
    fields = [key for key in sorted({*log, *stored}) if log.get(key) != stored.get(key)]
    return [Mismatch(suffix, _digest(log), _digest(stored), tuple(fields[:SHOWN_FIELDS]))]


def _digest(fields: Mapping[str, str]) -> str | None:
    return sha256_hex(canonical_json(fields)) if fields else None


def _readable(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def other_bytes(place: TopicKey, log: str, in_topic: bytes, in_redis: bytes) -> list[Mismatch]:
    if in_topic == in_redis:
        return []
    one, other = orjson.loads(in_topic), orjson.loads(in_redis)
    names = (name for name in one.keys() | other.keys() if one.get(name, _ABSENT) != other.get(name, _ABSENT))
    return [Mismatch(place.text, log, log, tuple(sorted(names)), place.topic, place.partition)]


def scored_digests(changes: Iterable[ScoredChange]) -> dict[bytes, str]:
    return {c.key.encode(): str(orjson.loads(c.value)["digest"]) for c in changes if c.value is not None}


def digest_stored(value: bytes) -> str:
    try:
        return digest_of(orjson.loads(value))
    except (orjson.JSONDecodeError, AttributeError):
        return "unreadable"


def scored_differences(
    partition: int, log: Mapping[bytes, str], in_topic: Mapping[TopicKey, str]
) -> list[Mismatch]:
    """The first scored trials of a run that are missing, wrong, unexpected or in a wrong partition."""
    expected = {TopicKey(SCORED, partition, key): digest for key, digest in log.items()}
    wrong = sorted(place for place in {*expected, *in_topic} if expected.get(place) != in_topic.get(place))
    named = [
        Mismatch(place.text, expected.get(place), in_topic.get(place), (), SCORED, place.partition)
        for place in wrong[:SHOWN_SCORED]
    ]
    if more := len(wrong) - len(named):
        named.append(Mismatch(f"and {more:,} more", None, None, (), SCORED, partition))
    return named


# -----------------------------------------------------------------------------
# The event log, folded again from its beginning: what the summaries and scored trials should be.


@dataclass(slots=True)
class FoldedLog:
    """The results of the log, by run: summaries by key suffix ({} if deleted), and hashes as in Redis."""

    runs: dict[str, dict[str, SummaryChange]] = field(default_factory=dict)
    hashes: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    scored: dict[str, dict[bytes, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


def fold_log(settings: Settings, *, prices: PriceTable, run_id: str | None, scored: bool) -> FoldedLog:
    """Read every partition, since records may be misplaced, and fold one run, or all if `run_id` is None."""
    log = FoldedLog()
    pipeline = _fold(settings, prices, run_id, log)
    for folded_run in pipeline.runs():
        try:
            changes = pipeline.run(folded_run).summaries()
            log.runs[folded_run] = {entry_of(change, notify=False).suffix: change for change in changes}
            log.hashes[folded_run] = _hashes(pipeline.run(folded_run))
            if scored:
                log.scored[folded_run] = scored_digests(pipeline.run(folded_run).take_scored())
        except Exception as error:
            pipeline.fail(folded_run, error)
    log.failed = {failure.run_id: failure.reason for failure in pipeline.failed.values()}
    return log


def _hashes(run: Run) -> dict[str, dict[str, str]]:
    in_flight = {slot: trial.decode() for slot, trial in run.in_flight_by_slot().items()}
    return {IN_FLIGHT: in_flight, TASKS: run.comparisons.tasks()}


def _fold(settings: Settings, prices: PriceTable, run_id: str | None, log: FoldedLog) -> Pipeline:
    """Fold the log; again, as workers do, if it deletes a run that failed before the deletion."""
    topic, deletions = Names(settings.namespace).trial_events, dict[str, int]()
    while True:
        pipeline = Pipeline(prices=prices, owns=None if run_id is None else run_id.__eq__)
        for deleted, revision in deletions.items():
            pipeline.delete(deleted, revision)
        records = read_topic(settings, topic)
        while batch := [record for _, record in zip(range(BATCH), records, strict=False)]:
            folded = pipeline.fold(batch)
            log.others.update(other for _, other in folded.misplaced)
        later = pipeline.registry.deletions()
        if all(revision <= deletions.get(deleted, -1) for deleted, revision in later.items()):
            return pipeline
        deletions |= {deleted: max(one, deletions.get(deleted, one)) for deleted, one in later.items()}


# -----------------------------------------------------------------------------
# Whether a run is finished, and by which numbers, from its events alone.


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a run by its events; `open_because` says what is still missing (R13, R19)."""

    digest: str
    open_because: str | None
    archived: bool

    @classmethod
    def of(cls, records: Iterable[LogRecord], run_id: str, prices: PriceTable) -> Self | None:
        folding = fold_records(records, prices=prices, owns=run_id.__eq__)
        if run_id in folding.pipeline.failed or run_id not in folding.runs():
            return None
        run = folding.pipeline.run(run_id)
        changes = {change.group.redis_suffix: change for change in run.summaries()}
        summary = changes["run"].summary
        if summary is None:
            return None
        state, plan = run.state, run.state.plan
        unscored = any(
            change.summary and change.summary.get("grade_provisional") for change in changes.values()
        )
        because = None
        if plan.finished and not plan.has_ended:
            because = f"was interrupted ({plan.finished.status}), and its trials may run again"
        elif not state.has_ended:
            because = "has not ended, or has trials that may run again"
        elif unscored or state.scores.roster.lineup(RUN).count_any(state.open_states()):
            because = "waits for a judge's scores"
        digests = sorted((key, change.digest) for key, change in changes.items())
        archived = summary["status"] == "archived" and not summary["trials"]
        return cls(sha256_hex(canonical_json(digests)), because, archived)

    @classmethod
    def in_log(cls, settings: Settings, run_id: str, prices: PriceTable) -> Self | None:
        return cls.of(RunLog(settings, run_id).records(), run_id, prices)


# -----------------------------------------------------------------------------
# Fold the log again, and compare it with Redis and the topics.


POLL_SECONDS = 0.1
HEARD_SECONDS = 5.0
"""Every worker sends a heartbeat within this time, even if Redis has just lost the earlier ones."""

REDIS_TIMEOUT_SECONDS = 5.0

VerifyResult = Literal["equal", "differs", "unverifiable"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one run; `reason` explains a run that could not be verified, or only in part.

    If a run is not `in_log`, everything found about it is a difference.
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
    summaries: Mapping[str, Mapping[TopicKey, bytes]] = field(default_factory=dict)
    scored: Mapping[str, Mapping[TopicKey, str]] = field(default_factory=dict)


class Verification:
    """A verification of runs, for one use.

    `prices` are the workers' (R2). `wait_seconds` limits the wait for events in flight, if there are
    differences. `truncated` says that the log has lost its beginning, and `held` what waits behind open
    transactions and was not verified.
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
        self.held: str | None = None
        self._count = 1
        self._heard_by = time.monotonic() + HEARD_SECONDS
        self._deadline = time.monotonic() + wait_seconds

    def verify(self, run_id: str | None) -> list[Verdict]:
        """Verdicts by run id: of one run, or for None of every run in the log or in Redis."""
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
                self.held = what_is_held(before.partitions, self._names.trial_events)
                verdicts = self._compare(client, run_id)
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
                    why = in_flight or "events keep coming"
                    return [
                        replace(one, outcome="unverifiable", reason=why) if one.outcome == "differs" else one
                        for one in verdicts
                    ]
                self._wait_until_idle(reader)

    def _flow(self, reader: StateReader) -> Flow:
        partitions = asyncio.run(read_lags(self._settings))
        return Flow(tuple(partitions), tuple(worker.status for worker in live_workers(reader)))

    def _wait_for_owners(self, reader: StateReader) -> None:
        """Wait until every partition has an owner, or every worker must have sent a heartbeat."""
        while time.monotonic() < self._heard_by and self._flow(reader).without_owner:
            time.sleep(POLL_SECONDS)

    def _wait_until_idle(self, reader: StateReader) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(POLL_SECONDS)
            if self._flow(reader).in_flight is None:
                return

    def _compare(self, client: SyncClient, run_id: str | None) -> list[Verdict]:
        log = fold_log(self._settings, prices=self._prices, run_id=run_id, scored=self._topics)
        members = cast("list[bytes]", client.zrange(self._keys.runs, 0, -1))
        in_redis = [decode_id(member.decode()) for member in members]
        in_topics = _InTopics()
        if self._topics:
            in_topics = _InTopics(
                by_run(latest_of(self._settings, TOPICS.values(), bytes, run_id=run_id)),
                by_run(latest_of(self._settings, [SCORED], digest_stored, run_id=run_id)),
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
        in_redis = self._stored(client, run_id, expected)
        pairs = ((key, expected.get(key), in_redis.get(key)) for key in sorted({*expected, *in_redis}))
        differences = [d for key, change, value in pairs if (d := difference(key, change, value))]
        for suffix in HASHES:
            stored = cast("dict[bytes, bytes]", client.hgetall(self._keys.of_run(run_id, suffix)))
            differences += hash_differences(suffix, log.hashes.get(run_id, {}).get(suffix, {}), stored)
        if self._topics:
            differences += self._of_topics(run_id, expected, in_redis, in_topics.summaries.get(run_id, {}))
            scored = log.scored.get(run_id, {}), in_topics.scored.get(run_id, {})
            differences += scored_differences(partition_of(run_id, self._count), *scored)
        if reason := log.failed.get(run_id) or _degraded(in_redis):
            self.places |= in_topics.summaries.get(run_id, {}).keys()  # there is nothing else of it
            reason = f"in quarantine ({reason}). `streamer runs repair` folds it again"
            return Verdict(run_id, "unverifiable", len(expected), tuple(differences), reason)
        if run_id not in log.runs:
            reason = _unknown(run_id, log.others | log.runs.keys())
            return Verdict(run_id, "unverifiable", 0, tuple(differences), reason, in_log=False)
        if expected and not in_redis and not redis_has_runs:
            reason = "Redis has no runs; a running worker rewrites them within seconds"
            return Verdict(run_id, "unverifiable", reason=reason)
        return Verdict(run_id, "differs" if differences else "equal", len(expected), tuple(differences))

    def _of_topics(
        self,
        run_id: str,
        expected: Mapping[str, SummaryChange],
        in_redis: Mapping[str, bytes],
        in_topics: Mapping[TopicKey, bytes],
    ) -> Iterator[Mismatch]:
        number = partition_of(run_id, self._count)
        places = {TopicKey(TOPICS[c.kind], number, c.key.encode()): (key, c) for key, c in expected.items()}
        self.places |= places.keys()
        for place in sorted({*places, *in_topics}):
            key, change = places.get(place, ("", None))
            value, stored = in_topics.get(place), in_redis.get(key)
            if wrong := difference(place.text, change, value):
                yield replace(wrong, topic=place.topic, partition=place.partition)
            elif change and value and stored and not difference(key, change, stored):
                yield from other_bytes(place, change.digest, value, stored)

    def _stored(
        self, client: SyncClient, run_id: str, expected: Mapping[str, SummaryChange]
    ) -> dict[str, bytes]:
        fields = cast("list[bytes]", client.hkeys(self._keys.versions(run_id)))
        suffixes = sorted({*expected, *(name.decode() for name in fields)} - {DELETED, *HASHES})
        pipe = client.pipeline(transaction=False)
        for suffix in suffixes:
            pipe.get(self._keys.of_run(run_id, suffix))
        values = zip(suffixes, pipe.execute(), strict=True)
        return {suffix: value for suffix, value in values if value is not None}


def _degraded(stored: Mapping[str, bytes]) -> str | None:
    """The reason in a run's summaries why newer events are not counted, if there is one."""
    try:
        reason = orjson.loads(stored.get("run", b"{}")).get("degraded")
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


def _unknown(run_id: str, run_ids: Iterable[str]) -> str:
    close = get_close_matches(run_id, list(run_ids), n=3)
    hint = f"Did you mean {', '.join(close)}?" if close else "`streamer query runs` lists the runs in Redis"
    return f"the log has no events for run {run_id!r}. {hint}"


# -----------------------------------------------------------------------------
# Rebuild the state from the event log: the next epoch, without any state page of the old one.
#
# The workers do the folding. Where the checkpoint of a partition's pages is missing (see
# docs/architecture.md), they fold it again from the beginning of the log. Their summaries under the next
# epoch replace all older values. Every step may be repeated, so an interrupted switch is simply run again.


REBUILD_POLL_SECONDS = 0.2
PAGES = "trials-changelog"


class CannotSwitch(Exception):
    """The state cannot be replaced now; the message gives reason and remedy."""


@dataclass(frozen=True, slots=True)
class Switched:
    epoch: int
    pages: int
    unknown: int
    runs: int


class Switch:
    def __init__(self, settings: Settings, *, wait_seconds: float) -> None:
        if settings.epoch is not None:
            raise CannotSwitch(
                f"the setting epoch ({settings.epoch}) overrides the one that a rebuild would make "
                "current: remove it, here and for the workers. `streamer up` needs no rebuild: restart it, "
                "and it folds everything again"
            )
        self._settings = settings
        self._names = Names(settings.namespace)
        self._keys = Keys(settings.namespace)
        self._wait_seconds = wait_seconds

    def check(self) -> None:
        deadline = time.monotonic() + self._wait_seconds
        while workers := self._workers():
            if time.monotonic() >= deadline:
                raise CannotSwitch(
                    f"{counted(workers, 'worker is', 'workers are')} running: stop every worker, rebuild, "
                    "then start them. A killed worker counts until its session ends, a few seconds later"
                )
            time.sleep(REBUILD_POLL_SECONDS)

    def switch(self, places: Collection[TopicKey], ghosts: Collection[str]) -> Switched:
        """Begin the next epoch without state pages, and remove records that the log does not know.

        `places` are the expected places of summaries in the topics. `ghosts` are runs that only topics or
        Redis have. It can be repeated after a KafkaError or RedisError. Raises CannotSwitch if workers are
        running.
        """
        self.check()
        count = asyncio.run(self._even_out())
        epochs = latest_of(self._settings, TOPICS.values(), _epoch_of)
        unknown = epochs.keys() - set(places)
        for place in self._keys_of(SCORED):
            if place.run_id in ghosts or place.partition != partition_of(place.run_id, count):
                unknown.add(place)
        pages = self._keys_of(PAGES)
        current = greatest_epoch(read_topic(self._settings, self._names.streamer_meta))
        epoch = 1 + max(current, *epochs.values(), asyncio.run(self._epoch_in_redis()))
        name = uuid.uuid4().hex[:12]
        asyncio.run(self._write(epoch, name, [*pages, *unknown]))
        asyncio.run(self._write_to_redis(ghosts, epoch, name))
        if self._workers() or self._keys_of(PAGES):
            raise CannotSwitch(
                "a worker started in the meantime, with the old state: stop it, then rebuild again"
            )
        return Switched(epoch, len(pages), len(unknown), len(ghosts))

    def _workers(self) -> int:
        """Members of the group. The embedded broker never forgets members, so live heartbeats count there."""
        if not self._settings.embedded:
            return asyncio.run(self._members())
        with StateReader(self._settings) as reader:
            return len(live_workers(reader))

    async def _members(self) -> int:
        async with administering(self._settings) as admin:
            [described] = await admin.describe_consumer_groups([self._names.group])
        return sum(len(members) for *_, members in (group[:6] for group in described.groups))

    async def _even_out(self) -> int:
        """Give every topic as many partitions as the largest. Runs move, so workers' offsets are reset."""
        counts = ours(await read_partition_counts(self._settings), self._names)
        most = max(counts.values())
        lacking = {topic: most for topic, count in counts.items() if count < most}
        if not lacking:
            return most
        await add_partitions(self._settings, lacking)
        await self._forget_offsets(most)
        return most

    async def _forget_offsets(self, partitions: int) -> None:
        places = [(self._names.trial_events, number) for number in range(partitions)]
        async with PartitionReader(self._settings, places, group=self._names.group) as reader:
            await reader.commit(0)

    def _keys_of(self, topic: str) -> Collection[TopicKey]:
        return latest_of(self._settings, [topic], lambda _: None).keys()

    async def _epoch_in_redis(self) -> int:
        sink = RedisSink.from_settings(self._settings)
        try:
            return await sink.greatest_epoch()
        finally:
            await sink.close()

    async def _write(self, epoch: int, name: str, places: Sequence[TopicKey]) -> None:
        """Write the new epoch and log name, which invalidates rows on local disks.

        The epoch comes first: after a failure, everything published from then on has a higher epoch.
        """
        meta = ((EPOCH_KEY, epoch_value(epoch)), (LOG_KEY, None), (LOG_KEY, name.encode()))
        topic = self._names.topic
        async with Outbox(self._settings) as outbox:
            await outbox.store([ProducerRecord(self._names.streamer_meta, 0, *record) for record in meta])
            await outbox.store([ProducerRecord(topic(at.topic), at.partition, at.key, None) for at in places])

    async def _write_to_redis(self, runs: Iterable[str], epoch: int, name: str) -> None:
        """Remove runs as a worker would, with notifications, then name the log."""
        sink = RedisSink.from_settings(self._settings)
        deletions = (SummaryChange.tombstone(run_id, RUN, epoch, -1) for run_id in runs)
        await sink.write([RunUpdate(one.run_id, summaries=[one]) for one in deletions])
        await sink.take_log_name(name)
        await sink.close()
        if sink.unsent:
            raise CannotSwitch("Redis accepts no writes: fix that, then rebuild again")


def _epoch_of(summary: bytes) -> int:
    try:
        return int(orjson.loads(summary)["epoch"])
    except (ValueError, KeyError, TypeError):
        return 0
