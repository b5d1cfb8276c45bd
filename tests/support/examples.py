"""How many examples a property is tried with: one number in each test, scaled by the profile of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

ALL = 100
"""Examples of the profile `thorough`, and of hypothesis where no profile is chosen."""

settings.register_profile("quick", max_examples=ALL // 4, deadline=None)
settings.register_profile("thorough", max_examples=ALL, deadline=None, derandomize=True)


def examples(number: int, **more: Any) -> settings:
    """Settings of a property: so many examples in `make test-all`, a quarter of them in `make test`.

    There is no deadline for one example, because machines differ; `more` is what `hypothesis.settings` takes.
    """
    return settings(max_examples=max(1, number * settings.default.max_examples // ALL), deadline=None, **more)


def any_of(choices: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Fields of an event, each with one of the values listed for it or from a strategy of its own."""
    strategies = {
        name: of if isinstance(of, st.SearchStrategy) else st.sampled_from(of) for name, of in choices.items()
    }
    return st.fixed_dictionaries(strategies)
