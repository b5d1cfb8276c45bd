"""Clients of Redis, for one server or a cluster, and the sink through which a worker writes to it.

>>> split_url("redis://host:6379/0?cluster=true")
('redis://host:6379/0', True)
>>> address("rediss://user:secret@host:6380/0")
'host:6380'
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Self, TypeAlias, TypeVar, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import orjson
import redis
import redis.asyncio
from redis.asyncio import Connection, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisClusterException
from redis.exceptions import RedisError as RedisError
from redis.exceptions import ResponseError as ResponseError
from redis.retry import Retry

from streamer.folding.slots import RunUpdate
from streamer.schemas.base import encode_id
from streamer.schemas.events import BOARD_METRICS
from streamer.settings import Settings, mismatch
from streamer.storage.entries import (
    NOT_TAKEN,
    RUN_SUFFIX,
    Backlog,
    Keys,
    KeyState,
    RunOwner,
    Write,
    WriteRun,
    as_text,
    cancellable,
    entries_of,
    last_event_seconds,
    parse_version,
    write_heartbeat,
)

# -----------------------------------------------------------------------------
# The errors of redis-py, for modules that handle them.


DENIED = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthorizationError,
    redis.exceptions.NoPermissionError,
)
"""Refusals of who asks."""

REFUSED = (*DENIED, redis.exceptions.BusyLoadingError, ResponseError)
"""All refusals: Redis answers, but does not do what it was asked."""

OF_A_CLUSTER = redis.exceptions.MovedError
"""The refusal of a server that is part of a cluster."""

UNREACHABLE = (RedisError, RedisClusterException, OSError, TimeoutError)
"""Every way in which Redis can fail a write, including refusals (read-only, out of memory)."""


# -----------------------------------------------------------------------------
# Clients of Redis, sync and async, of one server or of a cluster (`?cluster=true` in the URL).


SyncClient: TypeAlias = redis.Redis
Client = TypeVar("Client", redis.Redis, redis.asyncio.Redis)
OnConnect = Callable[[redis.asyncio.Connection], Awaitable[None]]

SCHEMES = ("redis", "rediss", "unix")
FIRST_ANSWER_SECONDS = 3.0
REDIS_HELLO = b"PING\r\n"
RESP = 2
"""Protocol version with the same replies in every version of redis-py."""


class BadRedisUrl(ValueError):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Redis URL is not usable: {reason}. Write redis://HOST:PORT/0 (rediss:// for TLS, "
            "unix:///PATH for a socket, ?cluster=true for a cluster), in --redis or STREAMER_REDIS"
        )


class OtherProtocol(BadRedisUrl):
    def __init__(self, url: str, wrong: str) -> None:
        Exception.__init__(self, f"Redis at {address(url)} {wrong}, in --redis or STREAMER_REDIS")


def split_url(url: str) -> tuple[str, bool]:
    """The URL without our option, and whether it asks for a cluster.

    >>> split_url("unix:///run/redis.sock?db=2&cluster=false")
    ('unix:///run/redis.sock?db=2', False)
    """
    query = dict(parse_qsl(_split(url).query, keep_blank_values=True))
    cluster = query.pop("cluster", "false").lower() in ("true", "1", "yes")
    return "?".join(filter(None, (url.partition("?")[0], urlencode(query)))), cluster


def address(url: str) -> str:
    """`host:port` for messages, because a URL may contain a password."""
    parts = _split(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path


def other_protocol(url: str) -> str | None:
    """Advice if only one of URL and server uses TLS; else None. Takes up to three seconds."""
    parts = _split(split_url(url)[0])
    if parts.scheme == "unix" or not parts.hostname:
        return None
    tls = parts.scheme == "rediss"
    wrong = mismatch(parts.hostname, parts.port or 6379, REDIS_HELLO, tls=tls)
    scheme = "redis://" if tls else "rediss://"
    return f"{wrong}, and its URL begins with {parts.scheme}://. Write {scheme}" if wrong else None


def refuse_plaintext(url: str) -> None:
    """Raise ConnectionError if only the URL uses TLS, which redis-py would detect only after a long wait."""
    if url.startswith("rediss:") and other_protocol(url):
        raise ConnectionError("no TLS")


async def check_protocol(url: str, options: Mapping[str, Any]) -> None:
    client = async_client(url, options, FIRST_ANSWER_SECONDS)
    try:
        await client.ping()
    except (RedisError, RedisClusterException, OSError):
        if wrong := await asyncio.to_thread(other_protocol, url):
            raise OtherProtocol(url, wrong) from None
    finally:
        await client.aclose()


def async_client(
    url: str,
    options: Mapping[str, Any],
    timeout_seconds: float,
    on_connect: OnConnect | None = None,
    *,
    retries: int = 0,
) -> redis.asyncio.Redis:
    """A client that retries immediately. It awaits `on_connect` for each connection, except in a cluster."""
    plain, cluster = split_url(url)
    common = _common(options, timeout_seconds) | {"retry": AsyncRetry(NoBackoff(), retries)}
    if cluster:
        return cast(redis.asyncio.Redis, redis.asyncio.RedisCluster.from_url(plain, **common))
    return _checked(redis.asyncio.Redis, plain, redis_connect_func=on_connect, **common)


def listening_client(url: str, options: Mapping[str, Any], timeout_seconds: float) -> redis.asyncio.Redis:
    """A client for subscriptions, connected to one node, because a cluster shares published messages."""
    return async_client(split_url(url)[0], options, timeout_seconds)


def sync_client(url: str, options: Mapping[str, Any], timeout_seconds: float) -> redis.Redis:
    """A client that tries once more after a stale connection."""
    plain, cluster = split_url(url)
    common = _common(options, timeout_seconds) | {"retry": Retry(NoBackoff(), 1)}
    if cluster:
        return cast(redis.Redis, redis.RedisCluster.from_url(plain, **common))
    return _checked(redis.Redis, plain, **common)


def _checked(kind: type[Client], url: str, **options: Any) -> Client:
    """A client of this kind. redis-py looks at some options of the URL only when it connects."""
    try:
        client = kind.from_url(url, **options)
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError, RedisError) as error:
        raise BadRedisUrl(f"an option after the ? is wrong ({error})") from None
    return client


def _common(options: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
    timeouts = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
    return {"protocol": RESP, **timeouts, **options}


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (parsed, and checked, when it is asked for)
    except ValueError:
        raise BadRedisUrl(
            "its host or port cannot be read (is every / ? # @ in the password encoded?)"
        ) from None
    if parts.scheme not in SCHEMES:
        raise BadRedisUrl(f"unsupported scheme; use one of {', '.join(SCHEMES)}")
    if parts.scheme != "unix" and "@" in parts.path + parts.query + parts.fragment:
        raise BadRedisUrl("there is an @ after the host: / ? # @ in a password must be percent-encoded")
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not (database.isascii() and database.isdecimal()):
        raise BadRedisUrl("the database after the host and / is not a number")
    return parts


# -----------------------------------------------------------------------------
# The keys across runs: the list of runs and the boards of the benchmarks.
#
# They are in separate cluster slots, so no script can guard them together with a run. Instead they follow the
# guarded keys: they are written with them, and rewritten from them whenever the two may differ.


RedisCommand = tuple[str | bytes | float, ...]


@dataclass(slots=True)
class Truth:
    summary: Mapping[str, Any] | None
    boards: dict[str, dict[bytes, float]] = field(default_factory=dict)

    @property
    def benchmark(self) -> str | None:
        return self.summary["benchmark"] if self.summary else None


class AcrossRuns:
    """Writes the keys across runs, and remembers each run's benchmark."""

    def __init__(self, client: Redis, keys: Keys, expire_seconds: int | None) -> None:
        self._client = client
        self._keys = keys
        self._expire_seconds = expire_seconds
        self._benchmarks: dict[str, str | None] = {}
        self._named: dict[str, set[str]] = {}

    def benchmark(self, run_id: str) -> str | None:
        return self._benchmarks.get(run_id)

    def settle(self, run_id: str, benchmark: str | None) -> None:
        """Note which benchmark a write that Redis has left the run in."""
        self._benchmarks[run_id] = benchmark

    def benchmark_with(self, run_id: str, entries: Iterable[KeyState]) -> str | None:
        """The benchmark of a run once Redis has these entries."""
        for entry in entries:
            if entry.suffix == RUN_SUFFIX:
                return entry.summary["benchmark"] if entry.summary else None
        return self.benchmark(run_id)

    def commands(
        self, run_id: str, entries: Sequence[KeyState], benchmark: str | None
    ) -> Iterator[RedisCommand]:
        for entry in entries:
            if entry.suffix == RUN_SUFFIX:
                yield from self._list_run(run_id, entry.summary)
        boards = {
            f"{encode_id(run_id)}|{entry.group}": entry.board()
            for entry in entries
            if entry.kind == "agent_model"
        }
        if benchmark and boards:
            yield from self._place(benchmark, boards)

    async def rewrite(self, runs: Mapping[str, set[str]]) -> None:
        """Correct the keys across runs, for all benchmarks that list these runs, or should."""
        truths = await self._read(runs)
        self._benchmarks.update({run_id: truth.benchmark for run_id, truth in truths.items()})
        pipe = self._client.pipeline(transaction=False)
        for run_id, truth in truths.items():
            for command in self._list_run(run_id, truth.summary):
                pipe.execute_command(*command)
        benchmarks = {name for names in runs.values() for name in names}
        benchmarks |= {truth.benchmark for truth in truths.values() if truth.benchmark}
        for benchmark in benchmarks:
            for command in await self._corrections(benchmark, truths):
                pipe.execute_command(*command)
        await pipe.execute()

    async def _read(self, runs: Iterable[str]) -> dict[str, Truth]:
        run_ids = list(runs)
        metrics = await self._metrics(map(self._keys.named_boards, run_ids))
        pipe = self._client.pipeline(transaction=False)
        for run_id, of_run in zip(run_ids, metrics, strict=True):
            pipe.get(self._keys.run(run_id))
            for metric in of_run:
                pipe.zrange(self._keys.board(run_id, metric), 0, -1, withscores=True)
        replies = iter(await pipe.execute())
        truths = {}
        for run_id, of_run in zip(run_ids, metrics, strict=True):
            value = next(replies)
            boards = {metric: dict(next(replies)) for metric in of_run}
            truths[run_id] = Truth(orjson.loads(value) if value else None, boards)
        return truths

    async def _metrics(self, keys: Iterable[str]) -> list[list[str]]:
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.smembers(key)
        return [[*BOARD_METRICS, *sorted(map(as_text, named))] for named in await pipe.execute()]

    async def _corrections(self, benchmark: str, truths: Mapping[str, Truth]) -> list[RedisCommand]:
        [named] = await self._metrics([self._keys.benchmark_named_boards(benchmark)])
        of_runs = {
            metric for truth in truths.values() if truth.benchmark == benchmark for metric in truth.boards
        }
        metrics = [*named, *sorted(of_runs.difference(named))]
        self._named[benchmark] = set(metrics).difference(BOARD_METRICS)
        pipe = self._client.pipeline(transaction=False)
        for metric in metrics:
            pipe.zrange(self._keys.benchmark_board(benchmark, metric), 0, -1, withscores=True)
        prefixes = {encode_id(run_id).encode() for run_id in truths}
        commands = self._note_named(benchmark, self._named[benchmark])
        for metric, board in zip(metrics, await pipe.execute(), strict=True):
            key = self._keys.benchmark_board(benchmark, metric)
            present = {member: score for member, score in board if member.partition(b"|")[0] in prefixes}
            expected = {
                encode_id(run_id).encode() + b"|" + label: score
                for run_id, truth in truths.items()
                if truth.benchmark == benchmark
                for label, score in truth.boards.get(metric, {}).items()
            }
            commands += [("ZREM", key, member) for member in present.keys() - expected.keys()]
            commands += [
                ("ZADD", key, repr(score), member)
                for member, score in expected.items()
                if present.get(member) != score
            ]
            commands += self._expiry(key)
        return commands

    def _list_run(self, run_id: str, summary: Mapping[str, Any] | None) -> Iterator[RedisCommand]:
        if summary is None:
            yield "ZREM", self._keys.runs, encode_id(run_id)
            return
        yield "ZADD", self._keys.runs, repr(last_event_seconds(summary)), encode_id(run_id)
        yield from self._expiry(self._keys.runs)

    def _place(
        self, benchmark: str, boards: Mapping[str, Mapping[str, str | bool]]
    ) -> Iterator[RedisCommand]:
        """Put members on a benchmark's boards, or take them off if the score is False."""
        named = {metric for board in boards.values() for metric in board}.difference(BOARD_METRICS)
        stored = self._named.setdefault(benchmark, set())
        if new := named - stored:
            stored |= new
            yield from self._note_named(benchmark, new)
        for metric in (*BOARD_METRICS, *sorted(stored)):
            key = self._keys.benchmark_board(benchmark, metric)
            scores = {member: score for member, board in boards.items() if (score := board.get(metric))}
            if scores:
                yield "ZADD", key, *[part for member, score in scores.items() for part in (score, member)]
                yield from self._expiry(key)
            if missing := boards.keys() - scores.keys():
                yield "ZREM", key, *missing

    def _note_named(self, benchmark: str, metrics: set[str]) -> list[RedisCommand]:
        if not metrics:
            return []
        key = self._keys.benchmark_named_boards(benchmark)
        return [("SADD", key, *sorted(metrics)), *self._expiry(key)]

    def _expiry(self, key: str) -> Iterator[RedisCommand]:
        if self._expire_seconds:
            yield "EXPIRE", key, self._expire_seconds


