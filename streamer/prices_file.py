"""The price table that a file of the user asks for; without a file the default one."""

from __future__ import annotations

from pathlib import Path

from streamer.score import PriceTable, PriceTableError


def price_table(file: Path | None) -> PriceTable:
    """The prices of a file in front of the default ones; None: the default ones alone.

    Raises:
        PriceTableError: the file cannot be read, or holds no price table; the message names the file.

    >>> price_table(None).digest() == PriceTable.default().digest()
    True
    """
    if file is None:
        return PriceTable.default()
    try:
        return PriceTable.from_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PriceTableError(
            f"{file} cannot be read: {error.strerror}. Name a TOML price table that is there, or none"
        ) from error
    except (PriceTableError, UnicodeDecodeError) as error:
        raise PriceTableError(f"{file}: {error}") from error
