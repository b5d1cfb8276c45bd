"""A notice and its words: plain text, in which nothing that an agent wrote acts on the reader's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamer.client.lifecycle import PLAN_INCOMPLETE, plan_words
from streamer.text import counted, dollars, visible
from streamer.views.wording import accuracy, accuracy_name, best_first, grade_with_basis

Json = Mapping[str, Any]

MAX_NAME = 120
"""Characters of a name; what is longer is cut."""

MAX_LINES = 12
"""Agents listed in a notice."""

_LOOKALIKES = str.maketrans(
    {"@": "＠", "<": "‹", ">": "›", "&": "＆", "[": "［", "]": "］", "`": "ˋ", "*": "∗", "|": "∣", "#": "＃"}
)


@dataclass(frozen=True, slots=True)
class Notification:
    """Something to tell once.

    Attributes:
        run_id: the run; "" where it is about none.
        key: equal for notices that must not be sent twice for that run, such as `finished:completed`.
        title: one line.
        body: some lines.
        again: an earlier process decided it, and ended before it was delivered.
    """

    run_id: str
    key: str
    title: str
    body: str
    again: bool = False


def named(value: object) -> str:
    """A name from outside, written so that chat services see no mention, link or markup in it.

    >>> named("<!channel> @all"), named("https://evil.example"), named("*x*")
    ('‹!channel› ＠all', 'https:⁄⁄evil.example', '∗x∗')
    """
    text = visible(value).translate(_LOOKALIKES).replace("://", ":⁄⁄")
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def run_name(run: Json) -> str:
    """A run as people call it, with its id."""
    shown = run["display_name"]
    return f"{named(shown)} ({named(run['run_id'])})" if shown else named(run["run_id"])


def standing(run: Json) -> str:
    """How a run stands, in a line."""
    done, planned = run["progress"]["done"], run["progress"]["planned"]
    trials = counted(done, "trial") if planned is None else f"{done:,} of {counted(planned, 'planned trial')}"
    trials += f" ({words})" if (words := plan_words(run)) == PLAN_INCOMPLETE else ""
    resolved = f"{run['resolved']:,} of {run['trials']:,} resolved"
    return f"{trials}, {resolved}, {accuracy_name(run)} {accuracy(run)}, cost {dollars(run['total_cost'])}"


def board(agents: Sequence[Json], primary: str) -> str:
    """The agents of a run, the best by its primary METRIC first, one per line; baselines are left out."""
    held = sorted((agent for agent in agents if not agent["baseline"]), key=best_first(primary))
    lines = [
        f"{named(agent['agent_model'])}: grade {grade_with_basis(agent)}, "
        f"accuracy {accuracy(agent)}, cost {dollars(agent['total_cost'])}"
        for agent in held[:MAX_LINES]
    ]
    if len(held) > MAX_LINES:
        lines.append(f"and {len(held) - MAX_LINES} more")
    return "\n".join(lines)


def group_name(group: Json) -> str:
    """A tier or an agent:model."""
    return f"tier {named(group['tier'])}" if group.get("tier") is not None else named(group["agent_model"])
