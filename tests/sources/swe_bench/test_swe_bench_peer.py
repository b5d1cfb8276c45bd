"""Reports that swebench itself writes now have the counts that the connector gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sources.builders import converted, trials_of
from tests.sources.swe_bench import REPORT, unpack_runs
from tests.support.peers import peer_environment, run_in_peer

pytestmark = pytest.mark.peer

RECORDER = Path(__file__).parent / "record.py"


def test_the_recording_is_what_swebench_writes(tmp_path: Path) -> None:
    swebench = peer_environment("swebench==5.0.2", with_base=False)
    now = tmp_path / "now"
    now.mkdir()
    run_in_peer(swebench, "python", RECORDER, cwd=now)
    recorded = unpack_runs(tmp_path / "recorded")
    report = json.loads((now / REPORT).read_text())
    assert report == json.loads((recorded / REPORT).read_text())
    events, said = converted(now / REPORT)
    resolved = [event["task_id"] for event in trials_of(events) if event.get("resolved")]
    assert sorted(resolved) == report["resolved_ids"]
    assert len(trials_of(events)) == report["submitted_instances"]
    assert not said.unreadable + said.left_out
