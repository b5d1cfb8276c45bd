"""What happens to events on their way."""

from __future__ import annotations

import itertools

from aiokafka.errors import KafkaError

from tests.faults.bed import CURRENT_SECONDS, PARTITIONS, Bed
from tests.faults.kind import Kind
from tests.faults.poison import poison
from tests.support.packed import FALSE_OFFSETS, MIB, a_batch_at, a_bomb, send_batches
from tests.support.worker_process import wait_for

EVERYWHERE = ("kafka", "kafka3", "embedded", "up")
BOMBS = {"gzip": 1000, "lz4": 900, "zstd": 1000}
"""MiB of zeros by codec: packed by lz4, 1,000 MiB are more than a broker takes."""


class Duplicated(Kind):
    """Earlier events come again, many times and in disorder, mixed with new ones that come twice."""

    name = "duplicated and reordered publishes"
    engines = EVERYWHERE

    def inject(self) -> None:
        traffic = self.bed.traffic
        new = traffic.events(200)
        messages = [*new, *reversed(new), *traffic.copies(400)]
        self.rng.shuffle(messages)
        self.bed.publisher.send(messages)


class Poison(Kind):
    """Bytes that are no events, of every kind we know."""

    name = "poison events"
    engines = EVERYWHERE

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed)
        self.messages = poison(self.rng.randrange(2**32), 4, bed.poison_serial)

    def inject(self) -> None:
        self.bed.poison |= {message.value for message in self.messages}
        mixed = list(itertools.chain(self.messages, self.bed.traffic.events(100)))
        self.rng.shuffle(mixed)
        self.bed.publisher.send(mixed)


class Bomb(Kind):
    """A record that unpacks to more than a worker has is rejected, and no worker ends.

    The broker of `up` refuses it: see tests/storage/test_log.py.
    """

    name = "bomb: a record of 1,000 MiB, packed"

    def prepare(self) -> None:
        codec, mebibytes = self.rng.choice(list(BOMBS.items()))
        self._bomb = a_bomb(codec, mebibytes * MIB)
        self._ended = len(self.bed.fleet.ended)
        self.notes.append(codec)

    def inject(self) -> None:
        bed, partition = self.bed, self.rng.randrange(PARTITIONS)
        batches, topic = [(self._bomb, 1)], bed.names.trial_events
        [offset] = send_batches(bed.kafka.bootstrap, topic, partition, batches)
        self._place = partition, offset

    def last(self) -> None:
        wait_for(lambda: self.bed.topics.rejected[self._place], "it is rejected", CURRENT_SECONDS)
        assert len(self.bed.fleet.ended) == self._ended, "a worker ended"


class FalseOffsets(Kind):
    """A batch of three records with offsets that it cannot have: it is one rejection, and nothing is skipped.

    The broker of `up` refuses it.
    """

    name = "a batch with false offsets"
    engines = EVERYWHERE

    def inject(self) -> None:
        bed, partition, offsets = self.bed, self.rng.randrange(PARTITIONS), self.rng.choice(FALSE_OFFSETS)
        batches, topic = [(a_batch_at("none", offsets), len(offsets))], bed.names.trial_events
        self._place: tuple[int, int] | None = None
        try:
            [first] = send_batches(bed.kafka.bootstrap, topic, partition, batches)
            self._place = partition, first + len(offsets) - 1
        except KafkaError:
            pass
        assert (self._place is None) == (bed.engine == "up"), f"{offsets}: stored at {self._place}"
        self.notes.append(str(offsets))

    def last(self) -> None:
        if self._place is not None:
            place = self._place
            wait_for(lambda: self.bed.topics.rejected[place], "it is rejected", CURRENT_SECONDS)


KINDS: list[type[Kind]] = [Duplicated, Poison, Bomb, FalseOffsets]
