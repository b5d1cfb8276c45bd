"""The price table of a deployment, from the file that its settings name."""

from __future__ import annotations

from pathlib import Path

from streamer.score import PriceTable, PriceTableError


def read_price_table(file: Path | None) -> PriceTable:
    """The price table in a file of TOML; None: the default one.

    Raises:
        PriceTableError: the file holds no price table; the message names it.
        OSError: it cannot be read.

    >>> read_price_table(None).digest() == PriceTable.default().digest()
    True
    """
    if file is None:
        return PriceTable.default()
    try:
        return PriceTable.from_toml(file.read_text(encoding="utf-8"))
    except (PriceTableError, UnicodeDecodeError) as error:
        raise PriceTableError(f"{file}: {error}") from error
