"""The recording sink holds what Redis would."""

from __future__ import annotations

from datetime import UTC, datetime

from streamer.sinks.base import Sink
from streamer.sinks.recording import RecordingSink
from tests.support.builders import a_cut, a_run_change


async def test_the_recording_sink_keeps_every_call_and_the_newest_of_each_key() -> None:
    recording = RecordingSink()
    sink: Sink = recording
    new, old = a_run_change(version=2), a_run_change(version=1)
    await sink.write([a_cut(new), a_cut(old)])
    await sink.reconcile(["r1"])
    await sink.heartbeat("w", {"lag": 1}, at=datetime(2026, 1, 1, tzinfo=UTC))
    await sink.close()
    assert recording.state == {"r1": new}
    assert [len(recording.cuts), len(recording.reconciled), recording.closed] == [2, 1, True]
    assert recording.heartbeats["w"]["lag"] == 1
