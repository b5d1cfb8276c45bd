"""Terminal recordings (asciinema's .cast): how many events one holds (E3)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from streamer.sources.files import FileError, check_size, reading

EVENT_PARTS = 3
"""An event is at least [time, kind, data]."""

MAX_RECORDING_BYTES = 1024 * 1024 * 1024
"""Larger recordings are not read: it would take minutes."""

MAX_LINE_CHARACTERS = 16 * 1024 * 1024
"""A recording with a longer line is not a recording. Lines are read one by one, so this bounds the memory."""


def cast_length(file: Path) -> int:
    """Events of a recording, of any kind: output, input, markers, resizes (E3, R8).

    The first line is the header, whatever it holds; blank and broken lines do not count. Lines end where
    `str.splitlines` ends them, as in the harness: also at a raw U+2028. Raises FileError where there is
    no header yet, or no UTF-8, or where it is too large.
    """
    lines = _lines(file)
    try:
        if next(lines, None) is None:
            raise FileError("empty: the recording has not begun")
        return sum(map(_is_event, lines))
    except UnicodeDecodeError as error:
        raise FileError(f"not UTF-8 ({error.reason})") from error


def _lines(file: Path) -> Iterator[str]:
    with reading(file), file.open(encoding="utf-8", newline="\n") as blocks:
        check_size(os.fstat(blocks.fileno()).st_size, MAX_RECORDING_BYTES)
        while block := blocks.readline(MAX_LINE_CHARACTERS):
            if len(block) == MAX_LINE_CHARACTERS:
                raise FileError(f"has a line of {len(block):,} characters or more, as no recording has")
            yield from block.splitlines()


def _is_event(line: str) -> bool:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(event, list) and len(event) >= EVENT_PARTS
