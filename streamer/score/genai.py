"""Prices from the library genai-prices: from the snapshot in its package, never from the network."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from streamer.score.installed import genai_prices_version
from streamer.score.price_file import TOKENS_PER_PRICE, Price

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, TieredPrices

AS_OF = datetime(9999, 1, 1, 12, tzinfo=UTC)
"""Prices change by date and by hour. The latest that the snapshot knows, at noon UTC: equal on every day."""


def snapshot_price(name: str) -> tuple[str, Price] | None:
    """The library's own id of a model and its price, or None if it knows no price for that name.

    Of prices that rise with the size of a request the base is taken, since a trial's tokens are
    sums over requests of unknown sizes.
    """
    for provider, model in _readings(name):
        try:
            _, found = _snapshot().find_provider_model(model, None, provider, None)
        except LookupError:
            continue
        prices = found.get_prices(AS_OF)
        rate_in, rate_out = _per_token(prices.input_mtok), _per_token(prices.output_mtok)
        if rate_in is None or rate_out is None:
            continue
        since = _since(found)
        dated = f", since {since}" if since else ""
        source = f"genai-prices {genai_prices_version()} ({found.id}{dated})"
        cache_read, cache_write = _per_token(prices.cache_read_mtok), _per_token(prices.cache_write_mtok)
        return found.id, Price(rate_in, rate_out, cache_read, cache_write, source)
    return None


def _readings(name: str) -> list[tuple[str | None, str]]:
    """(provider, model): the whole name, then its first part as the provider (`openrouter/openai/gpt-5`)."""
    provider, slash, rest = name.partition("/")
    return [(None, name), (provider, rest)] if slash and provider and rest else [(None, name)]


def _since(model: ModelInfo) -> date | None:
    """The day from which the price holds, None if the library says none: the snapshot itself has no date."""
    from genai_prices.types import ConditionalPrice, StartDateConstraint

    for price in reversed(model.prices if isinstance(model.prices, list) else []):
        if isinstance(price, ConditionalPrice) and (limit := price.constraint) and limit.active(AS_OF):
            return limit.start_date if isinstance(limit, StartDateConstraint) else None
    return None


@cache
def _snapshot() -> DataSnapshot:
    """A snapshot of our own: the library's current one may be replaced by what it downloads."""
    # Imported here: it takes 0.3 s, and most runs are priced without it.
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False, timestamp=AS_OF)


def _per_token(per_million: Decimal | TieredPrices | None) -> Fraction | None:
    """USD per token from the library's USD per million."""
    if per_million is None:
        return None
    base = per_million if isinstance(per_million, Decimal) else per_million.base
    return Fraction(base) / TOKENS_PER_PRICE
