"""Steps of an OpenHands trajectory, and of fc-eval's agent logs: a list of actions and observations (E6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from streamer.artifacts.steps import (
    NotThisFormat,
    Source,
    Step,
    ToolCall,
    numbered,
    object_of,
    says_error,
    trimmed,
)

SAID = ("message", "system", "finish", "think")
"""Actions that are words, not calls of a tool."""

_OPENHANDS_WORDS = ("content", "thought", "final_thought", "message")


def openhands_steps(content: Any) -> tuple[list[Step], int]:
    """The steps, and how many more there are. An observation belongs to the action that caused it.

    Raises:
        NotThisFormat: it is no list of objects with `action` or `observation`.
    """
    if not isinstance(content, list):
        raise NotThisFormat
    events = [event for event in content if isinstance(event, dict)]
    if not any("action" in event or "observation" in event for event in events):
        raise NotThisFormat
    steps: list[list[Mapping[str, Any]]] = []
    by_id: dict[Any, list[Mapping[str, Any]]] = {}
    for event in events:
        cause = event.get("cause")
        step = by_id.get(cause) if isinstance(cause, int | str) else None
        if "observation" in event and step is not None and _is_call(step[0]):
            step[1:] = [event]
            continue
        steps.append([event])
        if isinstance(event.get("id"), int | str):
            by_id[event["id"]] = steps[-1]
    return numbered(steps, _step)


def _step(events: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of an event, and of the last observation that it caused."""
    fields = _openhands_fields(events[0])
    for event in events[1:]:
        fields["calls"][0] = _with_output(fields["calls"][0], event)
    return fields


def _is_call(event: Mapping[str, Any]) -> bool:
    """Whether an event calls a tool, or is what a call gave."""
    action = event.get("action")
    return "observation" in event or (isinstance(action, str) and action not in SAID)


def _openhands_fields(event: Mapping[str, Any]) -> dict[str, Any]:
    arguments = object_of(event.get("args"))
    action = event.get("action")
    source = event.get("source")
    words = next((text for name in _OPENHANDS_WORDS if (text := _said(arguments, name))), "")
    calls: list[ToolCall] = []
    if isinstance(action, str) and action not in SAID:
        given = {name: value for name, value in arguments.items() if name != "thought" and value is not None}
        command = given.get("command")
        shown = command if isinstance(command, str) and len(given) <= 1 else given
        calls = [ToolCall(name=trimmed(action), arguments=trimmed(shown))]
        words = _said(arguments, "thought")
    elif "observation" in event:
        output = event.get("content")
        calls = [_with_output(ToolCall(name=trimmed(event["observation"]) or "result", arguments=""), event)]
        words = "" if output else _said(event, "message")
    return {
        "source": cast(Source, source if source in ("user", "agent", "environment") else "system"),
        "text": trimmed(words or ("" if calls else _said(event, "message"))),
        "calls": calls,
        "at": trimmed(event.get("timestamp")) or None,
    }


def _with_output(call: ToolCall, event: Mapping[str, Any]) -> ToolCall:
    extras = object_of(event.get("extras"))
    code = object_of(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    output = trimmed(event.get("content") or event.get("message"))
    failed = event.get("observation") == "error" or (isinstance(code, int) and code != 0)
    return call.model_copy(update={"output": output, "error": failed or says_error(output)})


def _said(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""
