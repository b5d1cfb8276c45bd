"""Too many rejections within a minute are told, and then not for an hour."""

from __future__ import annotations

import re
from datetime import timedelta

from streamer.operate.notify import QUIET, RejectionRate
from tests.notifications.watching import MINUTE, NOW
from tests.support.cli import streamer


def test_too_many_rejections_in_a_minute_are_told_and_then_not_for_an_hour() -> None:
    rate = RejectionRate(3)
    spread = [rate.take("not_json", None, NOW + 20 * n * timedelta(seconds=1)) for n in range(1, 30)]
    assert spread == [None] * 29
    at = NOW + timedelta(hours=1)
    burst = [rate.take("missing_field", f"<r{n}>", at) for n in range(50)]
    told = [notice for notice in burst if notice]
    assert len(told) == 1
    assert "more than 3 records rejected within a minute" in told[0].title
    assert "missing_field" in told[0].body
    assert "‹r0›" in told[0].body
    named = re.findall(r"'streamer (rejections \w+)'", told[0].body)
    assert named == ["rejections list", "rejections requeue"]
    assert all(streamer(*command.split(), "--help").returncode == 0 for command in named)
    again = [rate.take("x", None, at + QUIET + n * timedelta(seconds=1)) for n in range(4)]
    assert len([notice for notice in again if notice]) == 1
    assert RejectionRate(0, told_at=at).take("x", None, at + MINUTE) is None
