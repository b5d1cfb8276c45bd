"""Errors that can be explained have a status; our own mistakes have none."""

from __future__ import annotations

import json

import pytest

from streamer.client.feeds import NotInLog
from streamer.client.queries import RedisUnavailable, UnknownBenchmark, UnknownMetric, UnknownRun
from streamer.folding.breakdowns import UnknownLabel
from streamer.folding.fold import CannotBeFolded
from streamer.schemas.wire import BadPosition
from streamer.storage.kafka import KafkaConnectionError, TopicMissing
from streamer.views.decide.gate import NoSuchSide
from streamer.views.models import TooManyCells
from streamer.web.log import LogTruncated, TooManyTrials
from streamer.web.models import MEDIA_TYPE, BadQuery, problem, status_of
from streamer.web.protocols.live import TooManyViewers


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (UnknownRun, 404),
        (UnknownBenchmark, 404),
        (NoSuchSide, 404),
        (UnknownMetric, 400),
        (RedisUnavailable, 503),
        (KafkaConnectionError, 503),
        (TopicMissing, 503),
        (BadPosition, 400),
        (UnknownLabel, 404),
        (NotInLog, 404),
        (CannotBeFolded, 409),
        (TooManyCells, 422),
        (TooManyTrials, 422),
        (BadQuery, 400),
        (LogTruncated, 409),
        (TooManyViewers, 503),
        (KeyError, None),
    ],
)
def test_each_error_has_its_status(kind: type[Exception], status: int | None) -> None:
    assert status_of(kind.__new__(kind)) == status


def test_a_problem_is_an_answer_that_nobody_keeps() -> None:
    answer = problem(404, "there is no such run")
    assert (answer.status_code, answer.media_type) == (404, MEDIA_TYPE)
    assert answer.headers["cache-control"] == "no-store"
    body = json.loads(bytes(answer.body))
    assert (body["title"], body["status"], body["detail"]) == ("Not Found", 404, "there is no such run")
