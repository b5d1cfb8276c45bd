"""Why trials failed, as groups of alike ones: by failure mode, and by what their messages have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from streamer.schemas.base import Message

NO_FAILURE = ("", "none", "unset")
"""Failure modes by which harnesses say that there was none (G6)."""

MAX_KIND_CHARACTERS = 160
MAX_GROUPS = 200

_DIFFERS = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\bhttps?://\S+"), "URL"),
    (re.compile(r"(?<![\w/])/(?:[\w.@+-]+/)+[\w.@+-]*"), "PATH"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "N"),
)
"""The parts in which messages of one kind differ, and what stands for them, in order."""

_TRACEBACK = "Traceback (most recent call last)"


class FailureGroup(Message):
    """Failed trials that are alike."""

    failure_mode: str | None = Field(description="As the harness says; null: it says none.")
    kind: str = Field(description="What their messages have in common; empty: they have none.")
    example: str | None = Field(description="The first line of one message; null: they have none.")
    count: int = Field(ge=1, description="How many trials.")
    share: float = Field(gt=0, le=1, description="Of the trials of the run that did not succeed.")
    agents: dict[str, int] = Field(description="Agent:model to its trials among them, most first.")


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """A trial that did not succeed.

    Attributes:
        agent_model: whose it is.
        failure_mode: as the harness says; "unset" and "none" say nothing.
        kind: of its message; "": it has none.
        example: its message's line that says why; None without a message.
    """

    agent_model: str
    failure_mode: str | None
    kind: str
    example: str | None


def telling_line(message: str) -> str:
    """The line of a message that says why: the first, or of a traceback the last; at most 300 characters.

    >>> telling_line("Traceback (most recent call last):\\n  File x\\nValueError: no\\n")
    'ValueError: no'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    return lines[-1 if lines[0].startswith(_TRACEBACK) else 0][:300]


def kind_of(message: str) -> str:
    """What messages that differ in numbers, ids and paths alone have in common.

    >>> kind_of("Timeout after 300.5 s in /app/run-1/task.py"), kind_of("Timeout after 12 s in /srv/x/y.py")
    ('Timeout after N s in PATH', 'Timeout after N s in PATH')
    """
    kind = telling_line(message)
    for pattern, word in _DIFFERS:
        kind = pattern.sub(word, kind)
    return kind[:MAX_KIND_CHARACTERS]


def stated_mode(failure_mode: str | None) -> str | None:
    """The failure mode, None where the harness says that there is none (G6)."""
    return None if failure_mode in NO_FAILURE else failure_mode


def failure_groups(trials: Iterable[FailedTrial]) -> list[FailureGroup]:
    """The groups, largest first, ties by name; at most :data:`MAX_GROUPS`."""
    groups: dict[tuple[str | None, str], list[FailedTrial]] = {}
    for trial in trials:
        groups.setdefault((stated_mode(trial.failure_mode), trial.kind), []).append(trial)
    total = sum(map(len, groups.values()))
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0][0] or "", item[0][1]))
    return [
        FailureGroup(
            failure_mode=mode,
            kind=kind,
            example=found[0].example,
            count=len(found),
            share=len(found) / total,
            agents=dict(Counter(trial.agent_model for trial in found).most_common()),
        )
        for (mode, kind), found in ordered[:MAX_GROUPS]
    ]
