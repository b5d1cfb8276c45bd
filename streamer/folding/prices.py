"""Prices of tokens: from the user's table, then ours, then the snapshot bundled with genai-prices (R2)."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from streamer.schemas.base import canonical_json, model_for_pricing, sha256_hex

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, TieredPrices


# -----------------------------------------------------------------------------
# Reading a price table: TOML text to entries, or an error that says what to correct.


TOKENS_PER_PRICE = 1_000_000

MIN_PRICE = Decimal("1e-9")
MAX_PRICE = Decimal("1e9")
"""USD per 1M tokens: far above any real price, and small enough that no cost overflows a float."""

_FIELDS = ("input", "output", "cache_read", "cache_write", "aliases", "source")


@dataclass(frozen=True, slots=True)
class Price:
    """The exact price of one model in USD per token; an unknown cache price is None."""

    input: Fraction
    output: Fraction
    cache_read: Fraction | None
    cache_write: Fraction | None
    source: str


@dataclass(frozen=True, slots=True)
class Entry:
    names: tuple[str, ...]
    price: Price


class PriceTableError(ValueError):
    """An unusable price table. The message names the entry and what is allowed there."""


def read_price_file(text: str, source: str) -> tuple[Entry, ...]:
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:  # also numbers too long to read
        raise PriceTableError(f"price table: not valid TOML: {error}; fix the file") from error
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
        raise PriceTableError(f"{where} source is {source!r}; allowed: text")
    return source


def _check_unique(entries: tuple[Entry, ...]) -> None:
    seen: dict[str, str] = {}
    for entry in entries:
        for name in entry.names:
            if name in seen:
                raise PriceTableError(
                    f'price table: the name {name!r} means both [models."{seen[name]}"] and '
                    f'[models."{entry.names[0]}"] (a leading @ or provider prefix is ignored); keep one'
                )
            seen[name] = entry.names[0]


# -----------------------------------------------------------------------------
# The parts of the installation that the core reads: our own price table and the version of genai-prices.
#
# This is the only module of the core that reads files. Both belong to the installed packages, like the code:
# machines with the same versions read the same, and the user's settings do not change them.


def built_in_prices() -> str:
    return files("streamer.folding").joinpath("prices.toml").read_text(encoding="utf-8")


def genai_prices_version() -> str:
    return version("genai-prices")


# -----------------------------------------------------------------------------
# Prices from the library genai-prices: from the snapshot in its package, never from the network.


AS_OF = datetime(9999, 1, 1, 12, tzinfo=UTC)
"""Noon UTC on the last day. Prices change by date and hour; this picks the newest, the same on every day."""


def snapshot_price(name: str) -> tuple[str, Price] | None:
    """The library's id and price of a model; None if it has no price for this name.

    If prices rise with the size of a request, the base price counts, because these sizes are unknown.
    """
    for provider, model in _readings(name):
        try:
            _, entry = _snapshot().find_provider_model(model, None, provider, None)
        except LookupError:
            continue
        prices = entry.get_prices(AS_OF)
        rate_in, rate_out = _per_token(prices.input_mtok), _per_token(prices.output_mtok)
        if rate_in is None or rate_out is None:
            continue
        since = _since(entry)
        dated = f", since {since}" if since else ""
        source = f"genai-prices {genai_prices_version()} ({entry.id}{dated})"
        cache_read, cache_write = _per_token(prices.cache_read_mtok), _per_token(prices.cache_write_mtok)
        return entry.id, Price(rate_in, rate_out, cache_read, cache_write, source)
    return None


GATEWAYS = frozenset(
    {"litellm", "litellm_proxy", "llm_proxy", "hosted_vllm", "openrouter", "openai-api", "openai_like"}
    | {"custom_openai", "responses", "azure_ai", "fireworks_ai", "together_ai", "github", "portkey"}
    | {"helicone", "requesty", "vercel", "vercel_ai_gateway", "ai-gateway", "aihubmix", "cloudflare"}
    | {"databricks", "snowflake"}
)
"""First parts of names that denote a gateway, not the provider of the model."""

PROVIDERS = {
    "azure_ai": "azure",
    "fireworks_ai": "fireworks",
    "github_copilot": "github-copilot",
    "grok": "x-ai",
}
"""LiteLLM's provider names that genai-prices does not know, with its own names for them."""

_ROUTE = re.compile(r":(beta|thinking|nitro|floor|exacto|extended)$")

_FREE = ":free"

_ON_BEDROCK = re.compile(r":\d+$")

_CLAUDE_ON_BEDROCK = re.compile(r"(?:.*[./])?anthropic\.(claude-.+)-v\d+(?::\d+)?", re.DOTALL)
"""Amazon's name of an Anthropic model, with the region or another prefix."""