# -----------------------------------------------------------------------------
# Listening to the channel of updates.


MESSAGES_AT_ONCE = 1_000


class Listener:
    """A subscriber of the channel of updates that notices a dead connection."""

    def __init__(self, pubsub: PubSub, timeout_seconds: float) -> None:
        self._pubsub = pubsub
        self._timeout = timeout_seconds

    async def next_messages(self, seconds: float) -> list[dict[str, Any]]:
        """All messages that have arrived, waiting for the first one; [] if none arrives for `seconds`.

        Raises a RedisError or OSError if the connection is lost, or Redis does not answer a ping.
        """
        message = await self._pubsub.get_message(timeout=seconds)
        if message is None:
            await cancellable(self._pubsub.ping())
            message = await self._pubsub.get_message(timeout=self._timeout)
            if message is None:
                raise ConnectionError("no answer to a ping")
        messages = []
        while message is not None:
            if message["type"] == "message":
                messages.append(orjson.loads(message["data"]))
            full = len(messages) >= MESSAGES_AT_ONCE
            message = None if full else await self._pubsub.get_message(timeout=0.0)
        return messages


# -----------------------------------------------------------------------------
# The heartbeats of workers: one field per worker in the hash `streamer:workers`.


FORGET_AFTER = timedelta(days=1)
"""Age at which a heartbeat is attributed to a killed worker."""


