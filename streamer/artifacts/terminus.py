"""Steps of an answer that Terminus got from its model: what it thinks, and the keys that it types.

Terminal-Bench keeps one answer in `response.txt` or `response.json`. Terminus 1 writes `state_analysis`,
`explanation` and `is_task_complete`, Terminus 2 `analysis`, `plan` and `task_complete`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.artifacts.steps import MAX_CALLS, NotThisFormat, Step, ToolCall, left_out, numbered, trimmed

_TERMINUS_WORDS = ("state_analysis", "analysis", "explanation", "plan")
_DONE = ("is_task_complete", "task_complete")


def terminus_steps(content: Any) -> tuple[list[Step], int]:
    """The steps of one answer, or of a list of them, and how many more there are.

    Raises:
        NotThisFormat: an answer has no list of `commands` with `keystrokes`.
    """
    answers = content if isinstance(content, list) else [content]
    if not answers or not all(_is_answer(answer) for answer in answers):
        raise NotThisFormat
    return numbered(answers, _terminus_fields)


def _is_answer(value: Any) -> bool:
    commands = value.get("commands") if isinstance(value, dict) else None
    return isinstance(commands, list) and all(isinstance(c, dict) and "keystrokes" in c for c in commands)


def _terminus_fields(answer: Mapping[str, Any]) -> dict[str, Any]:
    words = [answer[name] for name in _TERMINUS_WORDS if isinstance(answer.get(name), str) and answer[name]]
    if any(answer.get(name) is True for name in _DONE):
        words.append("It says that the task is complete.")
    commands = answer["commands"]
    words += filter(None, [left_out(len(commands) - MAX_CALLS, "calls")])
    calls = [ToolCall(name="keystrokes", arguments=trimmed(c["keystrokes"])) for c in commands[:MAX_CALLS]]
    return {"source": "agent", "text": trimmed("\n".join(words)), "calls": calls}
