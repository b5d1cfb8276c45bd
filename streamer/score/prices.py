"""What tokens cost: the user's table, then ours, then genai-prices' bundled snapshot (R2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

from streamer.model_names import model_for_pricing
from streamer.schemas.canonical import canonical_json, sha256_hex
from streamer.score.genai import snapshot_price
from streamer.score.installed import built_in_prices, genai_prices_version
from streamer.score.price_file import Entry, Price, PriceTableError, read_price_file

__all__ = ["Entry", "Origin", "Price", "PriceTable", "PriceTableError"]

Origin = Literal["user", "built-in", "genai-prices"]
"""Which table a price is from, in the order in which they win."""


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
        """A price for computing; an unknown cache price is the input price."""
        cache_read = price.input if price.cache_read is None else price.cache_read
        cache_write = price.input if price.cache_write is None else price.cache_write
        rates = (price.input, price.output, cache_read, cache_write)
        denominator = math.lcm(*(rate.denominator for rate in rates))
        fresh, output, read, write = (int(rate * denominator) for rate in rates)
        return cls(fresh, output, read, write, denominator)


class PriceTable:
    """Prices of models, by name. What is not found has no price: it never costs 0 (R2)."""

    def __init__(self, user: tuple[Entry, ...] = ()) -> None:
        self._user = user
        self._named = _named_prices(user, _default_entries())
        self._tariffs: dict[str, _Tariff | None] = {}
        self._prices: dict[str, Price | None] = {}

    @classmethod
    def default(cls) -> PriceTable:
        """The specification's prices, then E5's, then the prices of genai-prices."""
        return cls()

    @classmethod
    def from_toml(cls, text: str) -> PriceTable:
        """The user's prices, in the format of `prices.toml` beside this module, in front of the default ones.

        An entry under one of our names also holds for our aliases of it. Raises PriceTableError.
        """
        return cls(read_price_file(text, source="user's price table"))

    def digest(self) -> str:
        """Equal for tables that give every model the same price."""
        named = sorted(
            (name, *map(str, (price.input, price.output, price.cache_read, price.cache_write)))
            for name, price in self._named.items()
        )
        return sha256_hex(canonical_json([named, genai_prices_version()]))

    def price(self, model: str) -> Price | None:
        """Price of a model in USD per token, exact; None if no table has it.

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
        """Which table the price of a model is from; None if no table has it.

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
        """What the user's table and ours hold, the user's first, each with the price that applies.

        Our entries that the user's replace are left out, and all of genai-prices.
        """
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

        None if the model has no price, or if input or output tokens are unknown: half of the tokens
        would pass for the whole cost (R1). Cache tokens that are unknown add nothing. Cache tokens
        whose price is unknown cost what fresh input costs, as with a provider that has no cache
        price: an upper bound for reads, never nothing.

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

    def _find(self, name: str) -> Price | None:
        if (named := self._named.get(name)) is not None:
            return named
        found = snapshot_price(name)
        if found is None:
            return None
        known_as, price = found
        return self._named.get(model_for_pricing(known_as), price)


@cache
def _default_entries() -> tuple[Entry, ...]:
    return read_price_file(built_in_prices(), source="streamer")


def _named_prices(user: tuple[Entry, ...], default: tuple[Entry, ...]) -> dict[str, Price]:
    """Every name and alias to its price; our alias follows the user's price of the model it stands for."""
    users = {name: entry.price for entry in user for name in entry.names}
    defaults = {name: users.get(entry.names[0], entry.price) for entry in default for name in entry.names}
    return defaults | users