class Heartbeats:
    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._key = keys.workers
        self._workers: set[str] = set()

    async def beat(self, worker_id: str, status: Mapping[str, Any], at: datetime) -> bool:
        """Write a heartbeat; True if the last one is missing, so that Redis must have lost its data.

        This heartbeat is then removed, because its status is from before the loss. Its `at` is the time of
        Redis, or the argument if the worker may not ask Redis for its time.
        """
        command = write_heartbeat(self._keys, worker_id, orjson.dumps(status), at.isoformat())
        added, written = await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        if worker_id in self._workers:
            if added:
                self._workers.remove(worker_id)
                await self._client.hdel(self._key, worker_id)
            return bool(added)
        self._workers.add(worker_id)
        await self._forget(datetime.fromisoformat(as_text(written)) - FORGET_AFTER)
        return False

    async def stop(self) -> None:
        for worker_id in self._workers:
            await self._client.hdel(self._key, worker_id)

    async def _forget(self, before: datetime) -> None:
        for worker_id, value in (await self._client.hgetall(self._key)).items():
            if datetime.fromisoformat(orjson.loads(value)["at"]) < before:
                await self._client.hdel(self._key, worker_id)


# -----------------------------------------------------------------------------
# Sends runs to Redis: one script call for each, many in a round trip, and the keys across runs with them.


