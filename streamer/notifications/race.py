"""What the hard bounds of a run's agents settle: who leads, and whether the target is met. Pure.

Nothing here rests on an assumption about the order of trials (inference 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from streamer.inference.bounds import Reach, cannot_be_overtaken
from streamer.notifications.notification import Json
from streamer.schemas.identity import agent_model_key


class Leader(NamedTuple):
    """An agent:model that ends before all others of its run.

    Attributes:
        label: its label.
        lowest: the lowest pass rate that it can end with.
        others: the highest pass rate that any other agent can end with.
    """

    label: str
    lowest: float
    others: float


class Settled(NamedTuple):
    """An agent:model for which the target is met, or lost.

    Attributes:
        label: its label.
        word: `reached` or `out of reach`.
        bound: the pass rate that shows it: the lowest that it can end with, or the highest.
    """

    label: str
    word: Literal["reached", "out of reach"]
    bound: float


class _Agent(NamedTuple):
    """The part of an agent's summary that counts here; `reach` None: there are no bounds."""

    label: str
    compared: bool
    planned: int
    reach: Reach | None


@dataclass(slots=True)
class Race:
    """The agents of one run, as they were last heard of."""

    _agents: dict[str, _Agent] = field(default_factory=dict)

    def hear(self, agent: Json) -> None:
        """Another summary of an agent:model."""
        reachable = (agent["uncertainty"] or {}).get("reachable")
        reach = None if reachable is None else Reach(**reachable["pass_rate"])
        key = agent_model_key(agent["agent"], agent["model"])
        planned = agent["runs_planned"] or 0
        self._agents[key] = _Agent(agent["agent_model"], not agent["baseline"], planned, reach)

    def forget(self, key: str) -> None:
        """An agent:model, `AGENT:MODEL` percent-encoded, has no results any more."""
        self._agents.pop(key, None)

    def leader(self, run: Json) -> Leader | None:
        """The agent that can no longer be overtaken; None: nothing is settled, or everything is.

        Every agent must have bounds, and every planned trial must belong to an agent that was heard of. With
        fewer than two agents, baselines apart, there is no leader.
        """
        compared = [agent for agent in self._agents.values() if agent.compared]
        bounded = [(agent.reach, agent.label) for agent in compared if agent.reach is not None]
        over = all(reach.low == reach.high for reach, _ in bounded)
        if len(bounded) < max(2, len(compared)) or over or self._awaits_agents(run):
            return None
        (ahead, label), *others = sorted(bounded, reverse=True)
        if not all(cannot_be_overtaken(ahead, other) for other, _ in others):
            return None
        return Leader(label, ahead.low, max(other.high for other, _ in others))

    def settled(self, target: float) -> Iterator[Settled]:
        """The agents that are sure to meet the target, a share from 0 to 1, or to miss it."""
        for agent in self._agents.values():
            reach = agent.reach if agent.compared else None
            if reach is not None and reach.low >= target:
                yield Settled(agent.label, "reached", reach.low)
            elif reach is not None and reach.high < target:
                yield Settled(agent.label, "out of reach", reach.high)

    def _awaits_agents(self, run: Json) -> bool:
        """Whether the plan has trials of agents that have not begun."""
        return (run["progress"]["planned"] or 0) > sum(agent.planned for agent in self._agents.values())
