"""Prices of models and estimated costs (R2, R18, E4, E5, E9)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score.prices import PriceTable
from tests.score.build import per_million
from tests.support.examples import examples

USER = """
[models."gpt-5"]
input = 2
output = 4.5

[models."our/model"]
input = 1.0
output = 2.0
cache_read = 0.1
cache_write = 1.25
aliases = ["our/model-2026"]
source = "the contract of 2026"
"""


@pytest.mark.parametrize(
    ("model", "usd_per_million"),
    [
        ("claude-opus-4-5", (15, 75)),
        ("claude-opus-4-5-20251101", (15, 75)),
        ("anthropic/claude-opus-4-5-20251101", (15, 75)),
        ("claude-sonnet-4", (3, 15)),
        ("claude-sonnet-4-20250514", (3, 15)),
        ("anthropic/claude-sonnet-4-0", (3, 15)),
        ("gpt-4o", (5, 15)),
        ("@openai/gpt-4o-2024-08-06", (5, 15)),
    ],
)
def test_the_specifications_prices_hold_under_dated_names_too(
    table: PriceTable, model: str, usd_per_million: tuple[float, float]
) -> None:
    price = table.price(model)
    assert per_million(price) == usd_per_million
    assert price is not None
    assert price.source == "specification"


@pytest.mark.parametrize(
    ("model", "usd_per_million"),
    [
        ("google/gemini-2.5-pro", (1.25, 10)),
        ("fireworks/accounts/fireworks/models/qwen3-coder-480b-a35b-instruct", (0.45, 1.8)),
        ("gpt-5", (1.25, 10)),
        ("openai/gpt-5-2025-08-07", (1.25, 10)),
        ("claude-opus-4-1-20250805", (15, 75)),
    ],
)
def test_fc_evals_prices_come_after_the_specifications(
    table: PriceTable, model: str, usd_per_million: tuple[float, float]
) -> None:
    price = table.price(model)
    assert per_million(price) == usd_per_million
    assert price is not None
    assert "E5" in price.source


@pytest.mark.parametrize(
    "model", ["nop", "oracle", "Oracle", "unknown", "", "@", "openai/", "a/b", "/x", "x/"]
)
def test_a_model_without_a_price_never_costs_zero(table: PriceTable, model: str) -> None:
    assert table.price(model) is None
    assert table.cost(model, 1000, 100) is None
    assert table.cost(model, 0, 0) is None


def test_the_cost_is_tokens_times_price(table: PriceTable) -> None:
    # 1,000 x 15 / 1M + 100 x 75 / 1M
    assert table.cost("claude-opus-4-5", 1000, 100) == 0.0225
    assert table.cost("claude-opus-4-5", 0, 0) == 0.0


@pytest.mark.parametrize("tokens", [(None, 100), (1000, None), (None, None)])
def test_half_of_the_tokens_is_no_cost(table: PriceTable, tokens: tuple[int | None, int | None]) -> None:
    assert table.cost("gpt-5", *tokens) is None


def test_cache_tokens_cost_their_own_price(table: PriceTable) -> None:
    # 1M x 1.5 + 2M x 18.75 USD per 1M
    assert table.cost("claude-opus-4-5", 0, 0, 1_000_000, 2_000_000) == 39.0


def test_cache_tokens_without_a_known_price_cost_what_fresh_input_costs(table: PriceTable) -> None:
    price = table.price("gpt-4o")
    assert price is not None
    assert price.cache_write is None
    assert table.cost("gpt-4o", 0, 0, None, 1_000_000) == 5.0


counts = st.integers(0, 2**53)


@examples(100)
@given(counts, counts, counts, counts)
def test_a_cost_is_exact_and_rounded_once(fresh: int, output: int, read: int, write: int) -> None:
    expected = (
        fresh * Fraction("0.000015")
        + output * Fraction("0.000075")
        + read * Fraction("0.0000015")
        + write * Fraction("0.00001875")
    )
    assert PriceTable.default().cost("claude-opus-4-5", fresh, output, read, write) == float(expected)


def test_the_users_table_stands_in_front() -> None:
    table = PriceTable.from_toml(USER)
    assert per_million(table.price("openai/gpt-5")) == (2, 4.5)
    assert per_million(table.price("our/model-2026")) == (1, 2)
    assert per_million(table.price("claude-opus-4-5")) == (15, 75)
    contract = table.price("our/model")
    assert contract is not None
    assert contract.source == "the contract of 2026"
    assert table.price("gpt-5").source == "user's price table"  # type: ignore[union-attr]


def test_our_aliases_follow_the_users_price_of_the_model() -> None:
    assert per_million(PriceTable.from_toml(USER).price("gpt-5-2025-08-07")) == (2, 4.5)


def test_a_users_alias_may_take_over_one_of_our_names() -> None:
    table = PriceTable.from_toml('[models.mine]\ninput = 1\noutput = 1\naliases = ["gpt-5"]')
    assert per_million(table.price("gpt-5")) == (1, 1)


def test_a_price_of_zero_that_the_user_states_is_a_price() -> None:
    table = PriceTable.from_toml("[models.local]\ninput = 0\noutput = 0.0")
    assert table.cost("local", 1000, 100) == 0.0
