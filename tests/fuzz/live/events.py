"""Whole events of the six kinds, by the JSON Schema of events: valid ones, and nearly valid ones."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from streamer.schemas.events import EVENT
from tests.fuzz.live.values import Reach, Values

Event = dict[str, Any]

KINDS = {
    "trial_result": 63,
    "trial_scored": 5,
    "trial_started": 12,
    "run_started": 8,
    "run_finished": 3,
    "trial_retracted": 9,
    "run_deleted": 0.2,
}
"""Kind to its weight."""

SHARE = 0.35
"""How often an optional field is there."""

SHARES = {"benchmarks": 0.08, "claimed": 0.04, "shard": 0.05, "agent_index": 0.15, "schema_version": 0.1}

ODD_FIELDS = (0, 0, 0, 0, 1, 1, 1, 2)
"""How many fields of an event go to a limit or beyond it."""

BEYOND = {"plain": 0.25, "wide": 0.4, "large plan": 0.4, "long names": 0.5}
"""How often such a field goes beyond."""

ODD: dict[str, dict[str, tuple[str, ...]]] = {
    "plain": {},
    "wide": {
        "trial_result": (*["failure_mode"] * 3, "agent", "model", "tier", "subtest", "task_id"),
        "run_started": ("agent_models", "tiers", "subtests", "labels"),
    },
    "large plan": {
        "run_started": ("tasks", "tasks", "attempts", "tiers", "subtests"),
        "trial_started": ("position", "position"),
    },
    "long names": {"trial_result": ("failure_mode", "failure_mode")},
}
"""What sort of run it is -> fields of which one or two in each event go to a limit or beyond it."""

KINDS_OF = {
    "plain": KINDS,
    "wide": KINDS | {"run_deleted": 0},
    "large plan": KINDS | {"run_started": 40, "run_deleted": 0},
    "long names": {"trial_result": 1},
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run to which events are made.

    Attributes:
        sort: "wide": as many, and as long, agents, models, tiers and failure modes as possible.
            "large plan": as many planned trials as possible. "long names": nothing odd but failure modes,
            so that no other fault sets the run apart before its summary is large. "plain": anything.
    """

    run_id: str
    sort: str = "plain"


class Events:
    """Makes events. The same random numbers give the same events."""

    def __init__(self, rng: Random) -> None:
        schema = EVENT.json_schema()
        definitions = schema["$defs"]
        self._rng = rng
        self._values = Values(rng, definitions)
        named = schema["discriminator"]["mapping"]
        self._schemas = {kind: definitions[named[kind].rpartition("/")[2]] for kind in KINDS}
        assert named.keys() == KINDS.keys()

    def make(self, run: Run) -> Event:
        kinds = KINDS_OF[run.sort]
        [kind] = self._rng.choices(list(kinds), list(kinds.values()))
        event = self._usual(kind, run.run_id)
        share = BEYOND[run.sort]
        for name in self._odd(kind, run):
            event[name] = self._of(kind, name, Reach.BEYOND if self._rng.random() < share else Reach.EDGE)
        if self._rng.random() < 0.03:
            event[f"unknown {self._rng.randrange(9)}"] = self._rng.choice((1, None, {"a": [1.5]}, "é"))
        return event

    def corrected(self, event: Event) -> Event:
        """The event again with another value or two, perhaps in another revision: the same slot mostly."""
        kind = event["type"]
        names = self._rng.sample(sorted(self._schemas[kind]["properties"].keys() - {"type", "run_id"}), 2)
        fresh = {name: self._of(kind, name, self._rng.choice((Reach.USUAL, Reach.EDGE))) for name in names}
        return event | fresh

    def run_id(self) -> str:
        """The id of a run: a plain one, or one that is hard to write into keys."""
        return str(self._of("trial_result", "run_id", self._rng.choice((Reach.USUAL, Reach.EDGE))) or "?")

    def _usual(self, kind: str, run_id: str) -> Event:
        schema = self._schemas[kind]
        required, shares = (
            schema["required"],
            {name: SHARES.get(name, SHARE) for name in schema["properties"]},
        )
        chosen = [n for n, share in shares.items() if n in required or self._rng.random() < share]
        return {name: self._of(kind, name, Reach.USUAL) for name in chosen} | {"type": kind, "run_id": run_id}

    def _odd(self, kind: str, run: Run) -> list[str]:
        """Names of the fields that go to a limit or beyond. The run's id stays: it would be another run."""
        if fields := ODD[run.sort].get(kind):
            return self._rng.sample(fields, self._rng.choice((1, 2)))
        names = sorted(self._schemas[kind]["properties"].keys() - {"type", "run_id"})
        return self._rng.sample(names, self._rng.choice(ODD_FIELDS)) if len(names) > 1 else []

    def _of(self, kind: str, name: str, reach: Reach) -> Any:
        return self._values.of(name, self._schemas[kind]["properties"][name], reach)