def spellings(name: str) -> Iterator[str]:
    """The names under which a model's price may be listed, the most specific first.

    Gateways put their own names in front of the model's, so each shorter remainder counts.

    >>> list(spellings("litellm_proxy/team/claude-opus-4-5"))
    ['litellm_proxy/team/claude-opus-4-5', 'team/claude-opus-4-5', 'claude-opus-4-5']
    >>> list(spellings("bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0"))[1:]
    ['claude-opus-4-5-20251101']
    >>> list(spellings("ollama/llama3")), list(spellings("openrouter/z-ai/glm-4.6:nitro"))[1]
    (['ollama/llama3'], 'openrouter/z-ai/glm-4.6')
    """
    behind = name.partition("/")[0].lower() in GATEWAYS
    claude = _CLAUDE_ON_BEDROCK.fullmatch(name)
    while name:
        yield name
        if plain := _ROUTE.sub("", name):
            yield from [plain] if plain != name else []
        name = name.partition("/")[2] if behind else ""
    if claude:
        yield claude[1]


def _readings(name: str) -> list[tuple[str | None, str]]:
    """(provider, model): the whole name, then with its first part as provider (`openrouter/openai/gpt-5`)."""
    provider, slash, rest = name.partition("/")
    named = [(PROVIDERS.get(provider, provider), rest)] if slash and provider and rest else []
    return [(None, name), *named, *([("aws", name)] if _ON_BEDROCK.search(name) else [])]


def _since(model: ModelInfo) -> date | None:
    """The first day of the price; None if the library gives no day, since the snapshot itself has no date."""
    from genai_prices.types import ConditionalPrice, StartDateConstraint

    for price in reversed(model.prices if isinstance(model.prices, list) else []):
        if isinstance(price, ConditionalPrice) and (limit := price.constraint) and limit.active(AS_OF):
            return limit.start_date if isinstance(limit, StartDateConstraint) else None
    return None


@cache
def _snapshot() -> DataSnapshot:
    # Imported here: it takes 0.3 s, and most runs are priced without it.
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False, timestamp=AS_OF)


def _per_token(per_million: Decimal | TieredPrices | None) -> Fraction | None:
    if per_million is None:
        return None
    base = per_million if isinstance(per_million, Decimal) else per_million.base
    return Fraction(base) / TOKENS_PER_PRICE


# -----------------------------------------------------------------------------
# Prices of tokens: the user's table, then ours, then genai-prices' bundled snapshot (R2).


Origin = Literal["user", "built-in", "genai-prices"]
"""The table that a price comes from, in order of precedence."""


