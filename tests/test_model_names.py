"""Spellings of model names (E9, E10)."""

from __future__ import annotations

import pytest

from streamer.schemas.base import model_for_pricing, model_for_reporting


def test_a_provider_prefix_counts_in_reports_but_not_in_prices() -> None:
    assert model_for_reporting("openai/gpt-5") == "openai/gpt-5"
    assert model_for_pricing("openai/gpt-5") == "gpt-5"


@pytest.mark.parametrize("name", ["gpt-5", "@@openai/gpt-5", "accounts/fireworks/models/x", "", "@", "a/b/c"])
def test_the_reporting_name_is_its_own_reporting_name(name: str) -> None:
    once = model_for_reporting(name)
    assert model_for_reporting(once) == once


@pytest.mark.parametrize("name", ["accounts/fireworks/models/x", "@openai/gpt-5", "openai/openai/gpt-5"])
def test_the_reporting_name_is_priced_like_the_name_itself(name: str) -> None:
    assert model_for_pricing(model_for_reporting(name)) == model_for_pricing(name)
