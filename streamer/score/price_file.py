"""Reading a price table: TOML text to entries, or an error that says what to mend."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from streamer.model_names import model_for_pricing

TOKENS_PER_PRICE = 1_000_000
"""Price tables count in USD per this many tokens."""

MIN_PRICE = Decimal("1e-9")
MAX_PRICE = Decimal("1e9")
"""USD per 1M tokens: far outside what anybody charges, small enough that no cost overflows a float."""

_FIELDS = ("input", "output", "cache_read", "cache_write", "aliases", "source")


@dataclass(frozen=True, slots=True)
class Price:
    """Price of one model, exact.

    Attributes:
        input: USD per fresh input token.
        output: USD per output token.
        cache_read: USD per input token read from a cache; None: unknown.
        cache_write: USD per input token written to a cache; None: unknown.
        source: where the price comes from, for people.
    """

    input: Fraction
    output: Fraction
    cache_read: Fraction | None
    cache_write: Fraction | None
    source: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of a price table: its name, then its aliases, as E9 spells them."""

    names: tuple[str, ...]
    price: Price


class PriceTableError(ValueError):
    """A price table that cannot be used; the message names the entry and what is allowed there."""


def read_price_file(text: str, source: str) -> tuple[Entry, ...]:
    """Entries of a price table, in file order; an entry that names no source is from `source`."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError) as error:  # also numbers too long to read
        raise PriceTableError(f"price table: not valid TOML: {error}; mend the file") from error
    models = document.pop("models", {})
    if document or not isinstance(models, dict):
        raise PriceTableError(
            f"price table: found {', '.join(map(repr, document)) or 'models'} at the top; "
            'allowed: tables named [models."NAME"] only'
        )
    entries = tuple(_entry(name, fields, source) for name, fields in models.items())
    _check_unique(entries)
    return entries


def _entry(name: str, fields: object, source: str) -> Entry:
    where = f'price table: [models."{name}"]'
    if not isinstance(fields, dict):
        raise PriceTableError(f"{where} is {fields!r}; allowed: a table with {', '.join(_FIELDS)}")
    unknown = sorted(set(fields) - set(_FIELDS))
    if unknown:
        raise PriceTableError(f"{where} has the unknown field {unknown[0]!r}; allowed: {', '.join(_FIELDS)}")
    return Entry(
        names=(model_for_pricing(name), *map(model_for_pricing, _aliases(where, fields))),
        price=Price(
            input=_required(where, fields, "input"),
            output=_required(where, fields, "output"),
            cache_read=_optional(where, fields, "cache_read"),
            cache_write=_optional(where, fields, "cache_write"),
            source=_source(where, fields, source),
        ),
    )


def _required(where: str, fields: dict[str, Any], field: str) -> Fraction:
    rate = _optional(where, fields, field)
    if rate is None:
        raise PriceTableError(f"{where} lacks {field}; add it, in USD per 1 million tokens")
    return rate


def _optional(where: str, fields: dict[str, Any], field: str) -> Fraction | None:
    value = fields.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not _in_range(Decimal(value)):
        shown = value if isinstance(value, Decimal) else repr(value)
        raise PriceTableError(
            f"{where} {field} is {shown}; allowed: USD per 1 million tokens, 0 or {MIN_PRICE} to {MAX_PRICE}"
        )
    return Fraction(value) / TOKENS_PER_PRICE


def _in_range(value: Decimal) -> bool:
    return value.is_finite() and (value == 0 or MIN_PRICE <= value <= MAX_PRICE)


def _aliases(where: str, fields: dict[str, Any]) -> list[str]:
    aliases = fields.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise PriceTableError(f"{where} aliases is {aliases!r}; allowed: a list of model names in quotes")
    return aliases


def _source(where: str, fields: dict[str, Any], default: str) -> str:
    source = fields.get("source", default)
    if not isinstance(source, str):
        raise PriceTableError(f"{where} source is {source!r}; allowed: a text")
    return source


def _check_unique(entries: tuple[Entry, ...]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        for name in entry.names:
            if name in seen:
                raise PriceTableError(
                    f'price table: the name {name!r} stands for both [models."{seen[name]}"] and '
                    f'[models."{entry.names[0]}"] (a leading @ and a provider prefix do not count); keep one'
                )
            seen[name] = entry.names[0]