@dataclass(frozen=True, slots=True)
class _Tariff:
    """A price as integers over one denominator, so that a cost is one exact division."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    denominator: int

    @classmethod
    def of(cls, price: Price) -> _Tariff:
        cache_read = price.input if price.cache_read is None else price.cache_read
        cache_write = price.input if price.cache_write is None else price.cache_write
        rates = (price.input, price.output, cache_read, cache_write)
        denominator = math.lcm(*(rate.denominator for rate in rates))
        fresh, output, read, write = (int(rate * denominator) for rate in rates)
        return cls(fresh, output, read, write, denominator)


class PriceTable:
    """Prices of models by name. A model without an entry has no price: its cost is unknown, not 0 (R2)."""

    def __init__(self, user: tuple[Entry, ...] = (), *, is_closed: bool = False) -> None:
        self._user = user
        self._named = _named_prices(user, () if is_closed else _default_entries())
        self._is_closed = is_closed
        self._tariffs: dict[str, _Tariff | None] = {}
        self._prices: dict[str, Price | None] = {}

    @classmethod
    def default(cls) -> PriceTable:
        return cls()

    @classmethod
    def from_toml(cls, text: str) -> PriceTable:
        """The user's prices, in the format of `prices.toml`, which take precedence over the default ones.

        An entry under one of our names also covers our aliases of it. Raises PriceTableError.
        """
        return cls(read_price_file(text, source="user's price table"))

    @classmethod
    def closed(cls, text: str) -> PriceTable:
        return cls(read_price_file(text, source="price list"), is_closed=True)

    def digest(self) -> str:
        named = sorted(
            (name, *map(str, (price.input, price.output, price.cache_read, price.cache_write)))
            for name, price in self._named.items()
        )
        return sha256_hex(canonical_json([named, genai_prices_version()]))

    def toml(self, models: Iterable[str]) -> str:
        lines = []
        for name in sorted({model_for_pricing(model) for model in models}):
            if price := self.price(name):
                rates = [(rate, getattr(price, rate)) for rate in _FIELDS[:4]]
                lines.append(f"[models.{_quoted(name)}]\nsource = {_quoted(price.source)}")
                lines += [f"{rate} = {_decimal(of)}" for rate, of in rates if of is not None]
        return "\n".join([*lines, ""])

    def price(self, model: str) -> Price | None:
        """Exact price of a model in USD per token; None if no table has it.

        >>> price = PriceTable.default().price("anthropic/claude-opus-4-5-20251101")
        >>> float(price.input), float(price.output), price.source
        (1.5e-05, 7.5e-05, 'specification')
        """
        try:
            return self._prices[model]
        except KeyError:
            price = self._prices[model] = self._find(model_for_pricing(model))
            return price

    def origin(self, model: str) -> Origin | None:
        """The table that a model's price comes from; None if no table has it.

        >>> PriceTable.default().origin("gpt-4o"), PriceTable.default().origin("a-model-without-price")
        ('built-in', None)
        """
        price = self.price(model)
        if price is None:
            return None
        if any(price is entry.price for entry in self._user):
            return "user"
        return "built-in" if any(price is entry.price for entry in _default_entries()) else "genai-prices"

    def entries(self) -> tuple[Entry, ...]:
        """The effective entries of the user's table, then ours, without genai-prices."""
        taken = {name for entry in self._user for name in entry.names}
        ours = (entry for entry in _default_entries() if not taken.issuperset(entry.names))
        return (*self._user, *(Entry(entry.names, self._named[entry.names[0]]) for entry in ours))

    def cost(
        self,
        model: str,
        input_tokens: int | None,
        output_tokens: int | None,
        cache_read_tokens: int | None = None,
        cache_write_tokens: int | None = None,
    ) -> float | None:
        """Estimated cost in USD: the exact sum of tokens x price, rounded once (R18).

        None if the model has no price, or if input or output tokens are unknown (R1). Unknown cache tokens
        add nothing. Cache tokens without a price cost as much as fresh input, an upper bound for reads.

        >>> PriceTable.default().cost("gpt-4o", 1000, 100)
        0.0065
        >>> PriceTable.default().cost("a-model-without-price", 1000, 100) is None
        True
        """
        if input_tokens is None or output_tokens is None:
            return None
        tariff = self._tariff(model)
        if tariff is None:
            return None
        total = input_tokens * tariff.input + output_tokens * tariff.output
        if cache_read_tokens:
            total += cache_read_tokens * tariff.cache_read
        if cache_write_tokens:
            total += cache_write_tokens * tariff.cache_write
        return total / tariff.denominator

    def _tariff(self, model: str) -> _Tariff | None:
        try:
            return self._tariffs[model]
        except KeyError:
            price = self.price(model)
            tariff = self._tariffs[model] = None if price is None else _Tariff.of(price)
            return tariff

    def _find(self, model: str) -> Price | None:
        names = [model_for_pricing(name) for name in spellings(model)]
        prices = chain(map(self._named.get, names), () if self._is_closed else map(self._listed, names))
        return next((price for price in prices if price is not None), None)

    def _listed(self, name: str) -> Price | None:
        entry = None if name.endswith(_FREE) else snapshot_price(name)
        if entry is None:
            return None
        name_there, price = entry
        return self._named.get(model_for_pricing(name_there), price)


@cache
def _default_entries() -> tuple[Entry, ...]:
    return read_price_file(built_in_prices(), source="streamer")


def _named_prices(user: tuple[Entry, ...], default: tuple[Entry, ...]) -> dict[str, Price]:
    """The price of every name and alias; our aliases follow the user's price of their model."""
    users = {name: entry.price for entry in user for name in entry.names}
    defaults = {name: users.get(entry.names[0], entry.price) for entry in default for name in entry.names}
    return defaults | users


def _quoted(text: str) -> str:
    return canonical_json(text).decode().replace("\x7f", "\\u007f")


def _decimal(price: Fraction) -> str:
    return f"{Context(prec=200).divide(price.numerator * TOKENS_PER_PRICE, price.denominator):f}"


# -----------------------------------------------------------------------------
# The price table in the user's file; without a file the default one.


def price_table(file: Path | None) -> PriceTable:
    """The prices of a file, which take precedence over the default ones; None: only the default ones.

    Raises:
        PriceTableError: the file, which the message names, cannot be read or is no price table.

    >>> price_table(None).digest() == PriceTable.default().digest()
    True
    """
    if file is None:
        return PriceTable.default()
    try:
        return PriceTable.from_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PriceTableError(
            f"{file} cannot be read: {error.strerror}. Name an existing TOML price table, or none"
        ) from error
    except (PriceTableError, UnicodeDecodeError) as error:
        raise PriceTableError(f"{file}: {error}") from error
