"""Which key of a sub-trial's own log is the agent's, worked out independently of the product (R7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

BASELINES = ("nop", "oracle")


def reported(model: str) -> str:
    """Model as in reports (E10)."""
    model = model.lstrip("@")
    return "fireworks/" + model if model.startswith("accounts/fireworks/models/") else model


def normalised(key: str) -> str:
    """Key of an agent with its model as in reports; the model of a baseline is its label (R7)."""
    agent, colon, model = key.partition(":")
    if agent in BASELINES and model.lower() == agent:
        return f"{agent}:{agent}"
    return agent + colon + reported(model)


def file_spelling(text: str) -> str:
    """Agent or model as in file names (E11)."""
    return re.sub(r"[^A-Za-z0-9\n .]", "-", text)


def own_key(
    keys: Iterable[str], last_agent: object, mine: str, index: int, others: Sequence[str]
) -> str | None:
    """The key in a log that is the agent's; None where no key fits, or two fit equally well.

    `mine` and `others` are as configured; `index` counts from 1.
    """
    stored = list(keys)
    strangers = [other for other in others if normalised(other) != normalised(mine)]

    def is_guessed(key: str) -> bool:
        return _label(key) == file_spelling(mine.partition(":")[0])

    def is_guarded(key: str) -> bool:
        position, bare = _position(key)
        if position not in (None, index):
            return True
        return any(_spellings(bare) & _spellings(other) for other in strangers)

    sure: tuple[Callable[[str], bool], ...] = (
        lambda key: key == mine,
        lambda key: normalised(key) == normalised(mine),
        lambda key: bool(_spellings(_without_position(key, index)) & _spellings(mine)),
    )
    for fits in sure:
        result = [key for key in stored if fits(key)]
        if result:
            return result[0] if len(result) == 1 else None
    named = [key for key in stored if key == last_agent and is_guessed(key) and not is_guarded(key)]
    if named:
        return named[0]
    guessed = [key for key in stored if is_guessed(key)]
    return guessed[0] if len(guessed) == 1 and not is_guarded(guessed[0]) else None


def _position(key: str) -> tuple[int | None, str]:
    """The N of an `agent-N-` in front, and the rest."""
    result = re.fullmatch(r"agent-([0-9]+)-(.*)", key, flags=re.DOTALL)
    return (int(result[1]), result[2]) if result else (None, key)


def _without_position(key: str, index: int) -> str:
    """The key without `agent-N-`, if N is the agent's own position."""
    position, bare = _position(key)
    return bare if position == index else key


def _label(key: str) -> str:
    return file_spelling(_position(key)[1].partition(":")[0])


def _spellings(key: str) -> set[str]:
    """Spellings E11 of a key: of the model as it stands, and as in reports."""
    result = set()
    for form in (key, normalised(key)):
        agent, colon, model = form.partition(":")
        result.add(file_spelling(agent) + colon + file_spelling(model))
    return result
