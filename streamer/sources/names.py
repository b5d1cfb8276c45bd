"""Names too long for an event, cut so that two of them never become one.

A name (agent, model, tier, failure mode, ...) has 128 characters at most. Of a longer one the first 115
stay, followed by `~` and 12 hexadecimal digits of the SHA-256 of the whole name. The rule depends on the
name alone, so the same name is cut alike in a trial, in its plan and in every later conversion.
"""

from __future__ import annotations

import re
from typing import Any

from streamer.schemas.canonical import sha256_hex
from streamer.schemas.identity import agent_model_label, decode_id
from streamer.schemas.limits import (
    MAX_AGENT_MODEL_CHARACTERS,
    MAX_METRIC_NAME_CHARACTERS,
    MAX_NAME_CHARACTERS,
)

_DIGEST_CHARACTERS = 12
_KEPT = MAX_NAME_CHARACTERS - len("~") - _DIGEST_CHARACTERS

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_./-]")

NAMES = frozenset(
    {"agent", "model", "tier", "subtest", "failure_mode", "harness", "benchmark", "baseline_tier"}
    | {"tiers", "baselines", "subtests"}
)
"""Fields that hold names: one, a list of them, or what belongs to each of them."""


def metric_name(name: str) -> str:
    """The name as a metric's (R30): a character that is not allowed there becomes `_`; a long one is cut.

    >>> metric_name("style (1-5)"), len(metric_name("s" * 99))
    ('style__1-5_', 64)
    """
    plain = _NOT_ALLOWED.sub("_", name)
    if len(plain) <= MAX_METRIC_NAME_CHARACTERS:
        return plain
    digest = sha256_hex(name.encode(errors="surrogatepass"))[:_DIGEST_CHARACTERS]
    return f"{plain[: MAX_METRIC_NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}-{digest}"


def with_short_names(event: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The event with its long names cut, and field to the cut name.

    >>> event, cut = with_short_names({"agent": "a" * 300, "tier": "T0"})
    >>> len(event["agent"]), event["tier"], list(cut)
    (128, 'T0', ['agent'])
    """
    short = {name: _shortened(value) for name, value in event.items() if name in NAMES}
    if isinstance(labels := event.get("agent_models"), list):
        short["agent_models"] = [_short_label(label) for label in labels]
    if isinstance(labels := event.get("labels"), dict):
        short["labels"] = {_short_name(key): value for key, value in labels.items()}
    cut = {
        name: f"longer than {MAX_NAME_CHARACTERS} characters; a digest of the whole name is at its end"
        for name, value in short.items()
        if value != event[name]
    }
    return event | {name: short[name] for name in cut}, cut


def _shortened(value: Any) -> Any:
    if isinstance(value, list):
        return [_short_name(item) for item in value]
    if isinstance(value, dict):
        return {_short_name(key): item for key, item in value.items()}
    return _short_name(value)


def _short_name(name: Any) -> Any:
    """The name, cut if it is too long; what is no text stays as it is."""
    if not isinstance(name, str) or len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[:_KEPT]}~{sha256_hex(name.encode(errors='surrogatepass'))[:_DIGEST_CHARACTERS]}"


def _short_label(label: Any) -> Any:
    """A planned `agent:model`, its two names cut as in trials."""
    if not isinstance(label, str) or len(label) <= MAX_NAME_CHARACTERS:
        return label
    agent, _, model = label.partition(":")
    whole = decode_id(agent)
    if max(len(whole), len(model)) <= MAX_NAME_CHARACTERS and len(label) <= MAX_AGENT_MODEL_CHARACTERS:
        return label
    return agent_model_label(_short_name(whole), _short_name(model))
