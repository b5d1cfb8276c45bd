"""Read current state from Redis.

Ids and labels come back as agents and harnesses wrote them: escape them where they are printed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from streamer.client.queries import Exchange, Queries, RedisCommand
from streamer.client.results import (
    BoardRun,
    ComparedRun,
    HistoryEntry,
    LeaderboardRow,
    RedisUnavailable,
    RunSnapshot,
    UnknownRun,
    WorkerStatus,
)
from streamer.client.wait import NotReached, Predicate, finished
from streamer.redis.connect import address, refuse_plaintext, sync_client
from streamer.redis.errors import UNREACHABLE
from streamer.redis.keys import Keys
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.settings import Settings

TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.2

T = TypeVar("T")


class StateReader:
    """Answers questions about runs from Redis; use it as a context manager, or call `close()`.

    Every method raises RedisUnavailable where Redis does not answer.

    Args:
        settings: where Redis is; None: as every command finds it.
        timeout_seconds: how long one round trip may take.
    """

    def __init__(self, settings: Settings | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        settings = settings or Settings()
        self._address, self._url = address(settings.redis), settings.redis
        self._questions = Queries(Keys(settings.namespace))
        with reachable(self._address, self._url):
            refuse_plaintext(settings.redis)
            self._client = sync_client(settings.redis, settings.redis_options(), timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def runs(self) -> list[RunSummary]:
        """All runs, the one with the latest event first."""
        return self._answer(self._questions.runs())

    def run(self, run_id: str) -> RunSummary:
        """One run; UnknownRun if Redis has none of this id."""
        return self._answer(self._questions.run(run_id))

    def snapshot(self, run_id: str) -> RunSnapshot:
        """A run with its agents, tiers and trials in flight, all from one moment; single calls are not."""
        return self._answer(self._questions.snapshot(run_id))

    def in_flight(self, run_id: str) -> list[TrialInFlight]:
        """The trials of a run that have started and have no result, 1,000 at most.

        The longest in flight come first, and trials of unknown start last. None are listed once the run has
        finished, or while it is in quarantine. Raises UnknownRun if Redis has no run of this id.
        """
        return self._answer(self._questions.in_flight(run_id))

    def comparison(self, run_id: str) -> ComparedRun:
        """The agents of a run compared, with their ranks, and its tasks, all from one moment.

        Both come at most once a second. `streamer.views.pair_standings` says what two agents' counts mean.
        Raises UnknownRun if Redis has no run of this id.
        """
        return self._answer(self._questions.comparison(run_id))

    def agents(self, run_id: str) -> list[AgentModelSummary]:
        """Every agent:model of a run, baselines too, by label."""
        return self._answer(self._questions.agents(run_id))

    def tiers(self, run_id: str, *, within: bool = False) -> list[TierSummary]:
        """The tiers of a run, by name; `within`: each followed by the agent:models within it."""
        return self._answer(self._questions.tiers(run_id, within))

    def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        now: datetime | None = None,
    ) -> list[LeaderboardRow]:
        """Agent:models by a metric, best first; baselines are left out, provisional ones come last.

        Args:
            metric: a METRIC of docs/redis.md; UnknownMetric lists them.
            run: only this run; UnknownRun if there is none.
            benchmark: only runs of this benchmark; UnknownBenchmark if no run names it.
            labels: only runs that have all of these labels.
            limit: at most so many rows; None: all.
            now: the time at which the runs' states are determined; None: the wall clock.
        """
        moment = now or datetime.now(UTC)
        return self._answer(self._questions.leaderboard(metric, run, benchmark, labels or {}, limit, moment))

    def board_runs(
        self,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[BoardRun]:
        """The latest 400 runs with their agents; of runs that are over also the tasks, each from one moment.

        `streamer.views.leaderboard.boards_of` makes leaderboards of them.

        Args:
            run: only this run; UnknownRun if there is none.
            benchmark: only runs of this benchmark; UnknownBenchmark if no run names it.
            labels: only runs that have all of these labels.
        """
        return self._answer(self._questions.board_runs(run, benchmark, labels or {}))

    def history(self, run_id: str, *, limit: int | None = None) -> list[HistoryEntry]:
        """Emissions of a run, oldest first; `limit`: the latest so many."""
        return self._answer(self._questions.history(run_id, limit))

    def workers(self) -> list[WorkerStatus]:
        """The last heartbeat of every worker, by worker id; see `WorkerStatus.stale`."""
        return self._answer(self._questions.workers())

    def wait_for(
        self, run_id: str, until: Predicate = finished, *, timeout_seconds: float | None = None
    ) -> RunSummary:
        """Wait until the run's summary fulfils a condition; it is looked at five times a second.

        The run need not exist yet. An outage of Redis is sat out, but not at the beginning.

        Args:
            run_id: the run.
            until: what has to be true of the summary.
            timeout_seconds: None: wait without a limit.

        Raises:
            NotReached: it was not within that time.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        last: RunSummary | None = None
        answered = False
        while True:
            try:
                last = self.run(run_id)
                if until(last):
                    return last
            except UnknownRun:
                last = None
            except RedisUnavailable:
                if not answered:
                    raise
            answered = True
            if deadline is not None and time.monotonic() >= deadline:
                raise NotReached(run_id, timeout_seconds, last)
            time.sleep(POLL_SECONDS)

    def _answer(self, question: Exchange[T]) -> T:
        try:
            commands = next(question)
            while True:
                commands = question.send(self._replies(commands))
        except StopIteration as end:
            return cast(T, end.value)

    def _replies(self, commands: list[RedisCommand]) -> list[Any]:
        with reachable(self._address, self._url):
            if len(commands) == 1:
                return [self._client.execute_command(*commands[0])]  # type: ignore[no-untyped-call]
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            return pipe.execute()


@contextmanager
def reachable(where: str, url: str | None = None) -> Iterator[None]:
    """Turns what redis-py raises into RedisUnavailable; `url`: see there."""
    try:
        yield
    except UNREACHABLE as error:
        raise RedisUnavailable(where, error, url) from error
