"""The state of one run: what each event does to it."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.prices import PriceTable, PriceTableError, price_table
from streamer.folding.slots import Effect
from streamer.folding.state import RunState
from streamer.schemas.events import EVENT
from streamer.schemas.plain import inside
from tests.folding.build import per_million
from tests.support.events import Event, a_deletion, a_late_score, a_plan, a_retraction, a_trial
from tests.support.examples import examples


def applied(*events: Event) -> tuple[RunState, list[Effect]]:
    """A run after these events, and what each did."""
    run = RunState("run-1", PriceTable.default())
    result = []
    for offset, event in enumerate(events):
        raw = json.dumps(event).encode()
        result.append(run.apply(inside(EVENT.validate_json(raw)), raw, offset, 1_700_000_000_000))
    run.count()
    return run, result


def test_a_result_counts_its_copy_is_a_duplicate_and_a_weaker_one_is_superseded() -> None:
    strong, weak = a_trial(revision=2), a_trial(revision=1, resolved=False)
    run, effects = applied(strong, strong, weak)
    assert effects == [Effect.COUNTED, Effect.DUPLICATE, Effect.SUPERSEDED]
    assert (run.totals.trials, run.state_version) == (1, 2)


def test_a_retraction_empties_the_slot_for_all_that_is_not_newer() -> None:
    run, effects = applied(a_trial(revision=1), a_retraction(revision=3), a_trial(revision=3))
    assert (effects[0], effects[2]) == (Effect.COUNTED, Effect.IGNORED)
    assert run.totals.trials == 0
    run, effects = applied(a_trial(revision=1), *[a_retraction(revision=3)] * 2, a_trial(revision=4))
    assert (run.totals.trials, effects[1:3]) == (1, [Effect.COUNTED, Effect.DUPLICATE])


def test_r32_a_late_score_counts_once_and_below_a_retraction_not_at_all() -> None:
    first, second = (a_late_score(score=score, revision=revision) for score, revision in ((0.5, 1), (0.7, 2)))
    events = [a_trial(resolved=None), first, first, second, a_retraction(revision=2), second]
    counted, again = Effect.COUNTED, Effect.DUPLICATE
    assert applied(*events)[1] == [counted, counted, again, counted, counted, Effect.IGNORED]


def test_a_run_exists_from_its_first_event_until_it_is_deleted() -> None:
    assert not RunState("run-1", PriceTable.default()).exists
    assert applied(a_plan(tasks=1))[0].exists
    run, effects = applied(a_trial(revision=1), a_deletion(revision=2), a_trial(revision=2))
    assert not run.exists
    assert effects[2] is Effect.IGNORED
    assert applied(a_deletion(revision=2), a_trial(revision=3))[0].exists


def test_the_latest_time_stands_whatever_order_events_come_in() -> None:
    early, late = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
    events = [a_trial(task_id=at, finished_at=at) for at in (early, late)]
    assert applied(*events)[0].last_event_at == applied(*reversed(events))[0].last_event_at


# -----------------------------------------------------------------------------
# Prices of the library genai-prices stand behind ours (R2).


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


OPUS, SONNET, GPT_4O, GPT_5, GEMINI, QWEN = (15, 75), (3, 15), (5, 15), (1.25, 10), (1.25, 10), (0.45, 1.8)

SPELLINGS: dict[str, tuple[float, float] | None] = {
    "Claude Opus 4.5": OPUS,  # the specification's names
    "Claude Sonnet 4": SONNET,
    "GPT-4o": (5.0, 15.0),
    "claude-opus-4-5": OPUS,
    "anthropic/claude-opus-4-5-20251101": OPUS,
    "claude-opus-4-5@20251101": OPUS,
    "vertex_ai/claude-opus-4-5@20251101": OPUS,
    "openrouter/anthropic/claude-opus-4.5": OPUS,
    "openrouter/anthropic/claude-opus-4.5:thinking": OPUS,
    "litellm_proxy/claude-opus-4-5-20251101": OPUS,
    "litellm_proxy/anthropic/claude-opus-4-5": OPUS,
    "litellm_proxy/prod/claude-opus-4-5-20251101": OPUS,
    "litellm_proxy/openrouter/anthropic/claude-opus-4.5": OPUS,
    "litellm_proxy/claude-sonnet-4": SONNET,
    "litellm_proxy/neulab/claude-sonnet-4-20250514": SONNET,
    "openrouter/anthropic/claude-sonnet-4": SONNET,
    "openrouter/anthropic/claude-sonnet-4:beta": SONNET,
    "vercel_ai_gateway/anthropic/claude-sonnet-4": SONNET,
    "requesty/anthropic/claude-sonnet-4": SONNET,
    "snowflake/claude-4-sonnet": SONNET,
    "bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0": SONNET,
    "us.anthropic.claude-sonnet-4-20250514-v1:0": SONNET,
    "azure/gpt-4o": GPT_4O,
    "azure_ai/gpt-4o-2024-11-20": GPT_4O,
    "github/gpt-4o": GPT_4O,
    "hosted_vllm/gpt-4o": GPT_4O,
    "OpenAI/gpt-5": GPT_5,
    "@openai/gpt-5": GPT_5,
    "openai/gpt-5-2025-08-07": GPT_5,
    "openai/responses/gpt-5": GPT_5,
    "openrouter/openai/gpt-5": GPT_5,
    "LiteLLM_Proxy/openai/gpt-5": GPT_5,
    "litellm_proxy/azure/gpt-5": GPT_5,
    "portkey/gpt-5": GPT_5,
    "helicone/gpt-5": GPT_5,
    "openai-api/openai/gpt-5": GPT_5,
    "google/gemini-2.5-pro": GEMINI,
    "gemini/gemini-2.5-pro": GEMINI,
    "vertex_ai/gemini-2.5-pro": GEMINI,
    "openrouter/google/gemini-2.5-pro": GEMINI,
    "litellm_proxy/gemini/gemini-2.5-pro": GEMINI,
    "accounts/fireworks/models/qwen3-coder-480b-a35b-instruct": QWEN,
    "fireworks_ai/accounts/fireworks/models/qwen3-coder-480b-a35b-instruct": QWEN,
    "groq/openai/gpt-oss-120b": (0.15, 0.6),
    "grok/grok-4": (3, 15),
    # R2: the specification's price comes before the library's, which has Amazon's for each region.
    "us.anthropic.claude-opus-4-5-20251101-v1:0": OPUS,
    "anthropic.claude-opus-4-5-20251101-v1:0": OPUS,
    "bedrock/global.anthropic.claude-opus-4-5-20251101-v1:0": OPUS,
    "bedrock/converse/eu.anthropic.claude-opus-4-5-20251101-v1:0": OPUS,
    "litellm_proxy/bedrock/us.anthropic.claude-opus-4-5-20251101-v1:0": OPUS,
    "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0": (3.3, 16.5),
    "bedrock/us.amazon.nova-pro-v1:0": (0.8, 3.2),
    "anthropic/claude-opus-4-5@20251101": OPUS,
    "anthropic/claude-sonnet-4@20250514": SONNET,
    "vertex_ai/claude-sonnet-4@20250514": SONNET,
    "azure/gpt-5-mini-2025-08-07": (0.25, 2),
    "together_ai/meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo": (0.18, 0.18),
    "fireworks_ai/accounts/fireworks/models/deepseek-v3-0324": (0.9, 0.9),
    "litellm_proxy/openrouter/openai/gpt-5": GPT_5,
    "openrouter/anthropic/claude-sonnet-4:nitro": SONNET,
    # Nothing is paid for these, up to limits that no file tells: the price of the model would be a wrong one.
    "openrouter/deepseek/deepseek-r1:free": None,
    "openrouter/google/gemini-2.5-pro:free": None,
    "litellm_proxy/openrouter/openai/gpt-5:free": None,
    # No gateway: a model on a machine of one's own has no price, and no name is guessed.
    "ollama/llama3": None,
    "vllm/claude-opus-4-5": None,
    "hf/Qwen/Qwen3-32B": None,
    "litellm_proxy/our-own-model": None,
    "hosted_vllm/our/own-model": None,
    "openrouter/": None,
    "litellm_proxy": None,
}
"""What harnesses call models, and USD per million tokens in and out."""


@pytest.mark.parametrize("model", SPELLINGS)
def test_r2_a_model_has_its_price_under_every_spelling(table: PriceTable, model: str) -> None:
    price = table.price(model)
    assert (price and per_million(price)) == SPELLINGS[model]


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


def test_an_empty_table_is_the_default_table() -> None:
    assert per_million(PriceTable.from_toml("").price("gpt-5")) == (1.25, 10)


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
    ("models", "usd_per_million", "source"),
    [
        (("claude-opus-4-5", "anthropic/claude-opus-4-5-20251101"), (15, 75), "specification"),
        (("claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-0"), (3, 15), "specification"),
        (("gpt-4o", "@openai/gpt-4o-2024-08-06"), (5, 15), "specification"),
        (("google/gemini-2.5-pro", "gpt-5", "openai/gpt-5-2025-08-07"), (1.25, 10), "E5"),
        (("accounts/fireworks/models/qwen3-coder-480b-a35b-instruct",), (0.45, 1.8), "E5"),
        (("claude-opus-4-1-20250805",), (15, 75), "E5"),
    ],
)
def test_the_specifications_prices_hold_under_dated_names_too_and_fc_evals_come_after_them(
    table: PriceTable, models: tuple[str, ...], usd_per_million: tuple[float, float], source: str
) -> None:
    for model in models:
        price = table.price(model)
        assert price is not None
        assert (per_million(price), source in price.source) == (usd_per_million, True), model


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


# -----------------------------------------------------------------------------
# The price table in a file: what is wrong with it is said with the name of the file.


@pytest.mark.parametrize("content", [b"x = ]", b"[other]", b'x = "\xff"'])
def test_a_file_that_is_no_price_table_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content)
    with pytest.raises(PriceTableError, match=r"prices\.toml"):
        price_table(file)
