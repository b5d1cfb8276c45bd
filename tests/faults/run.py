"""A seeded schedule of faults, in episodes; after each episode everything is compared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from streamer.operate.local.processes import ServerFailed
from tests.faults import kinds_events, kinds_kafka, kinds_quarantine, kinds_redis, kinds_up, kinds_workers
from tests.faults.bed import CURRENT_SECONDS, Bed, NotCurrent
from tests.faults.check import Checker, Outcome
from tests.faults.kind import Kind

KINDS: list[type[Kind]] = [
    *kinds_workers.KINDS,
    *kinds_kafka.KINDS,
    *kinds_redis.KINDS,
    *kinds_events.KINDS,
    *kinds_quarantine.KINDS,
    *kinds_up.KINDS,
]
PER_EPISODE = 5

Say = Callable[[str], None]


@dataclass(slots=True)
class Injected:
    """What one fault did.

    Attributes:
        in_flight: events that were in no published summary yet when it came.
        meanwhile: events acknowledged while it lasted.
        reads: by the atomic reader, from the fault until all summaries were current again.
        torn: of these, what did not belong together.
        seconds: from its end until all summaries were current again; None where that was not asked.
        wrong: what was found wrong after its episode; the other faults of the episode say the same.
    """

    kind: str
    engine: str
    episode: int
    in_flight: int = 0
    meanwhile: int = 0
    reads: int = 0
    torn: int = 0
    seconds: float | None = None
    lost: int = 0
    double: int = 0
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """True if nothing is wrong."""
        return not (self.wrong or self.lost or self.double or self.torn)

    def line(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def available(engine: str, say: Say = print) -> list[type[Kind]]:
    """Kinds that an engine and this machine can have; what the machine lacks is said."""
    result = []
    for kind in KINDS:
        if engine in kind.engines:
            if lack := kind.missing():
                say(f"SKIPPED LOUDLY: {kind.name}: {lack}")
            else:
                result.append(kind)
    return result


def schedule(kinds: dict[type[Kind], int], seed: int) -> list[list[type[Kind]]]:
    """Episodes in which each kind comes so often; at most one that needs quiet, and that one last."""
    rng = random.Random(seed)
    quiet = [kind for kind, times in kinds.items() if kind.quiet for _ in range(times)]
    others = [kind for kind, times in kinds.items() if not kind.quiet for _ in range(times)]
    rng.shuffle(others)
    count = max(len(quiet), -(-(len(quiet) + len(others)) // PER_EPISODE))
    episodes = [others[number::count] for number in range(count)]
    for kind, number in zip(quiet, rng.sample(range(count), len(quiet)), strict=True):
        episodes[number].append(kind)
    return [episode for episode in episodes if episode]


class Run:
    """Episodes on one bed.

    Args:
        on_result: told of every fault when its episode has been compared.
        patience_seconds: how long a comparison waits for everything to be equal.
    """

    def __init__(
        self,
        bed: Bed,
        *,
        say: Say = print,
        on_result: Callable[[Injected], object] = bool,
        patience_seconds: float = CURRENT_SECONDS,
    ) -> None:
        self.bed = bed
        self._patience = patience_seconds
        self.checker = Checker(bed)
        self.results: list[Injected] = []
        self._say, self._on_result = say, on_result
        self._episode = 0

    def episodes(self, planned: Iterable[list[type[Kind]]], until: float = float("inf")) -> None:
        """Run them; none begins after `until` (time.monotonic())."""
        for kinds in planned:
            if time.monotonic() > until:
                self._say("the time is over; the rest of the schedule is left out")
                return
            self.episode(kinds)

    def episode(self, kinds: list[type[Kind]]) -> Outcome:
        """Inject these one after the other, then compare."""
        self._episode += 1
        faults = [self._inject(kind) for kind in kinds]
        if any(kind.zombie for kind in kinds):
            self.bed.fleet.restart_all()
        outcome = self.checker.compare(self._patience)
        for fault in faults:
            fault.lost, fault.double = outcome.lost, outcome.double
            fault.wrong += outcome.differences
            self.results.append(fault)
            self._on_result(fault)
        self._say(
            f"episode {self._episode}: {outcome.summaries} records compared, lost {outcome.lost}, "
            f"double {outcome.double}, differences {len(outcome.differences)}, "
            f"rejections repeated {outcome.rejected_again}, {self.bed.publisher.total} events"
        )
        for difference in outcome.differences:
            self._say(f"  WRONG: {difference}")
        return outcome

    def _inject(self, kind: type[Kind]) -> Injected:
        bed, fault = self.bed, kind(self.bed)
        result = Injected(kind.name, bed.engine, self._episode)
        reads, torn = bed.atomic.polls, len(bed.atomic.torn)
        self._say(f"{time.strftime('%X')} {kind.name}")
        try:
            fault.prepare()
            bed.burst()
            result.in_flight = bed.wait_for_flight()
            before = bed.publisher.total
            try:
                fault.inject()
                fault.last()
                if kind.compared_meanwhile:
                    result.wrong += self.checker.compare(self._patience).differences
            finally:
                fault.heal()
            result.meanwhile = bed.publisher.total - before
            began = time.monotonic()
            if not kind.quiet:
                bed.wait_current(kind.name)
                result.seconds = round(time.monotonic() - began, 2)
        except (AssertionError, ServerFailed) as error:
            self._wrong(result, error)
        self._tidy(fault, result)
        result.notes = fault.notes
        result.reads, result.torn = bed.atomic.polls - reads, len(bed.atomic.torn) - torn
        return result

    def _tidy(self, fault: Kind, result: Injected) -> None:
        """Leave the bed as it was found, so that the next fault's time is its own."""
        fault.tidy()
        if type(fault).tidy is Kind.tidy or fault.quiet:
            return
        try:
            self.bed.wait_current(f"after {fault.name}")
        except NotCurrent as error:
            self._wrong(result, error)

    def _wrong(self, result: Injected, error: Exception) -> None:
        result.wrong.append(str(error))
        self._say(f"  WRONG: {error}")
