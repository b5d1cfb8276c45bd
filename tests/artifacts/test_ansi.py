"""Terminal output becomes text with attributes, and nothing in it controls anything any more."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.web.artifacts import MAX_CODES, MAX_LINE_CHARACTERS, MAX_LINES, Span, lines_of


def looks(text: str) -> list[dict[str, object]]:
    return [span.model_dump(exclude_defaults=True) for span in lines_of(text)[0][0]]


def test_attributes_hold_until_they_are_ended() -> None:
    assert looks("\x1b[1;32mok\x1b[22m still\x1b[39m plain") == [
        {"text": "ok", "color": 2, "bold": True},
        {"text": " still", "color": 2},
        {"text": " plain"},
    ]
    assert looks("\x1b[3;4;91;44mx\x1b[m") == [
        {"text": "x", "color": 9, "background": 4, "italic": True, "underline": True}
    ]


def test_attributes_reach_over_the_end_of_a_line() -> None:
    lines, _ = lines_of("\x1b[31ma\nb")
    assert [line[0].color for line in lines] == [1, 1]


def test_of_256_colours_the_16_are_kept_and_the_codes_behind_them_are_not_taken_for_others() -> None:
    assert looks("\x1b[38;5;9mx") == [{"text": "x", "color": 9}]
    assert looks("\x1b[38;5;200;1mx") == [{"text": "x", "bold": True}]
    assert looks("\x1b[38;2;1;2;3;4mx") == [{"text": "x", "underline": True}]


def test_a_carriage_return_begins_the_line_again() -> None:
    assert looks("10 %\r50 %\r100 %") == [{"text": "100 %"}]
    assert [line[0].text for line in lines_of("a\r\nb\r\n")[0]] == ["a", "b"]


def test_titles_links_and_movements_leave_nothing_behind() -> None:
    text = "\x1b]0;title\x07a\x1b]8;;javascript:alert(1)\x1b\\b\x1b[2J\x1b[H\x1b[?2004lc\x08\x07\x9b"
    assert "".join(span.text for span in lines_of(text)[0][0]) == "abc"


def test_of_many_lines_the_last_are_kept_and_long_lines_end() -> None:
    lines, before = lines_of("x\n" * (MAX_LINES + 3) + "y" * (MAX_LINE_CHARACTERS + 1))
    assert (len(lines), before) == (MAX_LINES, 4)
    assert len(lines[-1][0].text) == MAX_LINE_CHARACTERS


def test_a_string_that_an_escape_cuts_is_no_string() -> None:
    assert looks("\x1b]0;no end\x1b[31mred") == [{"text": "0;no end"}, {"text": "red", "color": 1}]


def test_of_very_many_codes_in_one_sequence_the_first_count() -> None:
    assert looks(f"\x1b[{'1;' * (MAX_CODES - 1)}4;0mx") == [{"text": "x", "bold": True, "underline": True}]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["\x1b]" * 524_288, "\x1b]0;" * 262_144, f"\x1b[{';' * (1 << 20)}m"])
def test_a_line_takes_time_in_proportion_to_its_length(line: str) -> None:
    """If each sequence looked through the rest of the line, a mebibyte would take hours."""
    text = "".join(span.text for span in lines_of(line)[0][0])
    assert set(text) <= set("0;")


@given(st.text(alphabet=st.sampled_from("ab\x1b[];?0123456789mKHJ\x07\\\r\n\t\x9b\x00"), max_size=200))
def test_no_control_character_is_left_of_any_text(text: str) -> None:
    for line in lines_of(text)[0]:
        for span in line:
            assert isinstance(span, Span)
            assert not any(unicodedata.category(c) == "Cc" and c != "\t" for c in span.text)
