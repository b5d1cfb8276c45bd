"""The steps of an agent's trajectory, whatever format its log has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from streamer.schemas.base import Message

MAX_STEPS = 2_000
MAX_STEP_CHARACTERS = 16_000
"""The length of each text of a step; longer texts lose their middle."""

_SAYS_ERROR = re.compile(
    r"Traceback \(most recent call last\)|\bexit[ _]?code\W{0,4}(?:-|[1-9])|^\[?error\b", re.IGNORECASE
)
"""The texts by which a tool's output says that the call failed, where the format has no field for it."""

Source = Literal["system", "user", "agent", "environment"]


class ToolCall(Message):
    """A call of a tool in a step, and its output."""

    name: str = Field(description="The tool.")
    arguments: str = Field(description="Its arguments: text, or JSON.")
    output: str | None = Field(default=None, description="What it gave; null: the log does not say.")
    error: bool = Field(default=False, description="It failed, as the log or its output says.")


class Step(Message):
    """One step of a trajectory."""

    number: int = Field(ge=1, description="From 1, in the order of the log.")
    source: Source = Field(description="Who took it.")
    text: str = Field(default="", description="What was said; empty: nothing.")
    reasoning: str | None = Field(default=None, description="The model's reasoning; null: not logged.")
    calls: list[ToolCall] = Field(default=[], description="Calls of tools, in order.")
    at: str | None = Field(default=None, description="When, as the log writes it; null: not logged.")
    tokens: int | None = Field(default=None, ge=0, description="Output tokens; null: not logged.")
    cost_usd: float | None = Field(default=None, ge=0, description="Cost in USD; null: not logged.")
    error: bool = Field(default=False, description="It, or a call in it, failed.")


class NotThisFormat(Exception):
    """The file is no trajectory of this format."""


def trimmed(value: Any) -> str:
    """A value as text; the middle of a long one is left out, and the text says how much.

    >>> trimmed({"b": 1, "a": None}), trimmed(None), trimmed("text")
    ('{"b": 1, "a": null}', '', 'text')
    >>> len(trimmed("x" * 20_000)) < MAX_STEP_CHARACTERS + 100
    True
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    found = text.encode("utf-8", "replace").decode()  # half characters cannot be sent
    if len(found) <= MAX_STEP_CHARACTERS:
        return found
    half = MAX_STEP_CHARACTERS // 2
    return f"{found[:half]}\n[{len(found) - 2 * half:,} characters left out]\n{found[-half:]}"


def says_error(output: str | None) -> bool:
    """Whether the output of a tool says that it failed.

    >>> says_error("exit code: 0"), says_error("exit_code=127"), says_error("[error] no such file")
    (False, True, True)
    """
    return bool(output and _SAYS_ERROR.search(output))


def numbered(steps: Iterable[dict[str, Any]]) -> tuple[list[Step], int]:
    """The first :data:`MAX_STEPS` steps with their numbers, and how many more there are."""
    found = list(steps)
    shown = [
        Step(number=number, error=any(call.error for call in fields.get("calls", ())), **fields)
        for number, fields in enumerate(found[:MAX_STEPS], 1)
    ]
    return shown, len(found) - len(shown)


def count_of(value: Any) -> int | None:
    """A count in a log; None unless it is a whole number from 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def amount_of(value: Any) -> float | None:
    """An amount in a log; None unless it is a finite number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < float("inf") else None
