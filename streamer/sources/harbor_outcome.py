"""How a trial of harbor ended: rewards, verdict, failure mode, message.

- Verdict: harbor calls a trial passed when its reward is 1 (`harbor analyze`, and pass@k over rewards that
  are 0 or 1). The reward is the one called `reward`, else the only one there is (`_primary_reward`, which
  `harbor jobs` and its uploads share). Several rewards without that name give no verdict; neither does a
  trial without rewards. An exception does not change the verdict (R19), as in harbor's pass@k.
- Metrics: that reward is `reward`, every other one is `reward/NAME` (R30). A reward of 0.7 is no pass, and
  its number stands there. In its means harbor takes a trial without rewards as 0; here it has no value (R1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.sources.files import part, text
from streamer.sources.harbor_layout import steps_of
from streamer.sources.names import metric_name

PASSED = 1
"""The reward of a trial that passed."""

MAIN_REWARD = "reward"
"""The name of the reward that decides, in harbor's files and among our metrics."""


def verdict(result: Mapping[str, Any]) -> tuple[bool | None, str | None]:
    """Whether the trial passed, or why that is unknown."""
    rewards = _rewards(result)
    if not rewards:
        return None, None
    main = _main(rewards)
    if main is None:
        return None, f"no verdict: of the rewards {', '.join(map(repr, rewards))} none is called 'reward'"
    reward = rewards[main]
    if isinstance(reward, int | float):
        return reward == PASSED, None
    return None, f"no verdict: the reward {main!r} is {reward!r}, a number is needed"


def metrics(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every reward by its metric's name; None without any. A reward that is no number is left to be reported.

    >>> metrics({"verifier_result": {"rewards": {"reward": 0.7, "style": 0.25}}})
    {'reward': 0.7, 'reward/style': 0.25}
    >>> metrics({"verifier_result": {"rewards": {"accuracy": 1.0}}})
    {'reward': 1.0}
    """
    rewards = _rewards(result)
    main = _main(rewards)
    names = {name: MAIN_REWARD if name == main else metric_name(f"{MAIN_REWARD}/{name}") for name in rewards}
    return {names[name]: value for name, value in rewards.items() if value is not None} or None


def failure_mode(result: Mapping[str, Any]) -> str:
    """Type of the trial's exception, else of its first step that has one; "unset" without any (G6)."""
    return text(_exception(result).get("exception_type")) or "unset"


def message(result: Mapping[str, Any]) -> str | None:
    """What that exception says, after its type; None where there is none, or it says nothing."""
    said = text(_exception(result).get("exception_message"))
    return f"{failure_mode(result)}: {said}" if said else None


def _rewards(result: Mapping[str, Any]) -> dict[str, Any]:
    return part(part(result, "verifier_result"), "rewards")


def _main(rewards: Mapping[str, Any]) -> str | None:
    """Name of the reward that decides; None if there is none."""
    if MAIN_REWARD in rewards or len(rewards) != 1:
        return MAIN_REWARD if MAIN_REWARD in rewards else None
    return next(iter(rewards))


def _exception(result: Mapping[str, Any]) -> dict[str, Any]:
    """The exception of the trial, else of its first step that has one with a type; empty without any."""
    found = (part(place, "exception_info") for place in (result, *steps_of(result)))
    return next((exception for exception in found if text(exception.get("exception_type"))), {})
