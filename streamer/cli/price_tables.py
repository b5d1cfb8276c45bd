"""The price table that a command folds or reports with."""

from __future__ import annotations

from pathlib import Path

import click

from streamer import prices_file
from streamer.score import PriceTable, PriceTableError

prices_option = click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML price table of yours.",
)
"""Gives the command `prices: Path | None`."""


def price_table(file: Path | None) -> PriceTable:
    """The price table of a file, or the default one; a file that is no price table is a usage error."""
    try:
        return prices_file.price_table(file)
    except PriceTableError as error:
        raise click.UsageError(str(error)) from error
