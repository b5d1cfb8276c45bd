"""What is published: fuzzed records of some runs, with those of healthy runs between them."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from random import Random

from streamer.storage.kafka import Names, partition_of
from tests.faults.poison import private_poison
from tests.fuzz.live.events import Event, Events, Run
from tests.fuzz.mutations import mutated
from tests.support.events import a_trial
from tests.support.packed import FALSE_OFFSETS

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
ROUND_EVENTS = (20, 100, 300, 300, 300, 1_500)
RUNS = {"plain": 8, "wide": 2, "large plan": 2, "long names": 1}
"""How many of each sort; some more begin later."""

SHARES = {"plain": 0.45, "wide": 0.3, "large plan": 0.1, "long names": 0.15}
"""How much of what is published is for which sort."""

HISTORY = 400
"""So many of the last events may come again, or be corrected."""

ODD_TIMESTAMPS = 0.015
"""Share of records with a timestamp of their own."""

MISPLACED = 0.05
"""Share of records in another partition than their run's."""

FEW = (0, 0, 0, 1, 2)
"""How many batches with false offsets a round has."""

PRIVATE = 0.2
"""Share of rounds in which somebody writes into private topics."""

FULL = 0.1
"""Share of rounds in which Redis is full."""

PAGES = (None, b"", b"\xff", b"{}", b'{"v":2000}')
CLOCKS = ("+0", "+40m", "+3h", "+2y", "-3h", "-2y", "-90s")
"""Apache Kafka takes no time that is more than an hour ahead: then the worker's records carry none."""

TIMESTAMPS = (
    -1, 0, 946_684_799_999, 946_684_800_000, 7_258_118_399_999, 7_258_118_400_000, 253_402_300_799_999,
    253_402_300_800_000, 1_767_225_600_000_000, 2**62, 2**63 - 1,
)  # fmt: skip
"""Unix milliseconds: none, the ends of 2000 to 2199, of the year 9999, microseconds, and the largest."""

HEADERS: tuple[tuple[str, bytes | None], ...] = (
    ("streamer-forwarded", b"0:1"), ("streamer-forwarded", b"\xff"), ("", b""), ("nothing", None),
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("large", b"x" * 20_000),
    ("\U0001f600", "é".encode()),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Publication:
    """A record to publish; `healthy`: an event of a healthy run, which must be counted within seconds."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    healthy: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """Records that are published one after the other, packed by one codec, and what else is done meanwhile.

    Batches with `false` offsets and records in `private` topics, perhaps while Redis is `full`.
    """

    codec: str | None
    publications: list[Publication] = field(repr=False)
    false: list[tuple[int, tuple[int, int, int]]]
    private: list[tuple[str, int, bytes, bytes | None]] = field(repr=False)
    full: bool


@dataclass(frozen=True, slots=True)
class Restart:
    """What happens while no worker runs: `page` is a state page that cannot be read, or a quarantine."""

    another_log: bool
    clock: str
    number: int
    page: bytes | None


class Stream:
    """Rounds of records without end, alone or with faults. The same seed gives the same rounds.

    Args:
        sort: of the runs that are published, besides healthy ones; None: all, in their shares.
    """

    def __init__(
        self, seed: str, partitions: int, names: Names, *, faults: bool = True, sort: str | None = None
    ) -> None:
        self._has_faults = faults
        self._shares = SHARES if sort is None else {sort: 1.0}
        self._rng = Random(seed)
        self._chance = Random(f"{seed} faults")  # of its own: new faults leave a seed's events alone
        self._names = names
        self._events = Events(self._rng)
        self._partitions = partitions
        sorts = [sort for sort, many in RUNS.items() for _ in range(many)]
        self._runs = [Run(self._events.run_id(), sort) for sort in sorts]
        self._history: deque[Event] = deque(maxlen=HISTORY)
        self._number = count()
        self.healthy = [_run_in(number, partitions) for number in range(partitions)]

    def round(self) -> Round:
        """The next records; those of the healthy runs are among them, and last in each partition."""
        rng = self._rng
        fuzzed = [self._fuzzed() for _ in range(rng.choice(ROUND_EVENTS))]
        for run_id in self.healthy:
            fuzzed.insert(rng.randrange(len(fuzzed)), self._healthy(run_id))
        codec, chance, count = rng.choice(CODECS), self._chance, self._partitions
        false = [(chance.randrange(count), chance.choice(FALSE_OFFSETS)) for _ in range(chance.choice(FEW))]
        private = private_poison(chance, self._names, count) if chance.random() < PRIVATE else []
        publications = fuzzed + [self._healthy(run_id) for run_id in self.healthy]
        if not self._has_faults:
            return Round(codec, publications, [], [], full=False)
        return Round(codec, publications, false, private, chance.random() < FULL)

    def restart(self) -> Restart:
        rng = self._chance
        return Restart(rng.random() < 0.5, rng.choice(CLOCKS), rng.randrange(2**32), rng.choice(PAGES))

    def _healthy(self, run_id: str) -> Publication:
        number = next(self._number)
        event = a_trial(
            run_id=run_id,
            task_id=f"task {number % 700}",
            agent=f"agent {number % 3}",
            resolved=number % 3 == 0,
            cost_usd=number / 8,
            revision=number,
        )
        value = json.dumps(event).encode()
        return Publication(partition_of(run_id, self._partitions), run_id.encode(), value, healthy=True)

    def _fuzzed(self) -> Publication:
        rng, event = self._rng, self._event()
        run_id = event["run_id"]
        value: bytes | None = json.dumps(event, ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")
        if rng.random() < 0.05:
            value = mutated(value or b"", rng)
        elif rng.random() < 0.003:
            value = rng.choice((None, b""))
        right = partition_of(run_id, self._partitions)
        partition = rng.randrange(self._partitions) if rng.random() < MISPLACED else right
        plain = any(run.run_id == run_id and run.sort == "plain" for run in self._runs)
        timestamp = rng.choice(TIMESTAMPS) if plain and rng.random() < ODD_TIMESTAMPS else None
        return Publication(partition, self._key(run_id), value, self._headers(), timestamp)

    def _event(self) -> Event:
        rng = self._rng
        way = rng.random()
        if way < 0.05 and self._history:
            return rng.choice(self._history)
        if way < 0.2 and self._history:
            event = self._events.corrected(rng.choice(self._history))
        else:
            if rng.random() < 0.002:
                self._runs.append(Run(self._events.run_id(), rng.choice(("plain", "plain", "wide"))))
            [sort] = rng.choices(list(self._shares), list(self._shares.values()))
            event = self._events.make(rng.choice([run for run in self._runs if run.sort == sort]))
            if sort == "long names":
                return event  # a correction could make another of its fields odd
        self._history.append(event)
        return event

    def _key(self, run_id: str) -> bytes | None:
        rng = self._rng
        if rng.random() < 0.9:
            return run_id.encode()
        other = rng.choice(self._runs).run_id.encode()
        return rng.choice((None, b"", other, b"\xff\xfe", b"k" * 1_000, self.healthy[0].encode()))

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        rng = self._rng
        if rng.random() < 0.9:
            return ()
        return tuple(rng.choices(HEADERS, k=rng.choice((1, 1, 2, 3, 100))))


def _run_in(partition: int, partitions: int) -> str:
    return next(name for n in count() if partition_of(name := f"healthy {n}", partitions) == partition)
