"""Errors as answers of the API (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from starlette.responses import Response

from streamer.client.results import (
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
)
from streamer.kafka.errors import KafkaError, TopicMissing, TopicUnreadable
from streamer.schemas.canonical import canonical_json
from streamer.web.models import Problem

MEDIA_TYPE = "application/problem+json"


RETRY_SECONDS = 2
"""So long a client should wait before it sends the same request again."""


class Refused(Exception):
    """A request that is not carried out; the message says what is allowed and what to do.

    Attributes:
        status: HTTP status of the answer.
        again: whether the same request may succeed soon.
    """

    status: ClassVar[int]
    again: ClassVar[bool] = False


def problem(status: int, detail: str, *, again: bool = False) -> Response:
    """One problem as an answer; `again`: say when the client should ask again."""
    found = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    answer = Response(canonical_json(found.model_dump()), status, media_type=MEDIA_TYPE)
    answer.headers["cache-control"] = "no-store"
    if again:
        answer.headers["retry-after"] = str(RETRY_SECONDS)
    return answer


def status_of(error: Exception) -> int | None:
    """HTTP status of an error that can be explained; None: it is a mistake of ours."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, UnknownRun | UnknownBenchmark):
        return 404
    if isinstance(error, UnknownMetric):
        return 400
    if isinstance(error, UnreadableSummary):
        return 502
    if isinstance(error, RedisUnavailable | KafkaError | TopicMissing | TopicUnreadable):
        return 503
    return None
