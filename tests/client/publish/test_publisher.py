"""A problem is logged once when it comes and once when it goes, and told as long as it lasts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from streamer.client.publisher import DeliveryStatus


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_broker_is_complained_of_once_until_it_is_well_again(caplog: pytest.LogCaptureFixture) -> None:
    status = DeliveryStatus("away:9092", Path("spill"))
    for _ in range(3):
        status.broker_fails(TimeoutError("no\n answer"))
    assert status.text == "the broker at away:9092 does not take events: no answer"
    assert [record.getMessage() for record in caplog.records] == [
        f"{status.text}. They are kept in spill until it does"
    ]
    status.broker_is_well()
    status.broker_is_well()
    assert status.text is None
    assert len(caplog.records) == 2
    assert "takes events again" in caplog.text


def test_broker_and_disk_are_told_together() -> None:
    status = DeliveryStatus("away:9092", Path("spill"))
    status.broker_fails(TimeoutError())
    status.disk_fails(full())
    assert status.text == (
        "the broker at away:9092 does not take events: TimeoutError and "
        "cannot keep events in spill: No space left on device"
    )
    status.broker_is_well()
    assert status.text == "cannot keep events in spill: No space left on device"
    status.disk_is_well()
    assert status.text is None
