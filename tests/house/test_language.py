"""Pages and docstrings keep the writing rules of tests/house/language.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import language
from tests.house.language import mean_words, offences, sentences_of_markdown, sentences_of_python
from tests.house.repository import ROOT

FILES = [*language.pages(), *language.modules()]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def rules(page: str) -> list[str]:
    return [offence.rule for offence in offences(sentences_of_markdown(page, "page.md"))]


def test_no_file_has_more_offences_than_the_list_allows() -> None:
    limits, more, fewer = language.allowed(), list[str](), list[str]()
    assert set(limits) <= set(map(name, FILES)), "run python -m tests.house.language --write"
    for path in FILES:
        result, limit = list(offences(language.sentences_of(path))), limits.get(name(path), 0)
        if len(result) > limit:
            more += [f"{name(path)}: {len(result)} offences, {limit} allowed:", *map(str, result)]
        if len(result) < limit:
            fewer.append(name(path))
    assert more == [], "\n".join(more)
    assert fewer == [], "fewer offences than allowed: run python -m tests.house.language --write"


@pytest.mark.parametrize("path", language.pages(), ids=name)
def test_the_sentences_of_a_page_are_short_on_average(path: Path) -> None:
    mean = mean_words(language.sentences_of(path))
    assert mean <= language.MAX_MEAN, f"{mean:.1f} words on average: split the longest sentences"


@pytest.mark.parametrize("turn", language.TURNS, ids=lambda turn: turn.name)
def test_a_turn_is_found_where_it_stands_and_only_there(turn: language.Turn) -> None:
    assert f"the turn “{turn.name}”" in rules(turn.example)
    assert rules(turn.fine) == []


def test_a_message_says_file_line_sentence_rule_and_what_to_do() -> None:
    page = "# Title\n\nA short one.\n\nIt is short. All are sent, but for\nthe `last`.\n"
    (result,) = offences(sentences_of_markdown(page, "docs/page.md"))
    said = "docs/page.md:5: the turn “but for”. Write: except.\n    All are sent, but for the `…`."
    assert str(result) == said


def test_code_tables_headings_and_targets_of_links_are_no_words() -> None:
    page = "# Anew\n\n| anew |\n|---|\n| anew |\n\n```sh\nanew\n```\n\nSee `anew` and [here](anew.md).\n"
    (sentence,) = sentences_of_markdown(page, "page.md")
    assert (sentence.text, sentence.words) == ("See `…` and here.", 3)


def test_a_sentence_is_too_long_by_one_word() -> None:
    assert rules("word " * language.MAX_WORDS) == []
    assert rules("word " * (language.MAX_WORDS + 1)) == ["31 words in one sentence, 30 are allowed"]


def test_every_docstring_of_a_module_is_read_and_no_other_string() -> None:
    source = '''
"""The module, anew."""
LIMIT = 3
"""A constant, anew."""
message = "not prose: anew"

class Shape:
    """A class.

    Attributes:
        sides: how many, anew.
        name: of the shape,
            anew.
    """

    def area(self) -> int:
        """A function.

        >>> "an example, anew"
        'an example, anew'
        """
        return 0
'''
    result = [offence.sentence.text for offence in offences(sentences_of_python(source, "shape.py"))]
    assert result == [
        "The module, anew.",
        "A constant, anew.",
        "sides: how many, anew.",
        "name: of the shape, anew.",
    ]


def test_the_first_line_of_a_docstring_opens_with_a_noun() -> None:
    source = '"""Of the tiers."""\n\n\ndef columns() -> None:\n    """The columns. They are sorted."""\n'
    (result,) = offences(sentences_of_python(source, "tiers.py"))
    assert result.rule == "a docstring that opens without a noun"
    assert rules("They are sorted.") == []
