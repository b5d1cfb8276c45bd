"""Steps of a trajectory in ATIF, as Harbor's agents write them (Terminus 2 and OpenHands among them).

https://github.com/laude-institute/harbor/blob/main/docs/rfcs/0001-trajectory-format.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from streamer.artifacts.steps import (
    MAX_CALLS,
    NotThisFormat,
    Source,
    Step,
    ToolCall,
    amount_of,
    count_of,
    left_out,
    numbered,
    object_of,
    objects_of,
    says_error,
    trimmed,
)

SOURCES = ("system", "user", "agent")

MAX_PARTS = 200
"""The parts that are shown of one message."""


def atif_steps(content: Any) -> tuple[list[Step], int]:
    """The steps, and how many more there are.

    Raises:
        NotThisFormat: it is not an object with `schema_version` ATIF and a list under `steps`.
    """
    if not isinstance(content, dict) or not isinstance(content.get("steps"), list):
        raise NotThisFormat
    if not str(content.get("schema_version", "")).startswith("ATIF"):
        raise NotThisFormat
    return numbered([step for step in content["steps"] if isinstance(step, dict)], _atif_fields)


def _atif_fields(step: Mapping[str, Any]) -> dict[str, Any]:
    source = step.get("source")
    metrics = object_of(step.get("metrics"))
    calls, rest = _atif_calls(step)
    said = _atif_text(step.get("message"))
    return {
        "source": cast(Source, source if source in SOURCES else "environment"),
        "text": trimmed("\n".join(filter(None, (said, rest)))),
        "reasoning": trimmed(step.get("reasoning_content")) or None,
        "calls": calls,
        "at": trimmed(step.get("timestamp")) or None,
        "tokens": count_of(metrics.get("completion_tokens")),
        "cost_usd": amount_of(metrics.get("cost_usd")),
    }


def _atif_calls(step: Mapping[str, Any]) -> tuple[list[ToolCall], str]:
    """The calls with their outputs, and the outputs that belong to no call.

    Of several calls with one id, the first has the outputs.
    """
    calls = objects_of(step.get("tool_calls"))
    found = objects_of(object_of(step.get("observation")).get("results"))
    outputs: dict[Any, list[Mapping[str, Any]]] = {}
    known = {str(call.get("tool_call_id")) for call in calls}
    rest = []
    for result in found:
        name = str(result.get("source_call_id"))
        if name in known:
            outputs.setdefault(name, []).append(result)
        elif len(calls) == 1:
            outputs.setdefault(str(calls[0].get("tool_call_id")), []).append(result)
        else:
            rest.append(_atif_text(result.get("content")))
    made = [_call(call, outputs.pop(str(call.get("tool_call_id")), [])) for call in calls[:MAX_CALLS]]
    rest.append(left_out(len(calls) - MAX_CALLS, "calls"))
    return made, "\n".join(filter(None, rest))


def _call(call: Mapping[str, Any], results: list[Mapping[str, Any]]) -> ToolCall:
    output = "\n".join(filter(None, (_atif_text(result.get("content")) for result in results)))
    flags = (object_of(result.get("extra")).get("is_error") for result in results)
    return ToolCall(
        name=trimmed(call.get("function_name")) or "tool",
        arguments=trimmed(call.get("arguments")),
        output=trimmed(output) if results else None,
        error=any(flag is True for flag in flags) or says_error(output),
    )


def _atif_text(value: Any) -> str:
    """A message: text, or parts of which some are pictures."""
    if isinstance(value, list):
        more = left_out(len(value) - MAX_PARTS, "parts")
        return "\n".join([*map(_part, value[:MAX_PARTS]), *filter(None, [more])])
    return trimmed(value)


def _part(part: Any) -> str:
    if isinstance(part, dict) and part.get("type") == "text":
        return trimmed(part.get("text"))
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{kind or 'part'} not shown]"
