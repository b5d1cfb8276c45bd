"""Files that every-eval-ever itself writes now have the numbers that the connector gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sources.builders import Event, converted, trials_of
from tests.sources.every_eval_ever import unpack_evaluations
from tests.sources.harbor import summaries
from tests.sources.inspect.running import INSPECT
from tests.support.peers import newer_python, peer_environment, run_in_peer

pytestmark = pytest.mark.peer

RECORDER = Path(__file__).parent / "record.py"
EVERY_EVAL_EVER = "every-eval-ever==0.3.0"

OF_THE_MOMENT = {"run_id", "revision", "message", "latency_ms", "generation_time_ms"}
"""Fields and metrics that differ between two recordings; a message has a traceback with paths."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the converter of every-eval-ever writes; its statistics want pandas and more, and are not used."""
    peer = peer_environment(INSPECT, with_base=False, python=newer_python(12), alone=(EVERY_EVAL_EVER,))
    folder = tmp_path_factory.mktemp("written")
    run_in_peer(peer, "python", RECORDER, cwd=folder)
    return folder / "data"


def comparable(folder: Path) -> list[Event]:
    """The trials in a folder, without what differs between two recordings."""
    trials = trials_of(converted(folder)[0])
    lasting = [_lasting(trial) | {"metrics": _lasting(trial["metrics"])} for trial in trials]
    return sorted(lasting, key=json.dumps)


def _lasting(result: Event) -> Event:
    return {name: value for name, value in result.items() if name not in OF_THE_MOMENT}


def test_the_recording_is_what_every_eval_ever_writes(written: Path, tmp_path: Path) -> None:
    assert comparable(written) == comparable(unpack_evaluations(tmp_path))


def test_its_scores_are_the_means_here(written: Path) -> None:
    """All samples of `with-tools` have every epoch, so both take the mean of the same values."""
    [file] = (written / "with-tools").rglob("*_samples.jsonl")
    events, said = converted(file)
    [summary] = summaries(events).values()
    whole = json.loads(file.with_name(file.name.replace("_samples.jsonl", ".json")).read_text())
    [result] = whole["evaluation_results"]
    details = result["score_details"]
    metric = summary["metrics"][f"score/{result['evaluation_result_id'].replace(':', '_')}"]
    assert metric["mean"] == summary["accuracy"] == details["score"] == 0.5
    assert metric["standard_error"] == pytest.approx(details["uncertainty"]["standard_error"]["value"])
    assert summary["trials"] == result["source_data"]["samples_number"] == 4
    assert not said.unreadable + said.left_out
