"""`streamer prices`: what tokens cost, and who says so."""

from __future__ import annotations

from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from streamer.cli.errors import FOUND_WRONG
from streamer.cli.options import json_option, with_settings
from streamer.cli.price_tables import price_table, prices_option
from streamer.cli.printing import print_json, print_line, print_table, say
from streamer.schemas.canonical import canonical_json
from streamer.score import Price, PriceTable, model_for_pricing, model_for_reporting
from streamer.settings import Settings

TOKENS = 1_000_000
"""Prices are shown in USD per this many tokens."""

PriceRow = dict[str, Any]


@click.command()
@click.argument("model", required=False)
@json_option
@prices_option
@with_settings
def prices_command(model: str | None, as_json: bool, prices: Path | None, settings: Settings) -> None:
    """Say which price applies to MODEL, in USD per 1 million tokens, and from where it comes.

    Searched in this order: your table (--prices, or the setting prices_file), the built-in one (the
    specification's prices, then fc-eval's), the list of the library genai-prices, as packaged. Without
    MODEL, your table and the built-in one are listed. The exit code is 1 if no table has a price: such a
    model has no cost, never $0.
    """
    file = prices or settings.prices_file
    table = price_table(file)
    if model is None:
        _list(table, file, as_json)
        return
    row = _price_row(table, model)
    if as_json:
        print_json(canonical_json(row))
    elif row["known"]:
        _print_price(row, file)
    if not row["known"]:
        say(_unknown(table, model))
        raise click.exceptions.Exit(FOUND_WRONG)


def _price_row(table: PriceTable, model: str) -> PriceRow:
    price = table.price(model)
    return {
        "model": model,
        "pricing_name": model_for_pricing(model),
        "reporting_name": model_for_reporting(model),
        "known": price is not None,
        "origin": table.origin(model),
        "source": None if price is None else price.source,
        "usd_per_1m_tokens": None if price is None else _rates(price),
    }


def _rates(price: Price) -> dict[str, float | None]:
    """USD per 1 million tokens; None: unknown, and charged as `input`."""
    return {
        "input": _per_million(price.input),
        "output": _per_million(price.output),
        "cache_read": _per_million(price.cache_read),
        "cache_write": _per_million(price.cache_write),
    }


def _per_million(rate: Fraction | None) -> float | None:
    return None if rate is None else float(rate * TOKENS)


def _print_price(row: PriceRow, file: Path | None) -> None:
    print_line(f"{row['model']}: {_origin(row['origin'], file)}; source: {row['source']}")
    for name, rate in row["usd_per_1m_tokens"].items():
        print_line(f"  {name.replace('_', ' '):<12} {_dollars(rate)}")
    print_line(f"  {'looked up as':<12} {row['pricing_name']}")
    print_line(f"  {'reported as':<12} {row['reporting_name']}")


def _origin(origin: str, file: Path | None) -> str:
    return {
        "user": f"your table {file}",
        "built-in": "built-in table",
        "genai-prices": "library genai-prices, as packaged",
    }[origin]


def _dollars(rate: float | None) -> str:
    """A rate with all its digits.

    >>> _dollars(1.25), _dollars(0.0375), _dollars(None)
    ('$1.25 per 1M tokens', '$0.0375 per 1M tokens', 'unknown; charged as input')
    """
    return "unknown; charged as input" if rate is None else f"${_digits(rate)} per 1M tokens"


def _digits(rate: float) -> str:
    return f"{rate:.2f}" if round(rate, 2) == rate else f"{rate:.12f}".rstrip("0")


def _list(table: PriceTable, file: Path | None, as_json: bool) -> None:
    rows = [
        {**_price_row(table, entry.names[0]), "aliases": list(entry.names[1:])} for entry in table.entries()
    ]
    if as_json:
        for row in rows:
            print_json(canonical_json(row))
        return
    columns = ("model", "also called", "source", "input", "output", "cache read", "cache write")
    print_table("Prices in USD per 1M tokens", columns, map(_cells, rows), left=range(3))
    where = f"your table {file}, then the built-in one" if file else "the built-in table"
    print_line(f"From {where}; every other model is looked up in genai-prices: streamer prices MODEL")


def _cells(row: PriceRow) -> list[str | None]:
    rates = row["usd_per_1m_tokens"].values()
    shown = [None if rate is None else _digits(rate) for rate in rates]
    return [row["model"], ", ".join(row["aliases"]), row["source"], *shown]


def _unknown(table: PriceTable, model: str) -> str:
    name = model_for_pricing(model)
    known = [known for entry in table.entries() for known in entry.names]
    close = get_close_matches(name, known, n=3)
    hint = f" Names like it: {', '.join(close)}." if close else ""
    return (
        f"no table has a price for {model!r} (looked up as {name!r}).{hint} Its cost stays "
        f'unknown; to give it one, put [models."{name}"] with input and output, in USD '
        "per 1 million tokens, into a TOML file and pass that with --prices"
    )
