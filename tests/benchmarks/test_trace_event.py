"""The trace of one event names what the event really touches, and that does not grow."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from benchmarks.trace_event import STEPS, report, step_of, trace
from tests.house.repository import ROOT

MOST_FILES = 16
"""Lower it when an event touches fewer."""


def test_one_event_touches_no_more_files_than_before() -> None:
    found = report(trace())
    assert [step["step"] for step in found["steps"]] == ["fold", *STEPS]
    assert all(step["calls"] and step["files"] for step in found["steps"])
    assert found["calls"] == sum(step["calls"] for step in found["steps"])
    assert "streamer/folding/fold.py" in found["files"]
    assert [file for file in found["files"] if not (ROOT / file).is_file()] == []
    assert len(found["files"]) <= MOST_FILES, found["files"]


def test_a_step_that_was_renamed_is_named_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match="no method for 'save'"):
        step_of(Mock(spec=["run"], run=lambda _run: object()), "save")
