"""Prices of models, price tables of users, and what trials cost."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.prices import PriceTable, PriceTableError, price_table
from streamer.folding.score import ScoringRules, score_trial
from tests.folding.build import AGENT, RULES, RUN, a_trial, per_million, scored, shown
from tests.support.events import a_trial as an_event
from tests.support.examples import examples


@pytest.fixture(scope="module")
def table() -> PriceTable:
    return PriceTable.default()


# -----------------------------------------------------------------------------
# Prices of the library genai-prices stand behind ours (R2).


SPELLINGS = {
    (15, 75): """
        Claude Opus 4.5; claude-opus-4-5; Claude-Opus-4-5; claude-opus-4-5-thinking; claude-opus-4-1-20250805
        anthropic/claude-opus-4-5-20251101; claude-opus-4-5@20251101; anthropic/claude-opus-4-5@20251101
        vertex_ai/claude-opus-4-5@20251101; openrouter/anthropic/claude-opus-4.5
        openrouter/anthropic/claude-opus-4.5:thinking; litellm_proxy/claude-opus-4-5-20251101
        litellm_proxy/anthropic/claude-opus-4-5; litellm_proxy/prod/claude-opus-4-5-20251101
        litellm_proxy/openrouter/anthropic/claude-opus-4.5; us.anthropic.claude-opus-4-5-20251101-v1:0
        anthropic.claude-opus-4-5-20251101-v1:0; bedrock/global.anthropic.claude-opus-4-5-20251101-v1:0
        bedrock/converse/eu.anthropic.claude-opus-4-5-20251101-v1:0
        litellm_proxy/bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0""",
    (3, 15): """
        Claude Sonnet 4; claude-sonnet-4-20250514; anthropic/claude-sonnet-4-0; litellm_proxy/claude-sonnet-4
        litellm_proxy/neulab/claude-sonnet-4-20250514; openrouter/anthropic/claude-sonnet-4
        openrouter/anthropic/claude-sonnet-4:beta; openrouter/anthropic/claude-sonnet-4:nitro
        vercel_ai_gateway/anthropic/claude-sonnet-4; requesty/anthropic/claude-sonnet-4
        snowflake/claude-4-sonnet; bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0
        us.anthropic.claude-sonnet-4-20250514-v1:0; anthropic/claude-sonnet-4@20250514
        vertex_ai/claude-sonnet-4@20250514; grok/grok-4""",
    (5, 15): """
        GPT-4o; gpt-4o; @openai/gpt-4o-2024-08-06; azure/gpt-4o; azure_ai/gpt-4o-2024-11-20
        github/gpt-4o; hosted_vllm/gpt-4o""",
    (1.25, 10): """
        gpt-5; OpenAI/gpt-5; @openai/gpt-5; openai/gpt-5-2025-08-07; openai/responses/gpt-5
        openrouter/openai/gpt-5; LiteLLM_Proxy/openai/gpt-5; litellm_proxy/azure/gpt-5; portkey/gpt-5
        helicone/gpt-5; openai-api/openai/gpt-5; litellm_proxy/openrouter/openai/gpt-5
        google/gemini-2.5-pro; gemini/gemini-2.5-pro; vertex_ai/gemini-2.5-pro
        openrouter/google/gemini-2.5-pro; litellm_proxy/gemini/gemini-2.5-pro""",
    (0.45, 1.8): """
        accounts/fireworks/models/qwen3-coder-480b-a35b-instruct
        fireworks_ai/accounts/fireworks/models/qwen3-coder-480b-a35b-instruct""",
    (1, 5): "anthropic/claude-haiku-4-5",  # this one and those below are the library's
    (0.15, 0.6): "groq/openai/gpt-oss-120b",
    (2, 8): "o3",  # its price changes by the date, and the next one's by the hour
    (0.27, 1.1): "deepseek-chat",
    (3.3, 16.5): "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    (0.8, 3.2): "bedrock/us.amazon.nova-pro-v1:0",
    (0.25, 2): "azure/gpt-5-mini-2025-08-07",
    (0.18, 0.18): "together_ai/meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo",
    (0.9, 0.9): "fireworks_ai/accounts/fireworks/models/deepseek-v3-0324",
}
"""USD per million tokens in and out, and what harnesses call the models; ours come first (R2)."""

WITHOUT_A_PRICE = """
    openrouter/deepseek/deepseek-r1:free; openrouter/google/gemini-2.5-pro:free
    litellm_proxy/openrouter/openai/gpt-5:free; ollama/llama3; vllm/claude-opus-4-5; hf/Qwen/Qwen3-32B
    litellm_proxy/our-own-model; hosted_vllm/our/own-model; openrouter/; litellm_proxy
    nop; oracle; Oracle; unknown; @; openai/; a/b; /x; x/"""
"""Free up to limits that no file tells, on a machine of one's own, or no model; no name is guessed."""


