"""What agents wrote never acts on the terminal."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.terminal import print_line, print_table
from streamer.text import shown, text_width, visible

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text())
def test_visible_text_holds_nothing_that_acts(text: str) -> None:
    assert not {unicodedata.category(c) for c in visible(text)} & ACTING


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("hostile", "seen"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edef", r"abc\u202edef"),
        ("zero\u200bwidth\u2066x\u2069", r"zero\u200bwidth\u2066x\u2069"),
        ("line\u2028paragraph\u2029", r"line\u2028paragraph\u2029"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_acts_is_made_visible(hostile: str, seen: str) -> None:
    assert visible(hostile) == seen


def table(monkeypatch: pytest.MonkeyPatch, value: object, *, terminal: bool = False) -> str:
    """A table with one value, as it is printed."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", out)
    print_table("Title \x1b[1m", ("name", "number"), [[value, 1]])
    return out.getvalue()


def test_markup_in_a_table_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = table(monkeypatch, "[bold red]x[/] :smile: [link=file:///]y[/link]")
    assert "[bold red]x[/] :smile: [link=file:///]y[/link]" in printed


def test_a_table_shows_control_characters_of_values_and_title(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = table(monkeypatch, "\x1b[31mred\nnext\u202e")
    assert r"\x1b[31mred\nnext\u202e" in printed
    assert r"Title \x1b[1m" in printed
    assert "\x1b" not in printed


def test_a_table_in_a_file_is_never_cut_or_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "x" * 500 in table(monkeypatch, "x" * 500)


def test_a_table_on_a_narrow_terminal_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    printed = table(monkeypatch, "y" * 500, terminal=True)
    assert printed.count("y") == 500
    assert max(map(len, printed.splitlines())) <= 40


def test_no_word_of_a_table_is_broken_while_another_column_can_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    printed = table(monkeypatch, "missing_field " + "some words " * 20 + "1,234,567", terminal=True)
    assert "missing_field" in printed
    assert "1,234,567" in printed
    assert max(map(len, printed.splitlines())) <= 40


def test_a_table_has_no_escape_codes_even_on_a_terminal_with_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in table(monkeypatch, "x", terminal=True)


def test_wide_characters_of_a_table_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    print_table("Title", ("name", "number"), [["日本語🙂", 1], ["abc", 12]])
    _, _, _, wide, narrow, *_ = out.getvalue().splitlines()
    assert text_width(wide) == text_width(narrow)


def test_no_rows_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Title", ("name",), [])
    assert capsys.readouterr().out == ""


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\nb")
    assert capsys.readouterr().out == "a\\nb\n"


def test_an_agent_named_as_infinity_in_json_is_only_read_so_in_values() -> None:
    assert (shown("Infinity"), shown(float("inf")), shown(None), shown(False)) == ("inf", "inf", "–", "no")
