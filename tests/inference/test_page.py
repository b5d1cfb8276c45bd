"""docs/inference.md says what the code does: its examples run, its codes and its picture are the code's."""

from __future__ import annotations

import doctest
import re

from benchmarks.coverage import CONCURRENCIES, SCENARIOS, picture
from streamer.statistics.final import FinalMissing
from tests.house.repository import ROOT

PAGE = ROOT / "docs" / "inference.md"
TEXT = PAGE.read_text("utf-8")


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried > 0) == (0, True)


def test_the_codes_stand_in_the_order_in_which_they_apply() -> None:
    assert re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE)[-len(FinalMissing) :] == list(FinalMissing)


def test_the_picture_is_the_one_that_its_command_draws() -> None:
    assert "\n".join(picture(3)) in TEXT


def test_the_table_has_a_row_for_each_scenario() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| [\d.]+% \|", TEXT, re.MULTILINE)
    expected = [(scenario.name, str(at_once)) for scenario in SCENARIOS for at_once in CONCURRENCIES]
    assert rows == expected


def test_every_section_that_code_cites_is_on_the_page() -> None:
    cited = set()
    for path in (ROOT / "streamer" / "statistics").glob("*.py"):
        cited |= set(re.findall(r"inference (\d)", path.read_text("utf-8")))
    assert cited <= set(re.findall(r"^## (\d)\. ", TEXT, re.MULTILINE))
    assert len(cited) >= 4
