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
SKILL = 0.6
"""How likely an agent passes a trial by default."""

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
        speed: agents are so many times as fast as usual, and use so many times fewer tokens; > 0.

    Attributes:
        now: when the next one starts.
    """

    def __init__(self, seed: int, start: datetime, speed: float = 1.0) -> None:
        self._speed = speed
        self.random = Random(f"{seed} outcomes")
        self.now = start

    def trial(self, task: str, attempt: int, *, crashes: bool = True, skill: float = SKILL) -> SimulatedTrial:
        """A trial that starts now. `crashes`: whether it may. `skill`: how likely it passes, 0 to 1."""
        random = self.random
        (failure,) = random.choices(list(_KINDS), list(_KINDS.values()))
        if failure == CRASH and not crashes:
            failure = UNSET
        verdict = random.random() < skill
        resolved = None if failure in (CRASH, TEST_TIMEOUT) else verdict
        seconds = random.lognormvariate(3.5, 0.5) * (1 if resolved else FAILURES_TAKE) / self._speed
        return SimulatedTrial(
            task,
            attempt,
            failure,
            resolved,
            self.now,
            self.now + timedelta(seconds=round(seconds, 3)),
            (self._tokens(10), self._tokens(7.5)),
            self.new_id(),
        )

    def _tokens(self, usual: float) -> int:
        """Tokens around e to the power of `usual`."""
        return int(self.random.lognormvariate(usual, 0.6) / self._speed)

    def new_id(self) -> str:
        """A UUID."""
        return str(UUID(int=self.random.getrandbits(128), version=4))


def attempts_of(trials: int) -> int:
    """Attempts for each task, so that so many trials fill whole tasks if possible.

    >>> attempts_of(20), attempts_of(9), attempts_of(7)
    (5, 3, 1)
    """
    return next(attempts for attempts in (5, 3, 2, 1) if trials % attempts == 0)
