"""What the trials of one run are scored by: the price table, and what the run's plan decides."""

from __future__ import annotations

from dataclasses import dataclass

from streamer.model_names import BASELINE_LABELS
from streamer.score.prices import PriceTable
from streamer.score.profiles import SPECIFIED, GradingProfile

NOP = "nop"
"""The agent that changes nothing: what the others' speedups are measured from."""


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """What the trials of one run are scored by; two equal ones give every trial the same score.

    Attributes:
        prices: what tokens cost (R2).
        profile: grades and weights (R12).
        named_baselines: agents that the plan names as baselines beside nop and oracle (R10).
        infrastructure: failure modes that the plan names as the infrastructure's; None: the table
            of :mod:`streamer.score.infrastructure` decides.
        harness: the one that the plan names, for trials that name none.
    """

    prices: PriceTable
    profile: GradingProfile = SPECIFIED
    named_baselines: frozenset[str] = frozenset()
    infrastructure: frozenset[str] | None = None
    harness: str | None = None

    def is_baseline(self, agent: str) -> bool:
        """nop, oracle, and what the plan names, by agent (R10)."""
        return agent in BASELINE_LABELS or agent in self.named_baselines
