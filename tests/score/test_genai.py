"""Prices of the library genai-prices stand behind ours (R2)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamer.folding.score.prices import PriceTable
from tests.score.build import per_million


@pytest.mark.parametrize(
    "model", ["claude-opus-4-5-thinking", "openrouter/anthropic/claude-opus-4.5", "Claude-Opus-4-5"]
)
def test_a_name_that_only_the_library_recognises_takes_our_price_of_that_model(
    table: PriceTable, model: str
) -> None:
    assert per_million(table.price(model)) == (15, 75)


def test_models_outside_our_table_take_the_librarys_bundled_price(table: PriceTable) -> None:
    price = table.price("anthropic/claude-haiku-4-5")
    assert price is not None
    assert per_million(price) == (1, 5)
    assert price.source.startswith("genai-prices ")


@pytest.mark.parametrize("model", ["o3", "deepseek-chat"])
def test_prices_that_change_by_date_or_hour_do_not_depend_on_the_clock(table: PriceTable, model: str) -> None:
    price = table.price(model)
    assert price is not None
    assert per_million(price) == {"o3": (2, 8), "deepseek-chat": (0.27, 1.1)}[model]


def test_the_price_library_is_loaded_only_when_our_own_table_has_no_price() -> None:
    program = (
        "import sys; from streamer.folding.score.prices import PriceTable; table = PriceTable.default();"
        "table.cost('openai/gpt-5', 1, 1); assert 'genai_prices' not in sys.modules;"
        "table.cost('claude-haiku-4-5', 1, 1); assert 'genai_prices' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
