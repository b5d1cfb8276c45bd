"""Files that every-eval-ever itself writes now are those that were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sources.builders import Event, converted, trials_of
from tests.sources.every_eval_ever import unpack_evaluations
from tests.sources.inspect.running import INSPECT
from tests.support.peers import newer_python, peer_environment, run_in_peer

pytestmark = pytest.mark.peer

RECORDER = Path(__file__).parent / "record.py"
EVERY_EVAL_EVER = "every-eval-ever==0.3.0"

OF_THE_MOMENT = {"run_id", "revision", "message", "latency_ms", "generation_time_ms"}
"""Fields and metrics that differ between two recordings; a message has a traceback with paths."""


def comparable(folder: Path) -> list[Event]:
    """The trials in a folder, without what differs between two recordings."""
    trials = trials_of(converted(folder)[0])
    lasting = [_lasting(trial) | {"metrics": _lasting(trial["metrics"])} for trial in trials]
    return sorted(lasting, key=json.dumps)


def _lasting(result: Event) -> Event:
    return {name: value for name, value in result.items() if name not in OF_THE_MOMENT}


def test_the_recording_is_what_every_eval_ever_writes(tmp_path: Path) -> None:
    """Its statistics want pandas and more, and are not used."""
    peer = peer_environment(INSPECT, with_base=False, python=newer_python(12), alone=(EVERY_EVAL_EVER,))
    written, recorded = tmp_path / "written", tmp_path / "recorded"
    written.mkdir()
    run_in_peer(peer, "python", RECORDER, cwd=written)
    assert comparable(written / "data") == comparable(unpack_evaluations(recorded))
