"""`StateReader` and `AsyncStateReader`: current state from Redis, and how it changes.

Ids and labels are exactly as agents and harnesses wrote them, so escape them before printing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from streamer.client.queries import (
    SUMMARIES,
    AnyState,
    Exchange,
    NotReached,
    Queries,
    RedisCommand,
    RedisUnavailable,
    UnknownRun,
    finished,
    in_round_trips,
    parsed,
    stored_in,
)
from streamer.schemas.summaries import Leader, RunSummary, ScoredTrial
from streamer.schemas.wire import Version, is_older
from streamer.settings import Settings
from streamer.storage.entries import (
    DELETED,
    Keys,
    as_text,
    cancellable,
    parse_version,
    read_run,
    version_text,
)
from streamer.storage.redis import (
    UNREACHABLE,
    Listener,
    address,
    async_client,
    listening_client,
    refuse_plaintext,
    sync_client,
)

# -----------------------------------------------------------------------------
# Read current state from Redis.


TIMEOUT_SECONDS = 5.0
POLL_SECONDS = 0.2

Predicate: TypeAlias = Callable[[RunSummary], bool]

T = TypeVar("T")
P = ParamSpec("P")


def _asks(
    question: Callable[Concatenate[Queries, P], Exchange[T]],
) -> Callable[Concatenate[StateReader, P], T]:
    """The reader's method for a question, with its arguments and docstring."""

    @wraps(question)
    def ask(reader: StateReader, /, *args: P.args, **options: P.kwargs) -> T:
        return reader._answer(question(reader._questions, *args, **options))

    return ask


