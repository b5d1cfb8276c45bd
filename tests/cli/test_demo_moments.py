"""A line for each moment of the demo, once, in the order of its story."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from streamer.terminal.demo import Moments
from tests.support.demo_story import events_of, looks

NOW = datetime(2026, 1, 2, 0, 1, tzinfo=UTC)
STEP = 12


def test_each_moment_of_the_demo_has_one_line(tmp_path: Path) -> None:
    moments = Moments()
    lines = [line for look in looks(events_of(tmp_path), STEP) for line in moments.news(*look, NOW)]
    told = [
        "trials run, 0 of 240 are done",
        "a trial crashed (NonZeroAgentExitCodeError); harbor runs it again",
        "the judge's first scores are in",
        "birch:simulated/large leads",
        "aspen:simulated/large overtakes birch:simulated/large",
        "aspen:simulated/large can no longer be overtaken by birch:simulated/large",
    ]
    assert list(dict.fromkeys(part for line in lines for part in told if part in line)) == told
    leads = [line for line in lines if "overtakes" in line]
    assert len(lines) == len(told) - 1 + len(leads)


def test_nothing_is_said_where_nothing_happened(tmp_path: Path) -> None:
    moments = Moments()
    *_, last = looks(events_of(tmp_path), 1_000)
    assert moments.news(*last, NOW)
    assert moments.news(*last, NOW) == []