log = logging.getLogger(__name__)

BYTES_PER_ROUND_TRIP = 1 << 20
"""Bytes of scripts and values; a run with more is sent alone, because all its keys change in one step."""
RUNS_PER_REWRITE = 1_000
"""Runs whose keys across runs are corrected before other calls get a turn."""


class Sending:
    """Sends the runs of a backlog, many in a round trip; not for two tasks at once.

    Redis holds newer versions of the `outdated` keys. A run is `refused` if one of its keys has another type.
    """

    def __init__(self, client: Redis, keys: Keys, backlog: Backlog, expire_seconds: int | None) -> None:
        self.refused: set[str] = set()
        self.outdated: dict[str, set[str]] = {}
        self.refusals = 0
        self.rewrite_due: defaultdict[str, set[str]] = defaultdict(set)
        self._client = client
        self._backlog = backlog
        self._write_run = WriteRun(keys, expire_seconds)
        self._across = AcrossRuns(client, keys, expire_seconds)

    async def send(self, runs: deque[str], since: float | None) -> None:
        """Take the first runs off, as many as fit a round trip, and send them; a refused run comes back to
        be sent whole.

        Runs without news are left out if their last event is before `since`. Raises ResponseError if Redis
        takes no writes at all, for example because it is read-only.
        """
        writes: list[Write] = []
        size = 0
        while runs and size < BYTES_PER_ROUND_TRIP:
            run_id = runs.popleft()
            try:
                write = self._backlog.next_write(run_id, since)
            except Exception:
                log.exception("Could not read run %r for Redis; trying again", run_id)
                continue  # it keeps waiting, and delays no others
            if write is not None:
                writes.append(write)
                size += write.size
        if size > BYTES_PER_ROUND_TRIP and len(writes) > 1:
            await self._send(writes[:-1], runs)
            writes = writes[-1:]
        if writes:
            await self._send(writes, runs)

    async def _send(self, writes: Sequence[Write], again: deque[str]) -> None:
        refusals = await self._round_trip(writes, again)
        # A run that Redis refuses for a foreign key does not delay the others.
        self.refused = (self.refused - {write.run_id for write in writes}) | refusals.keys()
        for run_id, refusal in refusals.items():
            if "WRONGTYPE" not in str(refusal):
                raise refusal
            log.warning("Redis refuses run %s (%s): remove the other key; trying again", run_id, refusal)

    async def _round_trip(self, writes: Sequence[Write], again: deque[str]) -> dict[str, Exception]:
        pipe = self._client.pipeline(transaction=False)
        sent = []
        for write in writes:
            start, now = len(pipe), self._across.benchmark_with(write.run_id, write.entries)
            pipe.execute_command(*self._write_run.command(write))
            for command in self._across.commands(write.run_id, write.entries, now):
                pipe.execute_command(*command)
            sent.append((write, now, slice(start, len(pipe))))
        try:
            replies = await pipe.execute(raise_on_error=False)
        except BaseException:
            for write, now, _ in sent:
                self._correct(write.run_id, now)
            raise
        refusals = {}
        for write, now, span in sent:
            refusal = next((reply for reply in replies[span] if isinstance(reply, Exception)), None)
            if refusal:
                refusals[write.run_id] = refusal
            elif int(replies[span.start][0]) == NOT_TAKEN:
                # The keys across runs took the changes, even if the run belongs to another worker by now.
                self._correct(write.run_id, now)
                self._backlog.doubt(write.run_id)
                again.append(write.run_id)
            else:
                self._sent(write, replies[span.start], now)
        return refusals

    def _correct(self, run_id: str, *benchmarks: str | None) -> None:
        """Let the boards of these benchmarks, and of the run's last known one, be corrected for the run."""
        names = (self._across.benchmark(run_id), *benchmarks)
        self.rewrite_due[run_id] |= {name for name in names if name}

    def _sent(self, write: Write, reply: list[Any], now: str | None) -> None:
        """Note that Redis has these entries or newer ones, and whether the keys across runs may be wrong."""
        refusals, before, run_id = int(reply[0]), reply[1].decode() or None, write.run_id
        self._backlog.done(write)
        self._note_refusals(write, set(map(as_text, reply[2])))
        moved = {before, self._across.benchmark(run_id)} - {None, now}
        joined = before is None and now is not None and not write.whole  # without its other agent:models
        if write.corrects or refusals or moved or joined:
            self._correct(run_id, before, now)
        self._across.settle(run_id, now)

    def _note_refusals(self, write: Write, refused: set[str]) -> None:
        """Count refusals. A refused key that this write leaves out is still refused."""
        run_id = write.run_id
        before = self.outdated.pop(run_id, set())
        left_out = set() if write.whole else before.difference(entry.suffix for entry in write.entries)
        self.refusals += len(refused)
        if left_out or refused:
            self.outdated[run_id] = left_out | refused
        if refused and not before:
            log.warning("Redis holds newer values of run %r and refuses %d lower ones", run_id, len(refused))

    async def rewrite(self) -> None:
        """Correct the keys across runs where they may be wrong, for the first of the runs that are due."""
        if not self.rewrite_due:
            return
        first = list(islice(self.rewrite_due, RUNS_PER_REWRITE))
        due = {run_id: self.rewrite_due.pop(run_id) for run_id in first}
        try:
            await self._across.rewrite(due)
        except BaseException:
            for run_id, benchmarks in due.items():
                self.rewrite_due[run_id] |= benchmarks
            raise


