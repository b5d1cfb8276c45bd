"""Terminal recordings (asciinema's .cast): how many events one holds (E3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from streamer.sources.files import FileError, is_file

EVENT_PARTS = 3
"""An event is at least [time, kind, data]."""


def cast_length(file: Path) -> int:
    """Events of a recording, of any kind: output, input, markers, resizes (E3, R8).

    The first line is the header, whatever it holds; blank and broken lines do not count. Lines end where
    `str.splitlines` ends them, as in the harness: also at a raw U+2028. Raises FileError where there is
    no header yet, or no UTF-8.
    """
    if not is_file(file):
        raise FileError("not a regular file")
    try:
        lines = _lines(file)
        if next(lines, None) is None:
            raise FileError("empty: the recording has not begun")
        return sum(map(_is_event, lines))
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"not UTF-8 ({error.reason})") from error


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="\n") as blocks:
        for block in blocks:
            yield from block.splitlines()


def _is_event(line: str) -> bool:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(event, list) and len(event) >= EVENT_PARTS
