"""The price table that a command folds or reports with."""

from __future__ import annotations

from pathlib import Path

import click

from streamer.score import PriceTable, PriceTableError


def price_table(file: Path | None) -> PriceTable:
    """The price table of a file, or the default one; a file that is no price table is a usage error."""
    if file is None:
        return PriceTable.default()
    try:
        return PriceTable.from_toml(file.read_text(encoding="utf-8"))
    except (PriceTableError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file}: {error}") from error
