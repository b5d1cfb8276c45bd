"""Reading what lies on disk: pipes are not waited for, and what may not be read is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sources.builders import a_result, a_run, converted, trials_of


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [])
    (run / "oom" / "oom.1-of-1.run1" / "results.json").write_bytes(b"\xff\x00{\x80")
    _, report = converted(run)
    assert "not valid JSON" in report.unreadable[0][1]


def test_a_pipe_where_a_file_belongs_is_not_waited_for(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result()], [], metadata={})
    (run / "results.json").unlink()
    os.mkfifo(run / "results.json")
    (run / "oom" / "oom.2-of-2.run1").mkdir()
    os.mkfifo(run / "oom" / "oom.2-of-2.run1" / "results.json")
    events, report = converted(run)
    assert len(trials_of(events)) == 1
    assert report.unreadable == [(run / "results.json", "not a regular file")]


@pytest.mark.skipif(os.geteuid() == 0, reason="SKIPPED LOUDLY: root reads what nobody may read")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run1", [a_result(), a_result("b")], [])
    (run / "oom" / "oom.1-of-1.run1" / "results.json").chmod(0)
    (run / "b").chmod(0)
    try:
        _, report = converted(run)
    finally:
        (run / "b").chmod(0o755)
    assert {"Permission denied" in reason for _, reason in report.unreadable} == {True}