def spelt(names: str) -> list[str]:
    return [name.strip() for name in names.replace("\n", ";").split(";") if name.strip()]


PRICED = [(name, price) for price, names in SPELLINGS.items() for name in spelt(names)]


@pytest.mark.parametrize(("model", "usd"), PRICED)
def test_r2_every_spelling_has_its_price(table: PriceTable, model: str, usd: tuple[float, float]) -> None:
    assert per_million(table.price(model)) == usd


@pytest.mark.parametrize("model", ["", *spelt(WITHOUT_A_PRICE)])
def test_a_model_without_a_price_never_costs_zero(table: PriceTable, model: str) -> None:
    assert (table.price(model), table.cost(model, 1000, 100), table.cost(model, 0, 0)) == (None, None, None)


def test_r2_a_price_of_the_user_holds_behind_a_gateway_and_for_a_gateways_name_first() -> None:
    mine = '[models."claude-sonnet-4"]\ninput = 1\noutput = 2\n'
    gateway = '[models."litellm_proxy/claude-sonnet-4"]\ninput = 7\noutput = 8\n'
    name = "litellm_proxy/claude-sonnet-4"
    assert per_million(PriceTable.from_toml(mine).price(name)) == (1, 2)
    assert per_million(PriceTable.from_toml(mine + gateway).price(name)) == (7, 8)


def test_the_price_library_is_loaded_only_when_our_own_table_has_no_price() -> None:
    program = (
        "import sys; from streamer.folding.prices import PriceTable; table = PriceTable.default();"
        "table.cost('openai/gpt-5', 1, 1); assert 'genai_prices' not in sys.modules;"
        "table.cost('claude-haiku-4-5', 1, 1); assert 'genai_prices' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


# -----------------------------------------------------------------------------
# A price table that cannot be used says where, and what is allowed.


FINE = "input = 1\noutput = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.x]\ninput = = 1", "not valid TOML.*line 2.*fix the file"),
        ("[models.x]\ninput = 1e-99999999999999999999", "not valid TOML"),
        (f"[models.x]\ninput = {'9' * 5000}", "not valid TOML"),
        ("models = 3", "allowed: tables named"),
        ("[prices.x]\ninput = 1", "'prices' at the top; allowed: tables named"),
        ("[models]\nx = 3", r'models\."x"\] is 3; allowed: a table with input, output'),
        ("[models.x]\noutput = 1", r'models\."x"\] lacks input; add it'),
        ("[models.x]\ninput = 1", r'models\."x"\] lacks output; add it'),
        (
            "[models.x]\n" + FINE + "cached = 1",
            r'models\."x"\] has the unknown field \'cached\'; allowed: input',
        ),
        (
            "[models.x]\noutput = 1\ninput = -3",
            r'models\."x"\] input is -3; allowed: USD per 1 million tokens',
        ),
        ("[models.x]\noutput = 1\ninput = nan", r'models\."x"\] input is NaN; allowed'),
        ("[models.x]\noutput = 1\ninput = inf", r'models\."x"\] input is Infinity; allowed'),
        ("[models.x]\noutput = 1\ninput = true", r'models\."x"\] input is True; allowed'),
        ("[models.x]\noutput = 1\ninput = '3'", r"models\.\"x\"\] input is '3'; allowed"),
        ("[models.x]\noutput = 1\ninput = 1e-999999999", r'models\."x"\] input is 1E-999999999; allowed'),
        ("[models.x]\noutput = 1\ninput = 1e999999999", r'models\."x"\] input is 1E\+999999999; allowed'),
        ("[models.x]\n" + FINE + "cache_read = -1", r'models\."x"\] cache_read is -1; allowed'),
        ("[models.x]\n" + FINE + 'aliases = "y"', r"aliases is 'y'; allowed: a list"),
        ("[models.x]\n" + FINE + "aliases = [1]", r"aliases is \[1\]; allowed: a list"),
        ("[models.x]\n" + FINE + "source = 1", "source is 1; allowed: text"),
        ("[models.x]\n" + FINE + "[models.'openai/x']\n" + FINE, "the name 'x' means both .* keep one"),
        ("[models.x]\n" + FINE + "aliases = ['x']", "the name 'x' means both"),
    ],
)
def test_a_table_that_cannot_be_used_says_where_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(PriceTableError, match=message):
        PriceTable.from_toml(text)


