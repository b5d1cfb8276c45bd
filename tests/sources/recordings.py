"""Terminal recordings as harnesses leave them."""

from __future__ import annotations

import os
from pathlib import Path

HEADER = '{"version": 2}\n'


def write_cast(trial: Path, events: int, name: str = "agent.cast", mtime: int = 1_700_000_000) -> Path:
    return written(trial / "sessions" / name, HEADER + '[0.1, "o", "x"]\n' * events, mtime)


def written(file: Path, text: str, mtime: int) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (mtime, mtime))
    return file
