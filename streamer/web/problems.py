"""Errors as answers of the API (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import ClassVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from streamer.aggregate.by_label import UnknownLabel
from streamer.artifacts.opening import CannotBeOpened
from streamer.client.folded_run import NothingYet
from streamer.client.moves import UnknownAgent
from streamer.client.results import (
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
)
from streamer.client.trials import NotInLog
from streamer.fold import CannotBeFolded
from streamer.kafka.errors import KafkaError, TopicMissing, TopicUnreadable
from streamer.records import BadPosition
from streamer.schemas.canonical import canonical_json
from streamer.views.matrix import TooManyCells
from streamer.views.trial_parquet import ParquetMissing
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


_UNKNOWN = (UnknownRun, UnknownBenchmark, UnknownAgent, UnknownLabel)

_KINDS: dict[int, tuple[type[Exception], ...]] = {
    # who disconnects before the end of the body does not get the answer
    400: (UnknownMetric, BadPosition, ClientDisconnect),
    404: (*_UNKNOWN, NothingYet, NotInLog, CannotBeOpened),
    409: (CannotBeFolded,),
    501: (ParquetMissing,),
    502: (UnreadableSummary,),
    503: (RedisUnavailable, KafkaError, TopicMissing, TopicUnreadable, TooManyCells),
}
"""HTTP status -> the errors from elsewhere that have it."""


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
    return next((status for status, kinds in _KINDS.items() if isinstance(error, kinds)), None)