class StateReader:
    """Answers questions about runs from Redis; use it as a context manager, or call `close()`.

    Every method but `trials`, which reads the log, raises RedisUnavailable if Redis does not answer.

    Args:
        settings: the address of Redis; None: as every command finds it.
        timeout_seconds: limit of one round trip.
    """

    def __init__(self, settings: Settings | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._settings = settings = settings or Settings()
        self._address, self._url = address(settings.redis), settings.redis
        self._questions = Queries(Keys(settings.namespace))
        with reachable(self._address, self._url):
            refuse_plaintext(settings.redis)
            self._client = sync_client(settings.redis, settings.redis_options(), timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    runs = _asks(Queries.runs)
    page_of_runs = _asks(Queries.page_of_runs)
    leaders = _asks(Queries.leaders)
    run = _asks(Queries.run)
    answers = _asks(Queries.answers)
    snapshot = _asks(Queries.snapshot)
    in_flight = _asks(Queries.in_flight)
    comparison = _asks(Queries.comparison)
    agents = _asks(Queries.agents)
    tiers = _asks(Queries.tiers)
    leaderboard = _asks(Queries.leaderboard)
    board_runs = _asks(Queries.board_runs)
    history = _asks(Queries.history)
    workers = _asks(Queries.workers)

    def trials(self, run_id: str) -> list[ScoredTrial]:
        """The scored trial of every filled slot of a run, by key; from the log, as Redis lacks single trials.

        Raises:
            NotInLog: the log has no such trial.
            TopicMissing, TopicUnreadable, KafkaError: see `streamer.storage.log`.
        """
        from streamer.client.feeds import scored_trials  # other questions load no Kafka client

        return list(map(ScoredTrial.model_validate_json, scored_trials(self._settings, run_id)))

    def wait_for(
        self, run_id: str, until: Predicate = finished, *, timeout_seconds: float | None = None
    ) -> RunSummary:
        """Wait until the run's summary meets a condition; it is checked five times a second.

        The run need not exist yet. Waits through outages of Redis, except on the first call.

        Args:
            until: the condition.
            timeout_seconds: limit; None: no limit.

        Raises:
            NotReached: the time ran out.
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


class SomeRunsReader(StateReader):
    """A reader limited to chosen runs; it sees nothing before one is chosen."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.chosen: frozenset[str] = frozenset()

    def runs(self) -> list[RunSummary]:
        return [run for run in super().runs() if run.run_id in self.chosen] if self.chosen else []

    def follows(self, run_id: str) -> bool:
        return run_id in self.chosen

    def only(self) -> str | None:
        return next(iter(self.chosen)) if len(self.chosen) == 1 else None


@contextmanager
def reachable(where: str, url: str | None = None) -> Iterator[None]:
    """Turn redis-py's exceptions into RedisUnavailable, which explains `url`."""
    try:
        yield
    except UNREACHABLE as error:
        raise RedisUnavailable(where, error, url) from error


# -----------------------------------------------------------------------------
# The changes in Redis since the last read, found by the versions of the keys.


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """The present version of one summary, or its deletion.

    Attributes:
        kind: `run`, `agent_model` or `tier`.
        group: rest of the key's suffix, ids percent-encoded: `A:M`, `T`, `T:A:M`, "" for the run.
        key: the Redis key.
        summary: None if deleted.
        leader: leader of a run, if all runs are followed; None: no agent has a known value.
    """

    run_id: str
    kind: str
    group: str
    key: str
    summary: AnyState | None
    leader: Leader | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    version: Version
    digest: str | None


class ChangeFeed:
    """A memory of version and digest of every yielded key; a lower version is never yielded again."""

    def __init__(self, keys: Keys, run_id: str | None) -> None:
        self._keys = keys
        self._questions = Queries(keys)
        self._run_id = run_id
        self._seen: dict[str, dict[str, _Seen]] = {}

    def everything(self, *, thorough: bool) -> Exchange[list[StateUpdate]]:
        """All changes; `thorough` includes values that changed without a new version."""
        if self._run_id is not None:
            run_ids = [self._run_id]
        else:
            stored = yield from self._questions.run_ids()
            run_ids = list(dict.fromkeys([*stored, *self._seen]))
        return (yield from self.of_runs(run_ids, thorough=thorough))

    def of_runs(
        self, run_ids: Iterable[str], named: Collection[str] = (), *, thorough: bool = False
    ) -> Exchange[list[StateUpdate]]:
        """The changes in some runs, each run from one moment.

        Keys in `named` may have changed without a new version; `thorough` looks at every key.
        """
        chosen = [run_id for run_id in run_ids if self._run_id in (None, run_id)]
        before = {run: dict(self._seen.get(run, {})) for run in chosen}
        digests = {run: {} if thorough else self._digests(run, named) for run in chosen}
        commands = [read_run(self._keys, run, (*SUMMARIES, "within"), digests[run]) for run in chosen]
        replies = yield from in_round_trips(commands)
        updates = [up for run, reply in zip(chosen, replies, strict=True) for up in self._of(run, reply)]
        runs = [up.summary for up in updates if isinstance(up.summary, RunSummary)]
        if self._run_id is not None or not runs:
            return updates
        try:
            leaders = yield from self._questions.leaders(runs)
        except BaseException:
            self._seen |= before  # changes not yielded are not seen: the next read finds them
            raise
        return [replace(up, leader=leaders.get(up.run_id)) if up.kind == "run" else up for up in updates]

    def _digests(self, run_id: str, named: Collection[str]) -> dict[str, str]:
        return {
            suffix: version_text(seen.version)
            for suffix, seen in self._seen.get(run_id, {}).items()
            if self._keys.of_run(run_id, suffix) not in named
        }

    def _of(self, run_id: str, reply: Sequence[Any]) -> list[StateUpdate]:
        seen = self._seen.setdefault(run_id, {})
        fields = zip(reply[0][::2], reply[0][1::2], strict=True)
        versions = {as_text(field): parse_version(value) for field, value in fields}
        run_deleted = versions.pop(DELETED, None)
        updates = []
        for suffix, before in list(seen.items()):
            is_deleted = suffix not in versions and run_deleted is not None and run_deleted >= before.version
            if is_deleted and before.digest is not None:
                seen[suffix] = _Seen(before.version, None)
                updates.append(self._update(run_id, suffix, None))
        for suffix, value in stored_in(reply).items():
            updates += self._updates(run_id, suffix, versions[suffix], value)
        return updates

    def _updates(self, run_id: str, suffix: str, version: Version, value: bytes | None) -> list[StateUpdate]:
        seen = self._seen[run_id]
        before = seen.get(suffix, _Seen((0, -1), None))
        summary = None
        if value is not None:
            summary = parsed(SUMMARIES[suffix.partition(":")[0]], self._keys.of_run(run_id, suffix), value)
            version = (summary.epoch, summary.state_version)
        now = _Seen(version, summary.digest if summary else None)
        if is_older(version, before.version):
            return []
        seen[suffix] = now
        if now == before or now.digest is before.digest is None:
            return []
        return [self._update(run_id, suffix, summary)]

    def _update(self, run_id: str, suffix: str, summary: AnyState | None) -> StateUpdate:
        kind, _, group = suffix.partition(":")
        return StateUpdate(run_id, kind, group, self._keys.of_run(run_id, suffix), summary)


# -----------------------------------------------------------------------------
# Read current state from Redis with asyncio, and follow how it changes.


log = logging.getLogger("streamer.client")

FIRST_SILENCE_SECONDS = 1.0
LAST_SILENCE_SECONDS = 30.0
"""The longest silence before everything is checked again; just after a connect it is shorter.

Workers that refill an emptied Redis do not announce their writes.
"""

RETRY_SECONDS = 0.5


def _asks_async(
    question: Callable[Concatenate[Queries, P], Exchange[T]],
) -> Callable[Concatenate[AsyncStateReader, P], Coroutine[Any, Any, T]]:
    @wraps(question)
    async def ask(reader: AsyncStateReader, /, *args: P.args, **options: P.kwargs) -> T:
        return await reader._answer(question(reader._questions, *args, **options))

    return ask


class AsyncStateReader:
    """`StateReader` for asyncio; use it as an async context manager, or await `close()`.

    It takes the same arguments.
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

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    runs = _asks_async(Queries.runs)
    page_of_runs = _asks_async(Queries.page_of_runs)
    leaders = _asks_async(Queries.leaders)
    run = _asks_async(Queries.run)
    answers = _asks_async(Queries.answers)
    snapshot = _asks_async(Queries.snapshot)
    in_flight = _asks_async(Queries.in_flight)
    comparison = _asks_async(Queries.comparison)
    agents = _asks_async(Queries.agents)
    tiers = _asks_async(Queries.tiers)
    leaderboard = _asks_async(Queries.leaderboard)
    board_runs = _asks_async(Queries.board_runs)
    history = _asks_async(Queries.history)
    workers = _asks_async(Queries.workers)

    async def trials(self, run_id: str) -> list[ScoredTrial]:
        """The same as `StateReader.trials`."""
        from streamer.client.feeds import scored_trials

        values = await asyncio.to_thread(scored_trials, self._settings, run_id)
        return list(map(ScoredTrial.model_validate_json, values))

    async def wait_for(
        self, run_id: str, until: Predicate = finished, *, timeout_seconds: float | None = None
    ) -> RunSummary:
        """Wait as StateReader.wait_for does, but woken by Redis; raises NotReached if the time runs out."""
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
        """The present state, then each change, without end. No change is missed, and versions never go back.

        It may yield only the last of several quick changes. After a lost connection, it yields all changes in
        between. Break out of it under `contextlib.aclosing`, which closes its connection at once.

        Args:
            run_id: only this run; None: all.
            from_now: skip the present state.

        Raises:
            RedisUnavailable: Redis does not answer at the start; later outages are waited out.
            UnreadableSummary: a newer version of streamer wrote the value.
        """
        watch = ChangeFeed(self._keys, run_id)
        told = not from_now
        begun = False
        while True:
            try:
                async with self._listening() as listener:
                    changes = await self._answer(watch.everything(thorough=True))
                    for update in changes if told else []:
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
                changes = await self._answer(watch.of_runs(run_ids, keys))
            else:
                changes = await self._answer(watch.everything(thorough=False))
                silence = min(2 * silence, LAST_SILENCE_SECONDS)
            for update in changes:
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
