"""The connectors there are."""

from __future__ import annotations

from collections.abc import Sequence

from streamer.sources.base import AUTO, Source
from streamer.sources.fc_eval import FcEval
from streamer.sources.scylla import Scylla
from streamer.sources.terminal_bench import TerminalBench

SOURCES: tuple[Source, ...] = (FcEval(), TerminalBench(), Scylla())
"""In the order in which they are asked; the first that detects a run has it."""

HARNESSES = (AUTO, *(source.name for source in SOURCES))
"""What `--harness` may say."""


def sources_for(harness: str) -> Sequence[Source]:
    """The connectors that a `--harness` value admits. ValueError if it names none."""
    if harness not in HARNESSES:
        raise ValueError(f"harness {harness!r} is unknown; allowed are {', '.join(HARNESSES)}")
    return [source for source in SOURCES if harness in (AUTO, source.name)]
