"""The demo at work: what is published is what the directory says, and a judge's scores."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from streamer.terminal.demo import OPTIONS, RUN
from tests.support.cli import streamer
from tests.support.tailing import converted_digests, digests_of


@pytest.mark.stack
def test_the_log_says_what_the_directory_says_and_every_trial_is_judged(tmp_path: Path) -> None:
    left = tmp_path / "demo-out" / "simulated" / RUN / "left__abcdefg"
    left.mkdir(parents=True)
    assert streamer("demo", "--fast", cwd=tmp_path).returncode == 0
    assert not left.exists()
    lines = (tmp_path / "demo-out" / "events.ndjson").read_bytes().splitlines()
    events = [orjson.loads(line) for line in lines if b'"revision"' in line]
    of_harness = [event for event in events if "score" not in event]
    assert digests_of(of_harness) == converted_digests(tmp_path / "demo-out" / "simulated", OPTIONS)
    last = {}
    for event in sorted(events, key=lambda event: event["revision"]):
        if event["type"] == "trial_result":
            last[event["shard"]] = event
    assert len(last) == 240
    assert all("score" in event for event in last.values())
