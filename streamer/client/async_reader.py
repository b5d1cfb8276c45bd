"""Read current state from Redis with asyncio, and follow how it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from streamer.client.change_feed import ChangeFeed, StateUpdate
from streamer.client.queries import Exchange, Queries, RedisCommand
from streamer.client.reader import TIMEOUT_SECONDS, reachable
from streamer.client.results import (
    BoardRun,
    ComparedRun,
    HistoryEntry,
    LeaderboardRow,
    RedisUnavailable,
    RunSnapshot,
    WorkerStatus,
)
from streamer.client.wait import NotReached, Predicate, finished
from streamer.redis.cancelling import cancellable
from streamer.redis.channel import Listener
from streamer.redis.connect import address, async_client, listening_client, refuse_plaintext
from streamer.redis.keys import Keys
from streamer.schemas.in_flight import TrialInFlight
from streamer.schemas.summaries import AgentModelSummary, RunSummary, TierSummary
from streamer.settings import Settings

__all__ = ["AsyncStateReader", "StateUpdate"]

log = logging.getLogger("streamer.client")

FIRST_SILENCE_SECONDS = 1.0
LAST_SILENCE_SECONDS = 30.0
"""When nothing was heard for so long everything is looked at again: soon after a connect, then less often.

Workers that fill an emptied Redis do not publish what they write.
"""

RETRY_SECONDS = 0.5

T = TypeVar("T")


class AsyncStateReader:
    """As `StateReader`, awaited; use it as an async context manager, or await `close()`.

    Args:
        settings: where Redis is; None: as every command finds it.
        timeout_seconds: how long one round trip may take.
    """

    def __init__(self, settings: Settings | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._settings = settings = settings or Settings()
        self._timeout = timeout_seconds
        self._address = address(settings.redis)
        self._unheard: str | None = settings.redis  # the URL, until Redis has answered once
        self._keys = Keys(settings.namespace)
        self._questions = Queries(self._keys)
        with reachable(self._address, self._unheard):
            refuse_plaintext(settings.redis)
            options = settings.redis_options()
            self._client = async_client(settings.redis, options, timeout_seconds, retries=1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def runs(self) -> list[RunSummary]:
        """All runs, the one with the latest event first."""
        return await self._answer(self._questions.runs())

    async def run(self, run_id: str) -> RunSummary:
        """One run; UnknownRun if Redis has none of this id."""
        return await self._answer(self._questions.run(run_id))

    async def snapshot(self, run_id: str) -> RunSnapshot:
        """A run with its agents, tiers and trials in flight, all from one moment; single calls are not."""
        return await self._answer(self._questions.snapshot(run_id))

    async def in_flight(self, run_id: str) -> list[TrialInFlight]:
        """As StateReader.in_flight."""
        return await self._answer(self._questions.in_flight(run_id))

    async def comparison(self, run_id: str) -> ComparedRun:
        """As StateReader.comparison."""
        return await self._answer(self._questions.comparison(run_id))

    async def agents(self, run_id: str) -> list[AgentModelSummary]:
        """Every agent:model of a run, baselines too, by label."""
        return await self._answer(self._questions.agents(run_id))

    async def tiers(self, run_id: str, *, within: bool = False) -> list[TierSummary]:
        """The tiers of a run, by name; `within`: each followed by the agent:models within it."""
        return await self._answer(self._questions.tiers(run_id, within))

    async def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        now: datetime | None = None,
    ) -> list[LeaderboardRow]:
        """As StateReader.leaderboard."""
        question = self._questions.leaderboard(
            metric, run, benchmark, labels or {}, limit, now or datetime.now(UTC)
        )
        return await self._answer(question)

    async def board_runs(
        self,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[BoardRun]:
        """As StateReader.board_runs."""
        return await self._answer(self._questions.board_runs(run, benchmark, labels or {}))

    async def history(self, run_id: str, *, limit: int | None = None) -> list[HistoryEntry]:
        """Emissions of a run, oldest first; `limit`: the latest so many."""
        return await self._answer(self._questions.history(run_id, limit))

    async def workers(self) -> list[WorkerStatus]:
        """The last heartbeat of every worker, by worker id; see `WorkerStatus.stale`."""
        return await self._answer(self._questions.workers())

    async def wait_for(
        self, run_id: str, until: Predicate = finished, *, timeout_seconds: float | None = None
    ) -> RunSummary:
        """Wait until the run's summary fulfils a condition; like StateReader.wait_for, but woken by Redis.

        Raises:
            NotReached: it did not within that time.
        """
        last: RunSummary | None = None
        try:
            async with asyncio.timeout(timeout_seconds), aclosing(self.updates(run_id)) as updates:  # type: ignore[type-var]
                async for update in updates:
                    if update.kind == "run":
                        last = cast("RunSummary | None", update.summary)
                        if last is not None and until(last):
                            return last
        except TimeoutError:
            raise NotReached(run_id, timeout_seconds, last) from None
        raise AssertionError("updates() ended")

    async def updates(
        self, run_id: str | None = None, *, from_now: bool = False
    ) -> AsyncIterator[StateUpdate]:
        """Everything as it stands, then each change, without end; nothing is missed, and nothing goes back.

        A summary that changes often comes in its latest state, not in each. A lost connection is made again.
        Then all changes in between are yielded. Break out of it under `contextlib.aclosing`, so that it lets
        go of its connection at once.

        Args:
            run_id: only this run; None: all.
            from_now: do not begin with everything as it stands.

        Raises:
            RedisUnavailable: Redis does not answer at the beginning; later outages are sat out.
            UnreadableSummary: a newer version of streamer wrote what stands there.
        """
        watch = ChangeFeed(self._keys, run_id)
        told = not from_now
        begun = False
        while True:
            try:
                async with self._listening() as listener:
                    found = await self._answer(watch.everything(thorough=True))
                    for update in found if told else []:
                        yield update
                    begun = told = True
                    async for update in self._changes(watch, listener):
                        yield update
            except RedisUnavailable as error:
                if not begun:
                    raise
                log.warning("%s. Trying again", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _changes(self, watch: ChangeFeed, listener: Listener) -> AsyncIterator[StateUpdate]:
        silence = FIRST_SILENCE_SECONDS
        while True:
            with reachable(self._address):
                messages = await listener.next_messages(silence)
            if messages:
                run_ids = dict.fromkeys(str(message["run"]) for message in messages)
                keys = {str(message["key"]) for message in messages}
                found = await self._answer(watch.of_runs(run_ids, keys))
            else:
                found = await self._answer(watch.everything(thorough=False))
                silence = min(2 * silence, LAST_SILENCE_SECONDS)
            for update in found:
                yield update

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[Listener]:
        options = self._settings.redis_options()
        client = listening_client(self._settings.redis, options, self._timeout)
        async with client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
            with reachable(self._address, self._unheard):
                await cancellable(pubsub.subscribe(self._keys.updates))
            yield Listener(pubsub, self._timeout)

    async def _answer(self, question: Exchange[T]) -> T:
        try:
            commands = next(question)
            while True:
                commands = question.send(await self._replies(commands))
        except StopIteration as end:
            return cast(T, end.value)

    async def _replies(self, commands: list[RedisCommand]) -> list[Any]:
        with reachable(self._address, self._unheard):
            if len(commands) == 1:
                asked = self._client.execute_command(*commands[0])  # type: ignore[no-untyped-call]
                replies = [await cancellable(asked)]
            else:
                pipe = self._client.pipeline(transaction=False)
                for command in commands:
                    pipe.execute_command(*command)
                replies = await cancellable(pipe.execute())
        self._unheard = None
        return replies
