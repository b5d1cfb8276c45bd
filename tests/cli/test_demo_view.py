"""What one sees of the demo: one screen of lines, or the screens of `watch` until `q`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.cli import streamer
from tests.support.worker_process import wait_for
from tests.watch.driving import LARGE
from tests.watch.terminal import Terminal, tmux

COLUMNS, LINES = 100, 24
SECONDS = 120


@pytest.mark.stack
def test_without_a_terminal_the_demo_ends_by_itself_and_fills_at_most_one_screen(tmp_path: Path) -> None:
    done = streamer("demo", "--fast", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert any(line.startswith("aspen:simulated/large ") and "82.5 %" in line for line in lines)
    assert "demo: equal, 8 summaries" in lines


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_a_terminal_the_boards_stay_after_the_end_until_q_is_pressed() -> None:
    tmux()
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        arguments = ("demo", "--fast", "--no-browser", "--out", f"{folder}/out")
        with Terminal(Path(folder), *arguments, environment={}, size=LARGE) as terminal:
            seen = terminal.shows(
                "The benchmark is over. q ends the demo", "aspen:simulated/large", "240 of 240"
            )
            assert "http://127.0.0.1:" in seen
            assert "#/run/demo" in seen
            terminal.still()
            assert terminal.exit_code is None
            terminal.press("q")
            terminal.shows("demo: equal, 8 summaries", "Written: ")
            wait_for(lambda: terminal.exit_code == 0, "it ends well", SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_q_ends_the_demo_before_its_end_too_and_verifies_what_there_is() -> None:
    tmux()
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        arguments = ("demo", "--no-browser", "--out", f"{folder}/out")
        with Terminal(Path(folder), *arguments, environment={}, size=LARGE) as terminal:
            terminal.shows("In a browser: http", "q ends the demo", "agents (6)")
            terminal.press("q")
            terminal.shows("demo: equal, 8 summaries", "Written: ")
            wait_for(lambda: terminal.exit_code == 0, "it ends well", SECONDS)
