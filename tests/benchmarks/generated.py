"""The tables that a study writes into docs/inference.md, as they stand there."""

from __future__ import annotations

import re

from benchmarks.gate_study import PAGE


def table(name: str) -> list[list[str]]:
    """The cells of a generated table of the page, without its head."""
    [text] = re.findall(
        rf"<!-- {name}: generated -->\n(.*?)\n<!-- end of {name} -->", PAGE.read_text("utf-8"), re.DOTALL
    )
    return [cells(line) for line in text.splitlines()[2:]]


def cells(row: str) -> list[str]:
    return row.strip("| ").split(" | ")


def percents(row: list[str]) -> list[float]:
    return [float(cell.rstrip("% ")) for cell in row]
