"""Runs that swebench 5.0.2 itself graded and reported, recorded by record.py."""

from __future__ import annotations

from pathlib import Path

from tests.sources.builders import unpacked

RUNS = Path(__file__).parent / "runs.tar.gz"
MODEL, OTHER = "acme__solver-1.5", "acme__other"
REPORT = f"{MODEL}.nightly.json"


def unpack_runs(home: Path) -> Path:
    """The directory that the harness was started in: the report of one model, the logs of two."""
    return unpacked(RUNS, home)
