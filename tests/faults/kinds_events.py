"""What happens to events on their way."""

from __future__ import annotations

import itertools

from tests.faults.bed import Bed
from tests.faults.kind import Kind
from tests.faults.poison import poison


class Duplicated(Kind):
    """Earlier events come again, many times and in disorder, mixed with new ones that come twice."""

    name = "duplicated and reordered publishes"

    def inject(self) -> None:
        traffic = self.bed.traffic
        new = traffic.events(200)
        messages = [*new, *reversed(new), *traffic.copies(400)]
        self.rng.shuffle(messages)
        self.bed.publisher.send(messages)


class Poison(Kind):
    """Bytes that are no events, of every kind we know."""

    name = "poison events"

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed)
        self.messages = poison(self.rng.randrange(2**32), 4, bed.poison_serial)

    def inject(self) -> None:
        self.bed.poison |= {message.value for message in self.messages}
        mixed = list(itertools.chain(self.messages, self.bed.traffic.events(100)))
        self.rng.shuffle(mixed)
        self.bed.publisher.send(mixed)


KINDS = [Duplicated, Poison]
