"""The rows of a file of Every Eval Ever, gathered into samples: one row for each result of a sample."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamer.sources.files import UNFINISHED, FileError, part, reading, text

ENDING = "_samples.jsonl"
"""The end of the name of every file of rows."""

NEEDED = ("evaluation_id", "model_id", "evaluation_name", "sample_id")
"""Texts that every row has."""

MAX_LINE_CHARACTERS = 16 * 1024 * 1024
"""A longer line is not read: rows hold whole conversations, and this bounds the memory."""

_KEPT = (*NEEDED, "evaluation_result_id", "evaluation", "token_usage", "performance", "error", "metadata")

Row = dict[str, Any]


@dataclass(slots=True)
class Sample:
    """One attempt at a sample.

    Attributes:
        attempt: from 1.
        rows: what it says of each of its results, in the file's order, without texts of the conversation.
    """

    attempt: int
    rows: list[Row] = field(default_factory=list)


def is_rows(path: Path) -> bool:
    """Whether a file holds rows: by its first line."""
    try:
        return path.suffix == ".jsonl" and first_row(path) is not None
    except FileError:
        return False


def first_row(path: Path) -> Row | None:
    """The first row; None if the first line is another. Raises FileError."""
    row = next(_lines(path), None)
    return None if row is None or isinstance(row[1], str) else row[1]


def read_samples(path: Path) -> tuple[list[Sample], list[str]]:
    """The samples in the order of their first rows, and a sentence on each line that is no row.

    Raises FileError if the file cannot be read.
    """
    samples: dict[tuple[str, ...], Sample] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    problems = []
    for number, row in _lines(path):
        if isinstance(row, str):
            problems.append(f"line {number} {row}")
            continue
        about = tuple(row[name] for name in NEEDED)
        result = (*about, text(row.get("evaluation_result_id")) or "")
        seen[result] += 1
        attempt = _epoch(row) or seen[result]
        sample = samples.setdefault((*about, str(attempt)), Sample(attempt))
        sample.rows.append(row)
    return list(samples.values()), problems


def _lines(path: Path) -> Iterator[tuple[int, Row | str]]:
    """Number and row of each line that is not blank; of a line that is no row what is wrong with it."""
    with reading(path), path.open(encoding="utf-8", errors="replace") as opened:
        number = 0
        while line := opened.readline(MAX_LINE_CHARACTERS):
            number += 1
            if len(line) == MAX_LINE_CHARACTERS:
                raise FileError(f"line {number} has {len(line):,} characters or more, as no row has")
            if line.strip():
                yield number, _row(line)


def _row(line: str) -> Row | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return f"is not valid JSON; {UNFINISHED}"
    if not isinstance(value, dict):
        return f"holds a JSON {type(value).__name__} where an object belongs"
    if missing := [name for name in NEEDED if text(value.get(name)) is None]:
        return f"is no row of Every Eval Ever: it has no text under {', '.join(missing)}"
    return {name: value[name] for name in _KEPT if name in value}


def _epoch(row: Row) -> int | None:
    """The attempt that the converter of inspect_ai logs writes into the metadata."""
    epoch = part(row, "metadata").get("epoch")
    return int(epoch) if isinstance(epoch, str) and epoch.isdecimal() and 0 < len(epoch) < 7 else None
