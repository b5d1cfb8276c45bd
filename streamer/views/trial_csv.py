r"""Scored trials as CSV, safe to open in a spreadsheet.

A text that a spreadsheet would take for a formula gets one apostrophe before it. So does a text that begins
with an apostrophe: a reader of the file takes one away and has the text as it was. All texts stand in quotes,
so that an empty text differs from an unknown value (nothing at all).

>>> cell("=cmd|' /C calc'!A0"), cell("it's"), cell(None), cell(""), cell(0.1), cell(True), cell(float("inf"))
('"\'=cmd|\' /C calc\'!A0"', '"it\'s"', '', '""', '0.1', 'true', 'Infinity')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamer.schemas.canonical import json_number
from streamer.views.trial_columns import Value, columns_of, rows

FORMULA_STARTS = "=+-@\t\r\n＝＋－＠'"
"""A text that begins with one of these gets an apostrophe before it."""


def as_csv(trials: Sequence[Mapping[str, Any]], planned: Mapping[str, Any] | None = None) -> bytes:
    """CSV (RFC 4180, UTF-8, CRLF): a line of names, then one line per scored trial; see `columns_of`."""
    columns = columns_of(trials, planned)
    head = ",".join(column.name for column in columns)
    lines = [head, *(",".join(map(cell, row)) for row in rows(trials, columns))]
    return "".join(f"{line}\r\n" for line in lines).encode()


def cell(value: Value) -> str:
    """One value: texts in quotes and harmless, numbers as in JSON, nothing for what is unknown."""
    if value is None:
        return ""
    if isinstance(value, str):
        guarded = f"'{value}" if value.startswith(tuple(FORMULA_STARTS)) else value
        return '"' + guarded.replace('"', '""') + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(json_number(value)) if isinstance(value, float) else str(value)
