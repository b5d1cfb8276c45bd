"""The plan of a run: what `run_started` events say, joined field by field, and what follows from it."""

from __future__ import annotations

from typing import Any

from streamer.schemas.events import RunFinished, RunStarted
from streamer.schemas.identity import UNKNOWN, split_label
from streamer.score import PriceTable, ScoringRules, grading_profile, model_of_agent

DEFAULT_BASELINE_TIER = "T0"
RUNS_PER_TIER = 10
"""Runs that the specification plans for a tier of which nobody said anything (R26)."""

_NOT_PLAN = frozenset({"type", "schema_version", "run_id", "revision", "labels"})

Standing = tuple[int, str]
"""(revision, fingerprint) of the event that set a field; the greater decides."""


class Plan:
    """Join of every plan event of a run: per field, the greatest (revision, fingerprint) that set it.

    The join is associative, commutative and idempotent, so the order of the events never matters.
    """

    def __init__(self) -> None:
        self._fields: dict[str, tuple[Standing, Any]] = {}
        self._labels: dict[str, tuple[Standing, str]] = {}
        self._finished: tuple[Standing, RunFinished] | None = None

    def __bool__(self) -> bool:
        return bool(self._fields or self._labels or self._finished)

    def join(self, event: RunStarted, fingerprint: str) -> bool:
        """Take in a plan event; True if it now decides a field, be it with the same value."""
        standing = (event.revision, fingerprint)
        changed = False
        for name in event.model_fields_set - _NOT_PLAN:
            value = getattr(event, name, None)
            if value is not None and name in RunStarted.model_fields:
                changed |= _join(self._fields, name, standing, value)
        for label, text in (event.labels or {}).items():
            changed |= _join(self._labels, label, standing, text)
        return changed

    def finish(self, event: RunFinished, fingerprint: str) -> bool:
        """Take in the end of the run; True if it changed anything."""
        standing = (event.revision, fingerprint)
        if self._finished and self._finished[0] >= standing:
            return False
        self._finished = (standing, event)
        return True

    def get(self, name: str) -> Any:
        """Value of a plan field, None where nobody set it."""
        entry = self._fields.get(name)
        return entry[1] if entry else None

    def standings(self) -> set[Standing]:
        """Standings of the events that still decide something."""
        held = {standing for standing, _ in (*self._fields.values(), *self._labels.values())}
        return held | ({self._finished[0]} if self._finished else set())

    @property
    def labels(self) -> dict[str, str]:
        return {label: text for label, (_, text) in self._labels.items()}

    @property
    def finished(self) -> RunFinished | None:
        return self._finished[1] if self._finished else None

    @property
    def task_count(self) -> int | None:
        tasks = self.get("tasks")
        return len(set(tasks)) if isinstance(tasks, list) else tasks

    @property
    def attempts(self) -> int | None:
        attempts: int | None = self.get("attempts")
        return attempts

    @property
    def baseline_tier(self) -> str:
        return self.get("baseline_tier") or DEFAULT_BASELINE_TIER

    def agent_models(self) -> set[tuple[str, str]]:
        """Planned agents and their models, named as slots name them; empty where nobody said."""
        labels = map(split_label, self.get("agent_models") or ())
        return {(agent or UNKNOWN, model_of_agent(agent, model or UNKNOWN)) for agent, model in labels}

    @property
    def judged(self) -> bool | None:
        """Whether trials have a judge's score; None: as seen (R13)."""
        judged: bool | None = self.get("judged")
        return judged

    def scoring_rules(self, prices: PriceTable) -> ScoringRules:
        """What the trials of the run are scored by."""
        named = self.get("infrastructure_failures")
        return ScoringRules(
            prices,
            grading_profile(self.get("grading_profile")),
            frozenset(self.get("baselines") or ()),
            None if named is None else frozenset(named),
            self.get("harness"),
        )

    def trials_per_subtest(self) -> int | None:
        """Planned trials of one agent:model in one subtest, None if tasks or attempts are not declared."""
        if self.task_count is None or self.attempts is None:
            return None
        return self.task_count * self.attempts

    def subtests(self, tier: str | None, seen: int) -> int:
        """Subtests of a tier: declared, or those seen so far, at least one."""
        declared = (self.get("subtests") or {}).get(tier)
        return max(1, seen if declared is None else declared)


def _join(fields: dict[str, Any], name: str, standing: Standing, value: Any) -> bool:
    held = fields.get(name)
    if held and held[0] >= standing:
        return False
    fields[name] = (standing, value)
    return True