# -----------------------------------------------------------------------------
# Summaries to Redis: guarded, without blocking the worker, and converging after any failure of Redis.


MAX_UNSENT_KEYS = 100_000
"""Limit that needs 400 MiB of memory in the worst outage, at about 4 KiB a summary."""
KEYS_AT_ONCE = 1_000

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0


class RedisSink:
    """The sink that keeps Redis in step with the workers' results.

    It never raises because of Redis. Runs that Redis did not take wait in a backlog until it is back. Use it
    from one event loop; calls may overlap.

    Args:
        owner: knows the present runs of this worker, in case Redis lacks data. None: the sink only sends
            written values.
        expire_seconds: expiry of a run's keys after its last write; None: never.
        max_unsent: most keys whose news are remembered while Redis is away; runs with more are sent whole.
        clock: Unix seconds; runs that have expired by it are not sent again.
    """

    def __init__(
        self,
        url: str,
        *,
        keys: Keys,
        owner: RunOwner | None = None,
        options: Mapping[str, Any] | None = None,
        expire_seconds: int | None = None,
        timeout_seconds: float = 5.0,
        max_unsent: int = MAX_UNSENT_KEYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = address(url)
        self._client = async_client(url, options or {}, timeout_seconds, self._connected)
        self._expire_seconds = expire_seconds
        self._clock = clock
        self._backlog = Backlog(owner, max_unsent)
        self._sending = Sending(self._client, keys, self._backlog, expire_seconds)
        # `Sending` serves one task at a time: two could send values of one key in the wrong order.
        self._lock = asyncio.Lock()
        self._away = False
        self._keys = keys
        self._told_away = False
        self._connections = 0
        self._all_in_doubt = False
        self._flushing = 0
        self._recovery: asyncio.Task[None] | None = None
        self._heartbeats = Heartbeats(self._client, keys)

    @classmethod
    def from_settings(cls, settings: Settings, owner: RunOwner | None = None) -> Self:
        return cls(
            settings.redis,
            keys=Keys(settings.namespace),
            owner=owner,
            options=settings.redis_options(),
            expire_seconds=settings.redis_expire_seconds,
        )

    def serve(self, owner: RunOwner) -> None:
        self._backlog.owner = owner

    @property
    def unsent(self) -> int:
        return len(self._backlog)

    @property
    def away(self) -> bool:
        return self._away

    @property
    def held_up(self) -> bool:
        """Whether unsent keys wait for Redis, not just for the round trip that is sending them."""
        return self._away or self._recovering or bool(self._sending.refused)

    @property
    def refusals(self) -> int:
        return self._sending.refusals

    @property
    def outdated(self) -> list[str]:
        """Runs of this worker with newer values in Redis, which therefore refuses its writes."""
        outdated, owner = self._sending.outdated, self._backlog.owner
        return sorted(outdated.keys() & set(owner.run_ids())) if outdated and owner else []

    @property
    def settled(self) -> bool:
        """Whether Redis is known to have everything published."""
        return not (self._away or self._flushing or self._recovering or self._is_due())

    @property
    def _recovering(self) -> bool:
        return self._recovery is not None and not self._recovery.done()

    async def write(self, updates: Sequence[RunUpdate]) -> None:
        """Send changes, history and announcements, one script per run; a background task retries."""
        for update in updates:
            for entry in entries_of(update, notify=True):
                self._backlog.put(entry)
        runs = [
            run_id
            for run_id in dict.fromkeys(update.run_id for update in updates)
            if run_id not in self._sending.refused
        ]
        if runs and not self._away:
            await self._attempt(self._flush(runs))

    async def reconcile(self, run_ids: Iterable[str]) -> None:
        """Send whole runs without announcements, to correct missing, older or surplus data in Redis."""
        doubtful = list(run_ids)
        for run_id in doubtful:
            self._backlog.doubt(run_id)
        if not self._away:
            await self._attempt(self._flush(doubtful))

    async def heartbeat(self, worker_id: str, status: Mapping[str, Any], *, at: datetime) -> None:
        """Write a heartbeat to field `worker_id` of `streamer:workers`: JSON of `status` and `at`.

        A killed worker's field stays, with its old `at` (see `Heartbeats.beat`). A field that vanished shows
        that Redis lost its data, so everything is reconciled. A successful heartbeat also shows that Redis
        takes writes again.
        """
        if self._away or not await self._attempt(self._beat(worker_id, status, at)):
            return
        if self._told_away and self.settled:
            self._told_away = False
            log.warning("Redis at %s is writable again", self._url)

    async def log_name(self) -> str | None:
        """The name of the log whose state Redis holds, if any; raises one of `UNREACHABLE`."""
        name = await cancellable(self._client.get(self._keys.log))
        return None if name is None else as_text(name)

    async def take_log_name(self, name: str) -> None:
        """Declare which log's state Redis holds from now on; raises one of `UNREACHABLE`."""
        await cancellable(self._client.set(self._keys.log, name))

    async def greatest_epoch(self) -> int:
        """The greatest epoch of any run in Redis, 0 without runs; raises one of `UNREACHABLE`."""
        pattern, greatest = self._keys.versions("*"), 0
        keys = [key async for key in self._client.scan_iter(match=pattern, count=KEYS_AT_ONCE)]
        for start in range(0, len(keys), KEYS_AT_ONCE):
            pipe = self._client.pipeline(transaction=False)
            for key in keys[start : start + KEYS_AT_ONCE]:
                pipe.hvals(key)
            for versions in await cancellable(pipe.execute()):
                with suppress(ValueError):
                    greatest = max(greatest, *(parse_version(version)[0] for version in versions))
        return greatest

    async def close(self) -> None:
        if self._recovery:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        try:
            await self._flush(self._backlog.runs())
            await self._heartbeats.stop()
        except UNREACHABLE as error:
            log.warning("Redis still lacks %d keys (%s); the next worker sends them", self.unsent, error)
        await self._client.aclose()

    async def _attempt(self, work: Awaitable[None]) -> bool:
        try:
            await cancellable(work)
        except UNREACHABLE as error:
            self._recover_from(error)
            return False
        if self._is_due():
            self._start_recovery()
        return True

    async def _flush(self, run_ids: Iterable[str]) -> None:
        """Send the waiting ones of these runs. A lock is held from reading a run to sending it, so that
        nothing newer comes between; other calls get a turn after each round trip.
        """
        since = self._clock() - self._expire_seconds if self._expire_seconds else None
        left = deque(self._backlog.in_order(run_ids))
        self._flushing += 1
        try:
            while left:
                async with self._lock:
                    await self._sending.send(left, since)
            while self._sending.rewrite_due:
                async with self._lock:
                    await self._sending.rewrite()
        finally:
            self._flushing -= 1

    def _is_due(self) -> bool:
        """Whether something waits that no call is sending."""
        waits = self._backlog.runs() and not self._flushing
        return bool(waits or self._all_in_doubt or self._sending.rewrite_due)

    async def _beat(self, worker_id: str, status: Mapping[str, Any], at: datetime) -> None:
        async with self._lock:
            lost = await self._heartbeats.beat(worker_id, status, at)
        if lost:
            log.warning("Redis at %s lost its data; sending everything again", self._url)
            self._all_in_doubt = True

    async def _connected(self, connection: Connection) -> None:
        """Ask for a reconcile on each reconnection: Redis may have restarted, empty or with older data."""
        await connection.on_connect()
        self._connections += 1
        if self._connections > 1:
            self._all_in_doubt = True

    def _recover_from(self, error: Exception) -> None:
        if not self._told_away:
            log.warning("Redis accepts no writes (%s); each key's latest value is kept until it does", error)
        self._told_away = True
        self._away = self._all_in_doubt = True
        self._start_recovery()

    def _start_recovery(self) -> None:
        if not self._recovering:
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Retry until Redis has everything: first the unsent values, announced, then whole runs."""
        delay = FIRST_RETRY_SECONDS
        while True:
            try:
                await cancellable(self._catch_up())
            except UNREACHABLE as error:
                self._away = self._all_in_doubt = True
                log.debug("Redis is still down: %s", error)
            except Exception:
                log.exception("Could not reconcile Redis; trying again")
            if not (self._away or self._is_due()):
                return
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_SECONDS)

    async def _catch_up(self) -> None:
        await self._flush(self._backlog.runs())
        if self._away:
            self._away = False
            await self._flush(self._backlog.runs())  # news that came during the first one
        if self._all_in_doubt:
            for run_id in self._backlog.owner.run_ids() if self._backlog.owner else ():
                self._backlog.doubt(run_id)
            self._all_in_doubt = False
            await self._flush(self._backlog.runs())
