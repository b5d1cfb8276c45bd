"""Where the numbers of a trial come from that may come from several files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.sources.base import Found

EXPLAINED = ("input_tokens", "output_tokens", "cost_usd", "trajectory_length")
"""Fields that may come from the harness's result or from an agent's own logs."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the numbers of a sent trial come from that may come from several files.

    Attributes:
        path: the file that the trial was read from.
        values: field to (value, file); (None, "") where the files say nothing.
        hints: what files could not tell, and why.
    """

    path: Path
    values: dict[str, tuple[Any, str]]
    hints: tuple[str, ...]


def explanation_of(found: Found, event: dict[str, Any]) -> Explanation:
    """The explanation of a trial that is sent as this event."""
    values = {
        name: (event[name], found.origins.get(name, found.path.name)) if name in event else (None, "")
        for name in EXPLAINED
    }
    return Explanation(found.path, values, found.hints)
