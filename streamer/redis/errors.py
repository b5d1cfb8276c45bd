"""The errors of redis-py, for modules that handle them."""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

__all__ = [
    "UNREACHABLE",
    "AuthenticationError",
    "AuthorizationError",
    "ConnectionError",
    "RedisClusterException",
    "RedisError",
    "ResponseError",
]

UNREACHABLE = (RedisError, RedisClusterException, OSError, TimeoutError)
"""Every way in which Redis can fail to take a write, its own refusals (read-only, out of memory) included."""
