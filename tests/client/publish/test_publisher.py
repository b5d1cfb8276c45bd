"""A problem is logged once when it comes and once when it goes, and told as long as it lasts."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.errors import InvalidTimestampError

from streamer.client.publisher import DeliveryStatus
from streamer.storage.kafka import broker_problem
from streamer.storage.outbox import NotDelivered
from streamer.web.protocols.intake import NotPublished


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_broker_is_complained_of_once_until_it_is_well_again(caplog: pytest.LogCaptureFixture) -> None:
    status = DeliveryStatus("away:9092", Path("spill"))
    for _ in range(3):
        status.broker_fails(TimeoutError("no\n answer"))
    assert status.text == "the broker at away:9092 accepts no events: no answer"
    assert [record.getMessage() for record in caplog.records] == [
        f"{status.text}. They are kept in spill until it does"
    ]
    status.broker_is_well()
    status.broker_is_well()
    assert status.text is None
    assert len(caplog.records) == 2
    assert "accepts events again" in caplog.text


@pytest.mark.parametrize(
    "say",
    [
        lambda error: broker_problem(error, "b:1"),
        lambda error: str(NotDelivered(2, 0, "b:1", error)),
        lambda error: str(NotPublished("b:1", error)),
        lambda error: told_by_status(error),
    ],
)
def test_a_refused_timestamp_is_told_as_a_wrong_clock(say: Callable[[Exception], str]) -> None:
    said = say(InvalidTimestampError())
    assert "the time of a record is too far from the broker's clock" in said
    assert "message.timestamp.after.max.ms" in said
    assert "Compare the clocks of this machine and the broker" in said
    assert "Error 32" not in said


def told_by_status(error: Exception) -> str:
    status = DeliveryStatus("b:1", Path("spill"))
    status.broker_fails(error)
    return status.text or ""


def test_broker_and_disk_are_told_together() -> None:
    status = DeliveryStatus("away:9092", Path("spill"))
    status.broker_fails(TimeoutError())
    status.disk_fails(full())
    assert status.text == (
        "the broker at away:9092 accepts no events: TimeoutError and cannot keep events in spill: No "
        "space left on device"
    )
    status.broker_is_well()
    assert status.text == "cannot keep events in spill: No space left on device"
    status.disk_is_well()
    assert status.text is None
