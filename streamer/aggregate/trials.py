"""Scored trials on their way into groups: in columns, so that many are counted at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from streamer.aggregate.formulacode import FormulaCodeTrials
from streamer.aggregate.keys import SlotKey
from streamer.score import Scored
from streamer.stats import Attempts, Values

COMPOSITE = "composite_score"

DISTRIBUTED = (
    "pass_rate",
    "impl_rate",
    COMPOSITE,
    "cost_usd",
    "cost_of_pass",
    "duration_seconds",
    "input_tokens",
    "output_tokens",
)
"""Numbers of a score that get statistics."""

SUMMED = ("cache_read_tokens", "cache_write_tokens", "trajectory_length")
"""Numbers of which only sum and count are kept."""

METRICS = (*DISTRIBUTED, *SUMMED)
"""Every number of a score that groups count."""

_COLUMNS = (*METRICS, "resolved", "success", "infrastructure_failure", "failure_mode", "formulacode")


class Trials(NamedTuple):
    """Some scored trials, column by column; a column has no entry for a trial that lacks the value.

    Attributes:
        number: how many.
        attempts: task and whether it is resolved, of each.
        resolved: how many are resolved.
        no_verdict: how many have no verdict (R19).
        infrastructure_failures: how many are unresolved because the infrastructure failed.
        passes_with_cost: how many succeeded at a known cost (R14).
        values: metric to its values.
        failure_modes: one for each trial that has one.
        subtests: likewise.
        formulacode: those that carry its sections.
    """

    number: int
    attempts: Attempts
    resolved: int
    no_verdict: int
    infrastructure_failures: int
    passes_with_cost: int
    values: dict[str, Values]
    failure_modes: list[str]
    subtests: list[str]
    formulacode: FormulaCodeTrials

    @property
    def unmeasured_failures(self) -> int:
        """How many failed and have no FormulaCode section, nor has their trial group (R21)."""
        failures, _ = self.values["pass_rate"].zeros_and_ones
        return failures - self.formulacode.failures

    @classmethod
    def of(cls, trials: Sequence[tuple[SlotKey, Scored]]) -> Trials:
        """The columns of at least one trial."""
        keys, scores = zip(*trials, strict=True)
        columns = _columns(scores)
        costs, resolved = columns["cost_usd"], columns["resolved"]
        tasks = [key[1] for key in keys]
        return cls(
            len(scores),
            Attempts.of(zip(tasks, [verdict is True for verdict in resolved], strict=True)),
            resolved.count(True),
            resolved.count(None),
            columns["infrastructure_failure"].count(True),
            sum(success for success, cost in zip(columns["success"], costs, strict=True) if cost is not None),
            {metric: Values(_known(columns[metric])) for metric in METRICS},
            _known(columns["failure_mode"]),
            _known([key[6] for key in keys]),
            FormulaCodeTrials([(s, s.formulacode) for s in scores if s.formulacode is not None]),
        )

    @classmethod
    def together(cls, parts: Sequence[Trials]) -> Trials:
        """All trials of at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            sum(part.number for part in parts),
            Attempts.together([part.attempts for part in parts]),
            sum(part.resolved for part in parts),
            sum(part.no_verdict for part in parts),
            sum(part.infrastructure_failures for part in parts),
            sum(part.passes_with_cost for part in parts),
            {metric: Values.together([part.values[metric] for part in parts]) for metric in parts[0].values},
            _chained(part.failure_modes for part in parts),
            _chained(part.subtests for part in parts),
            FormulaCodeTrials(_chained(part.formulacode.pairs for part in parts)),
        )


def _columns(scores: Sequence[Scored]) -> dict[str, Any]:
    """What is counted of each score, by name."""
    return {name: list(map(attrgetter(name), scores)) for name in _COLUMNS}


def _known(column: Sequence[Any]) -> list[Any]:
    """The values of a column that are not None."""
    if None in column:
        return [value for value in column if value is not None]
    return list(column)


def _chained(lists: Iterable[list[Any]]) -> list[Any]:
    together: list[Any] = []
    for part in lists:
        together += part
    return together
