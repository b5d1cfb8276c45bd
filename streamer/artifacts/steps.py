"""The steps of an agent's trajectory, whatever format its log has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field

from streamer.schemas.base import Message
from streamer.schemas.limits import MAX_COUNT

MAX_STEPS = 2_000
MAX_CALLS = 100
"""The calls that are shown of one step."""

MAX_CHARACTERS = 8_000_000
"""The length of all steps together, as JSON."""

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


T = TypeVar("T")


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


def numbered(logged: Sequence[T], fields_of: Callable[[T], dict[str, Any]]) -> tuple[list[Step], int]:
    """The first steps with their numbers, and how many more there are.

    Args:
        logged: each step as its log has it; :data:`MAX_STEPS` are read, up to :data:`MAX_CHARACTERS`.
        fields_of: the fields of a step, without its number and error.
    """
    shown: list[Step] = []
    left = MAX_CHARACTERS
    for number, one in enumerate(logged[:MAX_STEPS], 1):
        fields = fields_of(one)
        step = Step(number=number, error=any(call.error for call in fields["calls"]), **fields)
        left -= len(step.model_dump_json())
        if left < 0:
            break
        shown.append(step)
    return shown, len(logged) - len(shown)


def left_out(number: int, what: str) -> str:
    """How much of a step is not shown, in words; empty: nothing.

    >>> left_out(3, "calls"), left_out(0, "calls")
    ('[3 more calls not shown]', '')
    """
    return f"[{number:,} more {what} not shown]" if number > 0 else ""


def object_of(value: Any) -> Mapping[str, Any]:
    """An object in a log; any other value becomes an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list in a log; any other value becomes an empty list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count_of(value: Any) -> int | None:
    """A count in a log; None unless it is a whole number from 0 to 2**53.

    >>> count_of(5), count_of(10**30), count_of(True)
    (5, None, None)
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MAX_COUNT else None


def amount_of(value: Any) -> float | None:
    """An amount in a log; None unless it is a finite number from 0.

    >>> amount_of(1), amount_of(10**400), amount_of(float("nan"))
    (1.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if 0 <= value < float("inf") else None
    except OverflowError:  # a whole number that no float holds
        return None
