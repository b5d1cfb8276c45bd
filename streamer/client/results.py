"""The answers of a reader besides summaries, and its errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from streamer.client.lifecycle import State
from streamer.redis.connect import other_protocol
from streamer.redis.errors import AuthenticationError, AuthorizationError, ResponseError
from streamer.schemas.comparison import RunComparison, TaskOutcomes
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.metrics import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary

STALE_AFTER = timedelta(seconds=30)
"""A worker whose last heartbeat is older than this is gone, or stuck."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Everything of a run, all from one moment.

    Attributes:
        run: the run itself.
        agents: every agent:model, baselines too, by label.
        tiers: each tier, by name, followed by the agent:models within it.
        in_flight: trials that have started and have no result, the longest in flight first; 1,000 at most.
    """

    run: RunSummary
    agents: list[AgentModelSummary]
    tiers: list[TierSummary]
    in_flight: list[TrialInFlight]


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """The agents of a run compared, all from one moment.

    Attributes:
        run: the run itself.
        comparison: every two agents, and their ranks; None: fewer than two agents.
        tasks: task, as :func:`~streamer.schemas.identity.task_key` writes it, to the trials of each
            agent:model: known, passed, unknown.
    """

    run: RunSummary
    comparison: RunComparison | None
    tasks: dict[str, TaskOutcomes]


@dataclass(frozen=True, slots=True)
class BoardRun:
    """A run as leaderboards read it, all from one moment.

    Attributes:
        run: the run itself.
        agents: every agent:model, baselines too, by label.
        tasks: as of `ComparedRun`; {} while the run is not over.
    """

    run: RunSummary
    agents: list[AgentModelSummary]
    tasks: dict[str, TaskOutcomes]


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One place on a board.

    Attributes:
        rank: from 1; equal values share a rank, and the next one counts them all.
        run: run id.
        agent_model: label `agent:model`.
        value: in the unit of the metric; may be inf.
        provisional: planned trials are missing; such rows come after all others.
        state: of the run, one of the words of docs/viewer.md.
        grade: S, A to F, or None.
        grade_basis: what the grade rests on: composite_median, mean_pass_rate, or None.
        grade_provisional: trials of a judged agent wait for their judge.
        trials: how many trials the value rests on.
    """

    rank: int
    run: str
    agent_model: str
    value: float
    provisional: bool
    state: State
    grade: str | None
    grade_basis: str | None
    grade_provisional: bool
    trials: int


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One emission.

    Attributes:
        id: the entry's id in the stream `streamer:{RUN}:history`.
        kind: run, agent_model or tier.
        group: rest of the key's suffix, percent-encoded: `A:M`, `T`, `T:A:M`, "" for the run.
        epoch, state_version: where the emission stands.
        last_event_at: event time, None if not known.
        deleted: the group emptied.
        headline: its headline numbers as text, by name; what was not known is absent.
    """

    id: str
    kind: str
    group: str
    epoch: int
    state_version: int
    last_event_at: datetime | None
    deleted: bool
    headline: dict[str, str]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The last heartbeat of a worker."""

    worker_id: str
    at: datetime
    status: dict[str, Any]

    def stale(self, now: datetime, after: timedelta = STALE_AFTER) -> bool:
        """Whether the worker has been silent for too long."""
        return now - self.at > after


class ReaderError(Exception):
    """Current state could not be read."""


class RedisUnavailable(ReaderError):
    """Redis does not answer, or refuses.

    Args:
        address: of Redis, fit for printing.
        error: what redis-py raised.
        url: of Redis, to find out whether one side speaks TLS and the other does not; never printed.
    """

    def __init__(self, address: str, error: Exception, url: str | None = None) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        refuses = isinstance(error, AuthenticationError | AuthorizationError | ResponseError)
        if url and not refuses and (wrong := other_protocol(url)):
            said = f"{wrong}, in --redis or STREAMER_REDIS"
        elif refuses:
            said = (
                f"refuses ({reason}). Check the user in STREAMER_REDIS, its password "
                "(STREAMER_REDIS_PASSWORD or ..._PASSWORD_FILE) and what it may do"
            )
        elif "CERTIFICATE_VERIFY_FAILED" in reason:
            said = (
                f"has a certificate that is not trusted ({reason}). Name the CA that signed it with "
                "STREAMER_REDIS_CAFILE, and the host as the certificate does"
            )
        else:
            said = (
                f"does not answer ({reason}). Start it (`streamer up` starts one on this "
                "machine), or say where it is with --redis or STREAMER_REDIS"
            )
        super().__init__(f"Redis at {address} {said}")


class UnknownRun(ReaderError):
    """No such run in Redis."""

    def __init__(self, run_id: str, known: Iterable[str]) -> None:
        runs = list(known)
        close = get_close_matches(run_id, runs, n=5, cutoff=0.4)
        if close:
            hint = f"Did you mean {', '.join(close)}?"
        elif runs:
            hint = f"The latest of {len(runs)} runs: {', '.join(runs[:5])}."
        else:
            hint = "There are no runs yet: publish some events first, with a worker running."
        super().__init__(f"There is no run {run_id!r}. {hint}")


class UnknownMetric(ReaderError):
    """No board has this metric."""

    def __init__(self, metric: str) -> None:
        known = ", ".join(BOARD_METRICS)
        super().__init__(f"There is no board of {metric!r}. Metrics: {known}, and metrics/NAME.")


class UnknownBenchmark(ReaderError):
    """No run names this benchmark."""

    def __init__(self, benchmark: str, known: Iterable[str]) -> None:
        named = ", ".join(sorted(known)) or "none yet; a run names one in its run_started event"
        super().__init__(f"No run names the benchmark {benchmark!r}. Benchmarks: {named}.")


class UnreadableSummary(ReaderError):
    """The value under a key is no summary that this version understands."""

    def __init__(self, key: str, error: Exception) -> None:
        first = str(error).splitlines()[:3]
        super().__init__(
            f"The value of {key} is no summary that this version of streamer reads ({' '.join(first)}). "
            "If a newer worker wrote it, update this streamer; otherwise restart a worker: it repairs it"
        )
