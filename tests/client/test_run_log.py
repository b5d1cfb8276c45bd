"""The records of one run, up to a position of its partition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from streamer.client.folded import RunLog
from streamer.schemas.wire import BadPosition, Position
from streamer.settings import Settings
from streamer.storage.kafka import TopicMissing
from tests.client.test_folded_run import EVENTS, START, log

__all__ = ["log"]


def tasks(found: RunLog) -> list[str | None]:
    return [orjson.loads(record.value or b"{}").get("task_id") for record in found.records()]


def test_other_runs_are_left_out_and_the_last_record_gives_the_moment(log: Settings) -> None:
    found = RunLog(log, "run-1")
    assert (found.begins_at, found.moment) == (0, None)
    assert tasks(found) == [event.get("task_id") for event in EVENTS[1:]]
    assert found.moment == START + timedelta(minutes=4)


def test_a_position_ends_it_and_a_time_is_the_moment_itself(log: Settings) -> None:
    at = START + timedelta(minutes=2, seconds=1)
    for position, moment in ((Position(offset=2), START + timedelta(minutes=2)), (Position(at=at), at)):
        found = RunLog(log, "run-1", position)
        assert tasks(found) == [None, "t9"]
        assert found.moment == moment


def test_the_future_is_refused_before_anything_is_read(log: Settings) -> None:
    with pytest.raises(BadPosition, match="in the future"):
        RunLog(log, "run-1", Position(at=datetime.now(UTC) + timedelta(hours=1)))


def test_without_a_topic_there_is_no_log(embedded_broker: str, namespace: str) -> None:
    settings = Settings(bootstrap=embedded_broker, namespace=namespace, embedded=True)
    with pytest.raises(TopicMissing):
        RunLog(settings, "run-1", Position(offset=0))
