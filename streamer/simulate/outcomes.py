"""The outcome of a simulated trial."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

CRASH = "unknown_agent_error"
AGENT_TIMEOUT = "agent_timeout"
TEST_TIMEOUT = "test_timeout"
UNSET = "unset"

_KINDS = {UNSET: 0.84, AGENT_TIMEOUT: 0.07, TEST_TIMEOUT: 0.03, CRASH: 0.06}
_SKILL = 0.6

FAILURES_TAKE = 2.0
"""A trial that does not pass takes so many times as long: an agent that is stuck goes on."""


@dataclass(frozen=True, slots=True)
class SimulatedTrial:
    """One attempt at a task.

    Attributes:
        task: its id.
        attempt: from 1.
        failure: how it ended, in Terminal-Bench's words.
        resolved: None: no verdict (timeout of the tests, crash).
        started, ended: times with a zone.
        tokens: (input, output).
        id: the harness's own.
    """

    task: str
    attempt: int
    failure: str
    resolved: bool | None
    started: datetime
    ended: datetime
    tokens: tuple[int, int]
    id: str

    @property
    def crashed(self) -> bool:
        """Whether it left no result of its own."""
        return self.failure == CRASH

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return (self.ended - self.started).total_seconds()


class Fate:
    """Draws trials.

    Args:
        seed: of everything.
        start: when the first one starts.

    Attributes:
        now: when the next one starts.
    """

    def __init__(self, seed: int, start: datetime) -> None:
        self.random = Random(f"{seed} outcomes")
        self.now = start

    def trial(self, task: str, attempt: int, *, crashes: bool = True) -> SimulatedTrial:
        """A trial that starts now; `crashes`: whether it may."""
        random = self.random
        (failure,) = random.choices(list(_KINDS), list(_KINDS.values()))
        if failure == CRASH and not crashes:
            failure = UNSET
        verdict = random.random() < _SKILL
        resolved = None if failure in (CRASH, TEST_TIMEOUT) else verdict
        seconds = random.lognormvariate(3.5, 0.5) * (1 if resolved else FAILURES_TAKE)
        return SimulatedTrial(
            task,
            attempt,
            failure,
            resolved,
            self.now,
            self.now + timedelta(seconds=round(seconds, 3)),
            (int(random.lognormvariate(10, 0.6)), int(random.lognormvariate(7.5, 0.6))),
            self.new_id(),
        )

    def new_id(self) -> str:
        """A UUID."""
        return str(UUID(int=self.random.getrandbits(128), version=4))


def attempts_of(trials: int) -> int:
    """Attempts for each task, so that so many trials fill whole tasks if possible.

    >>> attempts_of(20), attempts_of(9), attempts_of(7)
    (5, 3, 1)
    """
    return next(attempts for attempts in (5, 3, 2, 1) if trials % attempts == 0)
