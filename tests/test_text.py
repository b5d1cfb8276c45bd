"""Widths are those that terminals have, and text that is cut, filled or folded has the width it must have."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from streamer.text import ACTING, clipped, folded, padded, start_of, text_width

VISIBLE = st.text(st.characters(exclude_categories=[*ACTING, "Cn"]))
DISPUTED = range(0x2630, 0x2638), range(0x268A, 0x2690), range(0x4DC0, 0x4E00), range(0x1D300, 0x1D37A)
"""Trigrams, hexagrams and counting rods: wide in Unicode 16 and narrow before it."""

FILLERS, SKIN_TONES = (0x3164, 0xFFA0), range(0x1F3FB, 0x1F400)
"""Hangul fillers, and skin tones without an emoji before them: drawn by some terminals, and by others not."""


def test_each_character_is_as_wide_as_rich_says_which_draws_the_screens() -> None:
    assigned = (n for n in range(0x110000) if unicodedata.category(chr(n)) not in {*ACTING, "Cn", "Co"})
    left = [n for n in assigned if text_width(chr(n)) != cell_len(chr(n))]
    disputed = (*FILLERS, *SKIN_TONES)
    assert [hex(n) for n in left if n not in disputed and not any(n in some for some in DISPUTED)] == []


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("日本語", 6),
        ("한글", 4),
        (unicodedata.normalize("NFD", "한글"), 4),
        ("e\u0301te\u0301", 3),
        ("हिन्दी", 3),
        ("⚠\ufe0f ok", 5),
        ("1\ufe0f\u20e3", 2),
        ("👍🏽👍", 4),
        ("☝🏽", 2),
        ("🇩🇪", 2),
    ],
)
def test_what_is_written_with_several_characters_is_as_wide_as_it_is_drawn(text: str, width: int) -> None:
    assert text_width(text) == width


@given(VISIBLE, st.integers(1, 60))
def test_clipped_text_fits_and_padded_text_fills(text: str, width: int) -> None:
    assert text_width(clipped(text, width)) <= width
    for right in (False, True):
        for prose in (False, True):
            assert text_width(padded(text, width, right=right, prose=prose)) == width


def test_wide_characters_count_as_two() -> None:
    assert clipped("日本語日本語日本語", 8) == "日…本語"


@given(VISIBLE, st.integers(0, 60))
def test_the_start_of_a_text_is_the_longest_that_fits(text: str, width: int) -> None:
    start = start_of(text, width)
    assert text.startswith(start)
    assert text_width(start) <= width
    assert start == text or text_width(text[: len(start) + 1]) > width


@given(VISIBLE, st.integers(2, 60))
def test_folded_text_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = folded(text, width)
    assert max(map(text_width, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_wide_character_is_not_lost_where_it_does_not_fit() -> None:
    assert folded("日本", 1) == ["日", "本"]
