"""Names and keys: the agent:model label, percent-encoding, topic keys, tasks.

>>> agent_model_label("terminus", "openai/gpt-5")
'terminus:openai/gpt-5'
>>> agent_model_label("pkg:Agent", "m")
'pkg%3AAgent:m'
>>> encode_id("a|b:c")
'a%7Cb%3Ac'
>>> decode_id('a%7Cb%3Ac')
'a|b:c'
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

_RESERVED = {ord(c): f"%{ord(c):02X}" for c in "%|:{}/"}
_RESERVED_IN_AGENT = {ord(c): f"%{ord(c):02X}" for c in "%:"}

UNKNOWN = "unknown"
"""Agent or model that a harness does not name (D4)."""


def encode_id(text: str) -> str:
    """Percent-encode the characters that separate parts of keys: `% | : { } /`."""
    return text.translate(_RESERVED)


def decode_id(text: str) -> str:
    """Inverse of :func:`encode_id`."""
    return unquote(text)


def run_of_key(key: str) -> str:
    """The run of a summary's, a scored trial's or a news item's key in its topic.

    >>> run_of_key("a%7Cb|agent:model"), run_of_key("a%7Cb")
    ('a|b', 'a|b')
    """
    return decode_id(key.partition("|")[0])


def agent_model_label(agent: str, model: str) -> str:
    """The label `agent:model` (R7); a colon in the agent's name is encoded, so labels never collide."""
    return f"{agent.translate(_RESERVED_IN_AGENT)}:{model}"


def split_label(label: str) -> tuple[str, str]:
    """Agent and model of a label, the inverse of :func:`agent_model_label`.

    >>> split_label("pkg%3AAgent:m"), split_label("terminus")
    (('pkg:Agent', 'm'), ('terminus', ''))
    """
    agent, _, model = label.partition(":")
    return decode_id(agent), model


def agent_model_key(agent: str, model: str) -> str:
    """The label with both parts percent-encoded, as it stands in topic and Redis keys."""
    return f"{encode_id(agent)}:{encode_id(model)}"


@lru_cache(maxsize=16_384)
def task_key(tier: str | None, subtest: str | None, task_id: str) -> str:
    """How a task is named: TASK, or TIER|SUBTEST|TASK where there is a tier; percent-encoded.

    >>> task_key(None, None, "a/b"), task_key("T0", None, "a")
    ('a%2Fb', 'T0||a')
    """
    if tier is None and subtest is None:
        return encode_id(task_id)
    return "|".join(map(encode_id, (tier or "", subtest or "", task_id)))
