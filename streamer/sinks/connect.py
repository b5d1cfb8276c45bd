"""Clients of Redis, sync and async, of one server or of a cluster (`?cluster=true` in the URL).

>>> split_url("redis://host:6379/0?cluster=true")
('redis://host:6379/0', True)
>>> address("rediss://user:secret@host:6380/0")
'host:6380'
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

OnConnect = Callable[[redis.asyncio.Connection], Awaitable[None]]

SCHEMES = ("redis", "rediss", "unix")
RESP = 2
"""Protocol version: the replies have one shape in every version of redis-py."""


class BadRedisUrl(ValueError):
    """The URL does not say where Redis is."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Redis URL is not usable: {reason}. Write redis://HOST:PORT/0 (rediss:// for TLS, "
            "unix:///PATH for a socket, ?cluster=true for a cluster), in --redis or STREAMER_REDIS"
        )


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
    """The parts; what is wrong with them is said without quoting any: each may be a piece of a password."""
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
