"""`streamer simulate` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.sources.simulate import LAYOUTS
from tests.sources.builders import converted, trials_of
from tests.support.cli import streamer


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_directory_is_written_and_named_after_the_run(layout: str, tmp_path: Path) -> None:
    done = streamer("simulate", "--layout", layout, "--out", tmp_path / "nightly", "--trials", 6)
    assert (done.returncode, done.stdout) == (0, b"")
    events, report = converted(tmp_path / "nightly")
    assert {event["run_id"] for event in trials_of(events)} == {"nightly"}
    assert report.unreadable == []


def test_a_directory_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("precious")
    done = streamer("simulate", "--layout", "scylla", "--out", tmp_path)
    assert done.returncode == 2
    assert b"is not empty; name a new directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
