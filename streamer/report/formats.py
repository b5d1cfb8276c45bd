"""The formats of a report, and what each needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streamer.report.as_html import as_html
from streamer.report.as_json import as_json
from streamer.report.as_markdown import as_markdown
from streamer.report.data import RunData
from streamer.views.trial_csv import as_csv
from streamer.views.trial_parquet import as_parquet

FORMATS: dict[str, Callable[[RunData], bytes]] = {
    "md": as_markdown,
    "html": as_html,
    "csv": lambda data: as_csv(data.trials or (), data.run["metrics"]),
    "parquet": lambda data: as_parquet(data.trials or (), data.run["metrics"]),
    "json": as_json,
}
"""Format to its writer; also the usual ending of a file name."""

WITHOUT_TRIALS = frozenset({"md"})
"""These never list single trials, so that no broker is needed."""


def format_of(file: Path) -> str | None:
    """The format that the ending of a file name says; None: none of them.

    >>> format_of(Path("run.HTML")), format_of(Path("run.txt"))
    ('html', None)
    """
    ending = file.suffix.lower().removeprefix(".")
    return ending if ending in FORMATS else None
