"""The two spellings of a model's name: for reports, and for looking up its price."""

from __future__ import annotations

from streamer.schemas.identity import UNKNOWN, agent_model_label

PRICING_PREFIXES = frozenset({"openai", "anthropic", "google", "fireworks"})
"""Providers whose prefix is dropped for pricing (E9). Others (`gemini/`, `openrouter/`) stay."""

BASELINE_LABELS = frozenset({"nop", "oracle"})
"""Agents that are baselines in every run (R10)."""

FIREWORKS_PATH = "accounts/fireworks/models/"


def model_for_reporting(name: str) -> str:
    """The name that reports and slots use (E10): no leading "@", a provider prefix is kept.

    So `openai/gpt-5` and `gpt-5` are different models in reports, though they cost the same.

    >>> model_for_reporting("@openai/gpt-5")
    'openai/gpt-5'
    >>> model_for_reporting("accounts/fireworks/models/kimi-k2")
    'fireworks/accounts/fireworks/models/kimi-k2'
    """
    name = name.lstrip("@")
    return f"fireworks/{name}" if name.startswith(FIREWORKS_PATH) else name


def label_for_reporting(agent: str, model: str | None) -> str:
    """The label `agent:model` as plans name it: the model as in reports, None as "unknown" (D4).

    >>> label_for_reporting("terminus", "@openai/gpt-5"), label_for_reporting("a:b", None)
    ('terminus:openai/gpt-5', 'a%3Ab:unknown')
    """
    return agent_model_label(agent, model_for_reporting(model or UNKNOWN))


def model_of_agent(agent: str, model: str) -> str:
    """The name that slots use for the model of an agent: as reports have it, a baseline's as its label.

    A baseline is an agent named nop or oracle whose model is the same name in any case (R7).

    >>> model_of_agent("oracle", "Oracle"), model_of_agent("oracle", "openai/gpt-5")
    ('oracle', 'openai/gpt-5')
    """
    return model_for_reporting(baseline_model(agent, model))


def baseline_model(agent: str, model: str) -> str:
    """The model as it is, but a baseline's own name in any case becomes its label (R7).

    >>> baseline_model("nop", "NOP"), baseline_model("Oracle", "oracle")
    ('nop', 'oracle')
    """
    return agent if agent in BASELINE_LABELS and model.lower() == agent else model


def model_for_pricing(name: str) -> str:
    """The name that prices are looked up by (E9): no leading "@", no prefix of a known provider.

    Case-sensitive. White space stays, and one prefix only is dropped.

    >>> model_for_pricing("@openai/gpt-5")
    'gpt-5'
    >>> model_for_pricing("openrouter/openai/gpt-5")
    'openrouter/openai/gpt-5'
    """
    name = name.lstrip("@")
    provider, slash, rest = name.partition("/")
    return rest if slash and provider in PRICING_PREFIXES else name
