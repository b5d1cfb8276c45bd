"""An episode: rounds of records, after each a look for harm, and at the end `streamer verify` and a restart.

What counts as harm:

- a process has ended: the worker, or `up`, its broker or its Redis;
- a run is in quarantine. Events that are valid never bring that about, and others are rejections;
- a healthy run is not current within seconds;
- reading an event failed in a way that is no reason (the rejection says `cannot_be_read`);
- `streamer verify --all --topics` does not say equal for every run, before and after a restart;
- a run cannot be read from Redis.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import redis
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streamer.client.queries import UnknownRun
from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.schemas.wire import Record
from streamer.settings import Settings
from streamer.storage.entries import Keys, entry_of
from streamer.storage.kafka import MAX_MESSAGE_BYTES, Names
from streamer.storage.log import read_topic
from tests.fuzz.live.beds import START_SECONDS, Bed
from tests.fuzz.live.stream import Publication, Round, Stream
from tests.support.cli import streamer

CURRENT_SECONDS = 60.0
"""Until a healthy run has to be current: generous, the machine may be slow. Outcomes say how long it took."""

POLL_SECONDS = 0.02
BATCH_BYTES = 256 * 1024
WAIT_SECONDS = 60
"""Given to `streamer verify` for what is in flight."""

HARMFUL_REJECTIONS = ("cannot_be_read", "quarantined")


@dataclass
class Outcome:
    """What an episode did, and the harm that it found.

    Attributes:
        refused: records that the broker did not take.
        slowest_seconds: the longest time until the healthy runs were current.
        rejected: rejections, by code.
    """

    rounds: int = 0
    records: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    rejected: dict[str, int] = field(default_factory=dict)
    harm: list[str] = field(default_factory=list)


class Episode:
    """Publishes the rounds of one seed to a bed.

    Args:
        bed: at work, with an empty log.
        seed: decides what is published, and in which order.
    """

    def __init__(self, bed: Bed, seed: int) -> None:
        self.outcome = Outcome()
        self._bed = bed
        self._stream = Stream(str(seed), bed.settings.partitions)
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
            self._bed.restart()
            self._processes = self._bed.processes()
            self._note(self._until_current(self._bed.settings, START_SECONDS)[0])
            self.round()
            self._look_at_everything()
        return self.outcome

    def round(self) -> None:
        """Publish the next round and wait until the healthy runs are current; notes harm."""
        made = self._stream.round()
        settings = self._bed.settings
        self.outcome.rounds += 1
        self.outcome.records += len(made.publications)
        self.outcome.refused += asyncio.run(_publish(settings, made))
        healthy = [publication.value for publication in made.publications if publication.healthy]
        self._expected.fold(Record(value, offset) for offset, value in enumerate(healthy))
        harm, seconds = self._until_current(settings, CURRENT_SECONDS)
        self.outcome.slowest_seconds = max(self.outcome.slowest_seconds, seconds)
        self._note(harm)
        self._note(quarantined(settings))

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
        now = self._bed.processes()
        return [
            f"the {name} (process {pid}) has ended; the worker's log ends in:\n{self._bed.log()}"
            for name, pid in self._processes.items()
            if now.get(name) != pid
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
            headers = list(one.headers)
            if (
                batch.append(timestamp=one.timestamp_ms, key=one.key, value=one.value, headers=headers)
                is None
            ):
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


def quarantined(settings: Settings) -> list[str]:
    """A sentence for each run in quarantine, as the workers' heartbeats say."""
    with StateReader(settings) as reader:
        told = [worker.status.get("quarantined", {}) for worker in reader.workers()]
    return [f"run {run!r:.80} is in quarantine: {why}" for result in told for run, why in result.items()]


def verified(settings: Settings) -> list[str]:
    """What `streamer verify --all --topics` finds wrong."""
    names = ("bootstrap", "redis", "namespace", "embedded", "partitions")
    environment = {f"STREAMER_{name.upper()}": str(getattr(settings, name)) for name in names}
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
    """How many rejections have which code."""
    result: dict[str, int] = {}
    for record in read_topic(settings, Names(settings.namespace).topic("trial-rejections")):
        code = orjson.loads(record.value or b"{}")["code"]
        result[code] = result.get(code, 0) + 1
    return result
