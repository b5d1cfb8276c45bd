"""A line that changes in place on a terminal; elsewhere only the lines that stay."""

from __future__ import annotations

import io
import sys

import pytest

from streamer.terminal import StatusLine

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """20 columns wide; pytest takes stderr back between a fixture and its test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    return terminal


def test_the_line_is_drawn_when_it_changes_cut_to_the_terminal_and_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = a_terminal(monkeypatch)
    line = StatusLine()
    line.show("one")
    line.show("one")
    line.show("two \x1b[31m" + "x" * 40)
    assert terminal.getvalue() == f"{CLEAR}one{CLEAR}two \\x1b[31m" + "x" * 7


def test_lines_that_stay_are_printed_above_it_and_the_end_removes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = a_terminal(monkeypatch)
    line = StatusLine()
    line.show("at work")
    line.say("found something")
    line.end()
    line.end()
    assert terminal.getvalue() == f"{CLEAR}at work{CLEAR}found something\n{CLEAR}at work{CLEAR}"


def test_elsewhere_only_what_stays_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    line = StatusLine()
    line.show("at work")
    line.say("found something")
    line.end()
    assert pipe.getvalue() == "found something\n"