# -----------------------------------------------------------------------------
# Prices of models and estimated costs (R2, R18, E4, E5, E9).


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
    ("models", "source"),
    [
        ("claude-opus-4-5; claude-sonnet-4-20250514; @openai/gpt-4o-2024-08-06", "specification"),
        ("google/gemini-2.5-pro; openai/gpt-5-2025-08-07; claude-opus-4-1-20250805", "E5"),
        ("accounts/fireworks/models/qwen3-coder-480b-a35b-instruct", "E5"),
        ("anthropic/claude-haiku-4-5", "genai-prices "),
    ],
)
def test_a_price_says_where_it_comes_from(table: PriceTable, models: str, source: str) -> None:
    for model in spelt(models):
        price = table.price(model)
        assert price is not None
        assert source in price.source, model


@pytest.mark.parametrize("tokens", [(None, 100), (1000, None), (None, None)])
def test_half_of_the_tokens_is_no_cost(table: PriceTable, tokens: tuple[int | None, int | None]) -> None:
    assert table.cost("gpt-5", *tokens) is None


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
    for name in ("openai/gpt-5", "gpt-5-2025-08-07"):
        assert per_million(table.price(name)) == (2, 4.5)
    assert per_million(table.price("our/model-2026")) == (1, 2)
    assert per_million(table.price("claude-opus-4-5")) == (15, 75)
    sources = [price and price.source for price in map(table.price, ("our/model", "gpt-5"))]
    assert sources == ["the contract of 2026", "user's price table"]


def test_a_users_alias_may_take_over_one_of_our_names() -> None:
    table = PriceTable.from_toml('[models.mine]\ninput = 1\noutput = 1\naliases = ["gpt-5"]')
    assert per_million(table.price("gpt-5")) == (1, 1)


def test_a_price_of_zero_that_the_user_states_is_a_price() -> None:
    table = PriceTable.from_toml("[models.local]\ninput = 0\noutput = 0.0")
    assert table.cost("local", 1000, 100) == 0.0


# -----------------------------------------------------------------------------
# The price table in a file: what is wrong with it is said with the name of the file.


@pytest.mark.parametrize("content", [b"x = ]", b"[other]", b'x = "\xff"'])
def test_a_file_that_is_no_price_table_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content)
    with pytest.raises(PriceTableError, match=r"prices\.toml"):
        price_table(file)


# -----------------------------------------------------------------------------
# Costs of trials and costs of a pass (R1, R2, R14).


TOKENS = {"model": "gpt-5", "input_tokens": 1000, "output_tokens": 100}
FROM_CACHE = {"model": "claude-opus-4-5", "input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 10**6}


@pytest.mark.parametrize(
    ("fields", "cost", "source"),
    [
        (TOKENS | {"cost_usd": 0.0}, 0.0, "reported"),
        (TOKENS, 0.00225, "estimated"),
        (TOKENS | {"model": "nobody-prices-this", "resolved": False}, None, None),
        (TOKENS | {"input_tokens": 0, "output_tokens": 0}, None, None),
        (TOKENS | {"input_tokens": None, "output_tokens": None}, None, None),
        (TOKENS | {"input_tokens": 0, "output_tokens": None}, None, None),
        (FROM_CACHE, 1.5, "estimated"),
        (TOKENS | {"agent": "oracle", "input_tokens": 0, "output_tokens": 0}, 0.0, "estimated"),
    ],
    ids=["reported", "estimated", "no price", "no tokens", "not counted", "in part", "cache", "baseline"],
)
def test_r2_a_cost_is_reported_or_estimated_and_unknown_where_nobody_counted(
    fields: dict[str, Any], cost: float | None, source: str | None
) -> None:
    trial = scored(**fields)
    assert (trial.cost_usd, trial.cost_source) == (cost, source)


def test_r2_a_named_baseline_without_tokens_costs_nothing() -> None:
    named = ScoringRules(RULES.prices, named_baselines=frozenset({"echo"}))
    assert (
        score_trial(a_trial(agent="echo", model="gpt-5", input_tokens=0, output_tokens=0), named).cost_usd
        == 0
    )


def test_r2_a_summary_says_how_much_of_its_cost_our_prices_estimated() -> None:
    events = [an_event(task_id="x", **TOKENS, cost_usd=0.5), an_event(task_id="y", **TOKENS)]
    unknown = an_event(task_id="z", agent="b", model="nobody-prices-this")
    for key, costs in (
        (RUN, (0.50225, 0.00225)),
        (AGENT, (0.50225, 0.00225)),
        ("agent_model run-1|b:nobody-prices-this", (None, None)),
    ):
        assert shown(key, "total_cost estimated_cost", [*events, unknown]) == costs
