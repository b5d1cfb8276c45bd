"""`streamer prices`: which price applies, and who says so (R2, E9, E10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamer.terminal import cli

TABLE = """
[models."gpt-5"]
input = 2
output = 4.5

[models."our/model"]
input = 0.0375
output = 2.0
cache_read = 0
aliases = ["our/model-2026"]
source = "the contract of 2026"
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(TABLE)
    return file


def prices(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["prices", *map(str, arguments)])


def price(*arguments: object) -> dict[str, Any]:
    result = prices(*arguments, "--json")
    assert result.exit_code == 0, result.output
    [line] = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def rates(*usd: float | None) -> dict[str, float | None]:
    return dict(zip(("input", "output", "cache_read", "cache_write"), usd, strict=True))


def test_a_price_of_the_specification_holds_for_a_dated_name_with_a_prefix() -> None:
    assert price("@anthropic/claude-opus-4-5-20251101") == {
        "model": "@anthropic/claude-opus-4-5-20251101",
        "pricing_name": "claude-opus-4-5-20251101",
        "reporting_name": "anthropic/claude-opus-4-5-20251101",
        "known": True,
        "origin": "built-in",
        "source": "specification",
        "usd_per_1m_tokens": rates(15.0, 75.0, 1.5, 18.75),
    }


def test_fc_evals_prices_say_that_they_are_fc_evals() -> None:
    found = price("gpt-5-2025-08-07")
    assert (found["origin"], found["source"]) == ("built-in", "fc-eval 0.1.0 (E5)")
    assert found["usd_per_1m_tokens"] == rates(1.25, 10.0, 0.125, None)


def test_a_price_of_genai_prices_names_its_version_and_the_librarys_name_of_the_model() -> None:
    from importlib.metadata import version

    found = price("gemini-2.5-flash")
    assert found["origin"] == "genai-prices"
    assert found["source"].startswith(f"genai-prices {version('genai-prices')} (gemini-2.5-flash")


def test_a_price_of_genai_prices_that_holds_from_a_day_names_the_day() -> None:
    from genai_prices.data import providers
    from genai_prices.types import StartDateConstraint

    from streamer.folding.score.prices import snapshot_price

    dated = {
        model.id: limit.start_date
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        and isinstance(limit := model.prices[-1].constraint, StartDateConstraint)
    }
    named = {model: found for model in dated if (found := snapshot_price(model)) and found[0] == model}
    assert any(f"({model}, since {dated[model]})" in found[1].source for model, found in named.items())


@pytest.mark.parametrize("model", ["gpt-5", "openai/gpt-5-2025-08-07"])
def test_the_users_table_comes_first_under_our_aliases_too(model: str, table: Path) -> None:
    found = price(model, "--prices", table)
    assert (found["origin"], found["source"]) == ("user", "user's price table")
    assert found["usd_per_1m_tokens"] == rates(2.0, 4.5, None, None)


def test_the_users_table_may_come_from_the_settings(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_PRICES_FILE", str(table))
    assert price("our/model-2026")["source"] == "the contract of 2026"


def test_a_price_is_told_to_people_with_all_its_digits_and_where_it_is_from(table: Path) -> None:
    result = prices("our/model", "--prices", table)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"our/model: your table {table}; source: the contract of 2026",
        "  input        $0.0375 per 1M tokens",
        "  output       $2.00 per 1M tokens",
        "  cache read   $0.00 per 1M tokens",
        "  cache write  unknown; charged as input",
        "  looked up as our/model",
        "  reported as  our/model",
    ]


def test_a_model_without_a_price_is_exit_code_1_with_names_like_it_and_the_way_to_add_it() -> None:
    result = prices("openai/gpt-55")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "looked up as 'gpt-55'" in result.stderr
    assert "Names like it: gpt-5" in result.stderr
    assert '[models."gpt-55"]' in result.stderr
    said = json.loads(prices("openai/gpt-55", "--json").stdout)
    assert (said["known"], said["origin"], said["usd_per_1m_tokens"]) == (False, None, None)


def test_without_a_model_the_built_in_table_is_listed_in_the_order_in_which_it_wins() -> None:
    result = prices("--json")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["pricing_name"] for row in rows[:3]] == ["claude-opus-4-5", "claude-sonnet-4", "gpt-4o"]
    assert {row["source"] for row in rows[:3]} == {"specification"}
    assert {row["source"] for row in rows[3:]} == {"fc-eval 0.1.0 (E5)"}
    assert "claude-opus-4-5-20251101" in rows[0]["aliases"]
    people = prices().stdout
    assert "Prices in USD per 1M tokens" in people
    assert "0.125" in people


def test_the_list_shows_the_users_entries_first_and_ours_with_the_price_that_applies(table: Path) -> None:
    rows = [json.loads(line) for line in prices("--prices", table, "--json").stdout.splitlines()]
    assert [row["origin"] for row in rows[:2]] == ["user", "user"]
    ours = next(row for row in rows[2:] if "gpt-5-2025-08-07" in row["aliases"])
    assert ours["usd_per_1m_tokens"] == rates(2.0, 4.5, None, None)


def test_a_file_that_is_no_price_table_is_used_wrongly(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[models."gpt-5"]\ninput = "cheap"\n')
    result = prices("gpt-5", "--prices", file)
    assert result.exit_code == 2
    assert str(file) in result.stderr
