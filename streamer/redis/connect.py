"""Clients of Redis, sync and async, of one server or of a cluster (`?cluster=true` in the URL).

>>> split_url("redis://host:6379/0?cluster=true")
('redis://host:6379/0', True)
>>> address("rediss://user:secret@host:6380/0")
'host:6380'
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamer.redis.errors import ConnectionError, RedisClusterException, RedisError
from streamer.tls import mismatch

SyncClient: TypeAlias = redis.Redis
OnConnect = Callable[[redis.asyncio.Connection], Awaitable[None]]

SCHEMES = ("redis", "rediss", "unix")
FIRST_ANSWER_SECONDS = 3.0
REDIS_HELLO = b"PING\r\n"
RESP = 2
"""Protocol version: the replies have one shape in every version of redis-py."""


class BadRedisUrl(ValueError):
    """The URL does not say where Redis is."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Redis URL is not usable: {reason}. Write redis://HOST:PORT/0 (rediss:// for TLS, "
            "unix:///PATH for a socket, ?cluster=true for a cluster), in --redis or STREAMER_REDIS"
        )


class OtherProtocol(BadRedisUrl):
    """The URL says TLS and the server does not speak it, or the other way round."""

    def __init__(self, url: str, wrong: str) -> None:
        Exception.__init__(self, f"Redis at {address(url)} {wrong}, in --redis or STREAMER_REDIS")


def split_url(url: str) -> tuple[str, bool]:
    """The URL without our own parameter, and whether it names a cluster."""
    parts = _split(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    cluster = query.pop("cluster", "false").lower() in ("true", "1", "yes")
    return urlunsplit(parts._replace(query=urlencode(query))), cluster


def address(url: str) -> str:
    """`host:port` for messages: a URL may hold a password."""
    parts = _split(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path


def other_protocol(url: str) -> str | None:
    """The advice where the URL says TLS and the server does not speak it, or the other way round; else None.

    To be asked after a connection failed: it makes others, and takes up to three seconds.
    """
    parts = _split(split_url(url)[0])
    if parts.scheme == "unix" or not parts.hostname:
        return None
    tls = parts.scheme == "rediss"
    wrong = mismatch(parts.hostname, parts.port or 6379, REDIS_HELLO, tls=tls)
    wanted = "redis://" if tls else "rediss://"
    return f"{wrong}, and its URL begins with {parts.scheme}://. Write {wanted}" if wrong else None


def refuse_plaintext(url: str) -> None:
    """Where the URL says TLS and the server does not speak it, redis-py would wait long: fail at once.

    Raises:
        ConnectionError: they do not agree.
    """
    if url.startswith("rediss:") and other_protocol(url):
        raise ConnectionError("no TLS")


async def check_protocol(url: str, options: Mapping[str, Any]) -> None:
    """Whether the URL and the server agree about TLS; a server that is away is no error.

    Raises:
        OtherProtocol: they do not.
    """
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
    """A client that tries again `retries` times, at once.

    `on_connect` is awaited for each connection, but not in a cluster.
    """
    plain, cluster = split_url(url)
    common = _common(options, timeout_seconds) | {"retry": AsyncRetry(NoBackoff(), retries)}
    if cluster:
        return cast(redis.asyncio.Redis, redis.asyncio.RedisCluster.from_url(plain, **common))
    return redis.asyncio.Redis.from_url(plain, redis_connect_func=on_connect, **common)


def listening_client(url: str, options: Mapping[str, Any], timeout_seconds: float) -> redis.asyncio.Redis:
    """A client to subscribe with: of one node also in a cluster, whose nodes pass on what is published."""
    return async_client(split_url(url)[0], options, timeout_seconds)


def sync_client(url: str, options: Mapping[str, Any], timeout_seconds: float) -> redis.Redis:
    """A client that tries once more where a connection went stale."""
    plain, cluster = split_url(url)
    common = _common(options, timeout_seconds) | {"retry": Retry(NoBackoff(), 1)}
    if cluster:
        return cast(redis.Redis, redis.RedisCluster.from_url(plain, **common))
    return redis.Redis.from_url(plain, **common)


def _common(options: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
    timeouts = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
    return {"protocol": RESP, **timeouts, **options}


def _split(url: str) -> SplitResult:
    """The parts. An error about them quotes nothing: each may be a piece of a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (parsed, and checked, when it is asked for)
    except ValueError:
        raise BadRedisUrl(
            "its host or its port cannot be read (is every / ? # @ of a password encoded?)"
        ) from None
    if parts.scheme not in SCHEMES:
        raise BadRedisUrl(f"its scheme is none of {', '.join(SCHEMES)}")
    if parts.scheme != "unix" and "@" in parts.path + parts.query + parts.fragment:
        raise BadRedisUrl("there is an @ behind the host: / ? # @ in a password must be percent-encoded")
    return parts
