"""An episode: rounds of records, after each a look for harm, and at the end `streamer verify` and a restart.

What counts as harm:

- a process has ended: the worker, or `up`, its broker or its Redis;
- a run is in quarantine that this episode did not set apart. Events that are valid never bring that about,
  others are rejections, and neither do a full Redis, a wrong clock, another log, batches with false offsets
  and records of others in private topics. A page that cannot be read and a record of quarantine do it to
  their run, and a repair ends it;
- a full Redis is not named by `streamer status`, or a batch with false offsets is not one rejection;
- a healthy run is not current within seconds;
- reading an event failed in a way that is no reason (the rejection says `cannot_be_read`);
- `streamer verify --all --topics` does not say equal for every run, before and after a restart;
- a run cannot be read from Redis.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import redis
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streamer.client.queries import UnknownRun
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.folding.run import page_key
from streamer.operate import health
from streamer.operate.health import read_health
from streamer.schemas.wire import Quarantine, Record
from streamer.settings import Settings
from streamer.storage.entries import Keys, entry_of
from streamer.storage.kafka import MAX_MESSAGE_BYTES, Names, partition_of
from streamer.storage.log import quarantine_key, read_topic
from tests.faults.kinds_redis import fill, is_named_full, leave_another_log
from tests.faults.kinds_workers import faketime, send_all
from tests.fuzz.live.beds import START_SECONDS, Bed
from tests.fuzz.live.stream import Publication, Round, Stream
from tests.operate.stack import runs
from tests.support.cli import streamer
from tests.support.packed import a_batch_at, send_batches
from tests.support.worker_process import wait_for

CURRENT_SECONDS = 60.0
"""Until a healthy run has to be current: generous, the machine may be slow. Outcomes say how long it took."""

POLL_SECONDS = 0.02
BATCH_BYTES = 256 * 1024
SET_APART = "a record of the fuzzer sets it apart"
WAIT_SECONDS = 60
"""Given to `streamer verify` for what is in flight."""

HARMFUL_REJECTIONS = ("cannot_be_read", "quarantined")


@dataclass
class Outcome:
    """What an episode did, besides records also `faults`, and the harm that it found; rejections by code."""

    rounds: int = 0
    records: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    rejected: dict[str, int] = field(default_factory=dict)
    false_batches: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    harm: list[str] = field(default_factory=list)


class Episode:
    """Publishes the rounds of one seed to a bed with an empty log; `sort` is as in `Stream`."""

    def __init__(self, bed: Bed, seed: int, *, faults: bool = True, sort: str | None = None) -> None:
        self.outcome = Outcome()
        self._bed = bed
        names = Names(bed.settings.namespace)
        self._stream = Stream(str(seed), bed.settings.partitions, names, faults=faults, sort=sort)
        self._expected = Pipeline()
        self._processes = bed.processes()

    def run(self, *, rounds: int | None = None, seconds: float | None = None) -> Outcome:
        """So many rounds, or rounds for so long; then verify, restart, one more round, verify again."""
        began = time.monotonic()
        while self._goes_on(began, rounds, seconds) and not self.outcome.harm:
            self.round()
        if not self.outcome.harm:
            self._look_at_everything()
        if not self.outcome.harm:
            self._restart()
            self.round()
            self._look_at_everything()
        return self.outcome

    def _restart(self) -> None:
        """Restart; a record sets one run apart: it alone is in quarantine, and a repair ends that."""
        bed, what = self._bed, self._stream.restart()
        with StateReader(bed.settings) as reader:
            known = sorted(run.run_id for run in reader.runs() if run.run_id not in self._stream.healthy)
        run = known[what.number % len(known)] if known and bed.keeps_topics else None

        def meanwhile() -> None:
            if run is not None:
                asyncio.run(send_all(bed.settings, [_set_apart(bed.settings, run, what.page)]))
            if what.another_log:
                with redis.Redis.from_url(bed.settings.redis) as client:
                    leave_another_log(client, Keys(bed.settings.namespace))

        bed.restart(meanwhile, what.clock)
        told = {"another log": what.another_log, f"clock {what.clock}": faketime(), "quarantine": run}
        self.outcome.faults.update(name for name, value in told.items() if value and bed.keeps_topics)
        self._processes = bed.processes()
        self._note(self._until_current(bed.settings, START_SECONDS)[0])
        self._note(quarantined(bed.settings, {run} if run is not None else set()))
        if run is not None and not self.outcome.harm:
            done = streamer("runs", "repair", run, environment=_environment(bed.settings))
            self._note([f"runs repair {run!r}: {done.stderr[-500:]!r}"] if done.returncode else [])
            self._note(quarantined(bed.settings))

    def round(self) -> None:
        """Publish the next round and wait until the healthy runs are current; notes harm."""
        made = self._stream.round()
        settings = self._bed.settings
        self.outcome.rounds += 1
        self.outcome.records += len(made.publications)
        with _full(settings) if made.full else nullcontext():
            self.outcome.refused += asyncio.run(_publish(settings, made))
            for batch in made.false:
                self._send_false(*batch)
            asyncio.run(send_all(settings, made.private))
            if made.full:
                self._note(_until_named_full(settings))
        told = {"full Redis": made.full, "private topics": bool(made.private)}
        self.outcome.faults.update(name for name, value in told.items() if value)
        healthy = [publication.value for publication in made.publications if publication.healthy]
        self._expected.fold(Record(value, offset) for offset, value in enumerate(healthy))
        harm, seconds = self._until_current(settings, CURRENT_SECONDS)
        self.outcome.slowest_seconds = max(self.outcome.slowest_seconds, seconds)
        self._note(harm)
        self._note(quarantined(settings))

    def _send_false(self, partition: int, offsets: tuple[int, int, int]) -> None:
        """A batch with false offsets: `up` refuses it; Apache Kafka takes any that is not packed."""
        topic, batch = Names(self._bed.settings.namespace).trial_events, a_batch_at("none", offsets)
        try:
            send_batches(self._bed.settings.bootstrap, topic, partition, [(batch, len(offsets))])
        except KafkaError:
            self.outcome.faults["false offsets refused"] += 1
        else:
            self.outcome.false_batches += 1
            self.outcome.faults["false offsets"] += 1

    def _goes_on(self, began: float, rounds: int | None, seconds: float | None) -> bool:
        if rounds is not None:
            return self.outcome.rounds < rounds
        return time.monotonic() < began + (seconds or 0.0)

    def _note(self, harm: Iterable[str]) -> None:
        self.outcome.harm += harm

    def _until_current(self, settings: Settings, within: float) -> tuple[list[str], float]:
        """Wait for the healthy runs, so many seconds at most; the harm, and how long it took."""
        keys, expected = Keys(settings.namespace), {}
        for run_id in self._expected.runs():
            for change in self._expected.run(run_id).summaries():
                expected[keys.of_run(run_id, entry_of(change, notify=False).suffix)] = change.digest
        began = time.monotonic()
        with redis.Redis.from_url(settings.redis) as client:
            while behind := [key for key, digest in expected.items() if _digest(client, key) != digest]:
                if ended := self._ended():
                    return ended, within
                if time.monotonic() > began + within:
                    late = f"not current within {within:g} s: {', '.join(behind)}\n{self._bed.log()}"
                    return [late], within
                time.sleep(POLL_SECONDS)
        return self._ended(), time.monotonic() - began

    def _ended(self) -> list[str]:
        return [
            f"the {name} (process {pid}) has ended; the worker's log ends in:\n{self._bed.log()}"
            for name, pid in self._processes.items()
            if not runs(pid)
        ]

    def _look_at_everything(self) -> None:
        settings = self._bed.settings
        self._note(verified(settings))
        self._note(unreadable(settings))
        self.outcome.rejected = rejections(settings)
        self._note(
            f"{count} rejections say {code}"
            for code, count in self.outcome.rejected.items()
            if code in HARMFUL_REJECTIONS
        )
        unreadable_batches = self.outcome.rejected.get("unreadable_batch", 0)
        if unreadable_batches < self.outcome.false_batches:
            self._note([f"{unreadable_batches} of {self.outcome.false_batches} false batches are rejected"])
        self._note(quarantined(settings))
        self._note(self._ended())


async def _publish(settings: Settings, made: Round) -> int:
    """Publish a round, each partition in order; how many records the broker refused."""
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap,
        compression_type=made.codec,
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_MESSAGE_BYTES,
        acks="all",
    )
    topic = Names(settings.namespace).trial_events
    async with producer:
        of_partition = [
            [publication for publication in made.publications if publication.partition == number]
            for number in range(settings.partitions)
        ]
        sending = (_send(producer, topic, publications) for publications in of_partition if publications)
        return sum(await asyncio.gather(*sending))


async def _send(producer: AIOKafkaProducer, topic: str, publications: list[Publication]) -> int:
    """Records of one partition, in batches; a record with a timestamp of its own has a batch of its own."""
    refused, left = 0, list(reversed(publications))
    while left:
        batch, own = producer.create_batch(), left[-1].timestamp_ms is not None
        while left and (own or left[-1].timestamp_ms is None):
            one = left[-1]
            record = {"key": one.key, "value": one.value, "headers": list(one.headers)}
            if batch.append(timestamp=one.timestamp_ms, **record) is None:
                break
            left.pop()
            if own:
                break
        batch.close()
        try:
            await (await producer.send_batch(batch, topic, partition=publications[0].partition))
        except KafkaError:
            refused += batch.record_count()
    return refused


def _digest(client: Any, key: str) -> str | None:
    value = client.get(key)
    return str(orjson.loads(value)["digest"]) if value else None


def quarantined(settings: Settings, expected: Collection[str] = ()) -> list[str]:
    """A sentence for each run in quarantine that should not be, or the other way round; by the heartbeats.

    A heartbeat may be late, and that of a killed worker counts for half a minute.
    """

    def told() -> dict[str, str]:
        with StateReader(settings) as reader:
            return health.quarantined(reader)

    with suppress(AssertionError):
        wait_for(lambda: set(expected) == told().keys(), "only these are in quarantine", CURRENT_SECONDS)
    result = told()
    wrong = [f"run {run!r:.80} is in quarantine: {why}" for run, why in result.items() if run not in expected]
    return wrong + [f"run {run!r:.80} is not in quarantine" for run in expected if run not in result]


def _set_apart(settings: Settings, run_id: str, page: bytes | None) -> tuple[str, int, bytes, bytes | None]:
    """A record that sets a run apart: a page that cannot be read; without one, what a worker writes."""
    key, value = quarantine_key(run_id), Quarantine(SET_APART, at=0).value()
    if page is not None:
        key, value = page_key(run_id, "fuzzer", 0), page
    topic = Names(settings.namespace).trials_changelog
    return topic, partition_of(run_id, settings.partitions), key.encode(), value


@contextmanager
def _full(settings: Settings) -> Iterator[None]:
    with redis.Redis.from_url(settings.redis) as client:
        before = client.config_get("maxmemory")["maxmemory"]
        fill(client)
        try:
            yield
        finally:
            client.config_set("maxmemory", before)


def _until_named_full(settings: Settings) -> list[str]:
    """Wait until `streamer status` says that Redis is full; the harm if it does not."""
    try:
        wait_for(lambda: is_named_full(read_health(settings).problems), "status names it", CURRENT_SECONDS)
    except AssertionError:
        return [f"Redis is full, and status says: {read_health(settings).problems}"]
    return []


def _environment(settings: Settings) -> dict[str, str]:
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    return {f"STREAMER_{name.upper()}": str(getattr(settings, name)) for name in names}


def verified(settings: Settings) -> list[str]:
    environment = _environment(settings)
    done = streamer("verify", "--all", "--topics", "--json", "--wait", WAIT_SECONDS, environment=environment)
    wrong = [line for line in map(orjson.loads, done.stdout.splitlines()) if line["outcome"] != "equal"]
    if wrong or done.returncode != 0:
        verdicts = "\n".join(f"{verdict!r:.2000}" for verdict in wrong[:5])
        return [f"verify ends with {done.returncode}: {len(wrong)} runs, {done.stderr[-500:]!r}\n{verdicts}"]
    return []


def unreadable(settings: Settings) -> list[str]:
    """Runs in Redis that `StateReader` cannot read."""
    harm = []
    with StateReader(settings) as reader:
        for run in reader.runs():
            try:
                with suppress(UnknownRun):
                    reader.snapshot(run.run_id)
            except Exception as error:
                harm.append(f"run {run.run_id!r:.80} cannot be read: {type(error).__name__}: {error!s:.500}")
    return harm


def rejections(settings: Settings) -> dict[str, int]:
    records = read_topic(settings, Names(settings.namespace).topic("trial-rejections"))
    return Counter(orjson.loads(record.value or b"{}")["code"] for record in records)
