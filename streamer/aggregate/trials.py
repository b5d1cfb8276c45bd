"""Trials on their way into groups: in columns, so that many are counted at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from streamer.aggregate.formulacode import FormulaCodeTrials
from streamer.aggregate.slots import SlotKey
from streamer.score import MEASURED, GradingProfile, Measured, Scored
from streamer.stats import Values

COMPOSITE = "composite_score"

DISTRIBUTED = {
    "pass_rate": "pass_rate",
    "impl_rate": "impl_rate",
    COMPOSITE: "composite",
    "cost_usd": "cost_usd",
    "cost_of_pass": "cost_of_pass",
    "duration_seconds": "duration_seconds",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
"""Metric with statistics -> attribute of a scored trial."""

SUMMED = ("cache_read_tokens", "cache_write_tokens", "trajectory_length")
"""Metrics of which only sum and count are kept."""

_VALUES = (*DISTRIBUTED.items(), *zip(SUMMED, SUMMED, strict=True))


class Trials(NamedTuple):
    """Some scored trials, column by column; a column has no entry for a trial that lacks the value.

    Attributes:
        number: how many.
        attempts: task and whether the harness calls it resolved, of each.
        resolved: how many it calls so.
        no_verdict: how many have no verdict (R19).
        passes_with_cost: how many succeeded at a known cost (R14).
        values: metric to its values.
        failure_modes: one for each trial that has one.
        subtests: likewise.
        formulacode: those that carry its sections.
    """

    number: int
    attempts: list[tuple[str, bool]]
    resolved: int
    no_verdict: int
    passes_with_cost: int
    values: dict[str, Values]
    failure_modes: list[str]
    subtests: list[str]
    formulacode: FormulaCodeTrials

    @classmethod
    def of(cls, trials: Sequence[tuple[SlotKey, Scored]]) -> Trials:
        """The columns of at least one trial."""
        keys, scores = zip(*trials, strict=True)
        columns: dict[str, Sequence[Any]] = dict(zip(Scored._fields, zip(*scores, strict=True), strict=True))
        costs, resolved = columns["cost_usd"], columns["resolved"]
        return cls(
            len(trials),
            [(key[1], verdict is True) for key, verdict in zip(keys, resolved, strict=True)],
            resolved.count(True),
            resolved.count(None),
            sum(success for success, cost in zip(columns["success"], costs, strict=True) if cost is not None),
            {metric: Values(_known(columns[attribute])) for metric, attribute in _VALUES},
            _known(columns["failure_mode"]),
            [key[6] for key in keys if key[6] is not None],
            FormulaCodeTrials([(s, s.formulacode) for s in scores if s.formulacode is not None]),
        )

    @classmethod
    def of_measured(cls, rows: Sequence[Measured], profile: GradingProfile) -> Trials:
        """The columns of at least one trial, scored here: what `of` makes of their scores one by one."""
        columns: dict[str, Sequence[Any]] = dict(zip(MEASURED, zip(*rows, strict=True), strict=True))
        resolved, costs, judged = columns["resolved"], columns["cost_usd"], columns["score"]
        passed = [verdict is True for verdict in resolved]  # (R20)
        pass_rates = [float(passes) for passes in passed]
        # the judge's score within [0, 1] (R13, S2)
        impl_rates = [0.0 if score <= 0 else 1.0 if score >= 1 else score for score in _known(judged)]
        if len(impl_rates) < len(rows):
            judged_rates = [rate for rate, score in zip(pass_rates, judged, strict=True) if score is not None]
        else:
            judged_rates = pass_rates
        paid = [cost for passes, cost in zip(passed, costs, strict=True) if passes and cost is not None]
        known_costs = _known(costs)
        scored = {
            "pass_rate": pass_rates,
            "impl_rate": impl_rates,
            COMPOSITE: profile.composites(judged_rates, impl_rates),
            "cost_usd": known_costs,
            "cost_of_pass": paid + [inf] * (len(known_costs) - len(paid)),  # cost / pass_rate (R14)
        }
        return cls(
            len(rows),
            list(zip(columns["task_id"], passed, strict=True)),
            resolved.count(True),
            resolved.count(None),
            len(paid),
            {
                metric: Values(scored[metric] if metric in scored else _known(columns[attribute]))
                for metric, attribute in _VALUES
            },
            _known(columns["failure_mode"]),
            _known(columns["subtest"]),
            FormulaCodeTrials([]),
        )

    @classmethod
    def together(cls, parts: Sequence[Trials]) -> Trials:
        """All trials of at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            sum(part.number for part in parts),
            _chained(part.attempts for part in parts),
            sum(part.resolved for part in parts),
            sum(part.no_verdict for part in parts),
            sum(part.passes_with_cost for part in parts),
            {metric: Values.together([part.values[metric] for part in parts]) for metric in parts[0].values},
            _chained(part.failure_modes for part in parts),
            _chained(part.subtests for part in parts),
            FormulaCodeTrials(_chained(part.formulacode.pairs for part in parts)),
        )


def _known(column: Sequence[Any]) -> list[Any]:
    """What is there of a column."""
    if None in column:
        return [value for value in column if value is not None]
    return list(column)


def _chained(lists: Iterable[list[Any]]) -> list[Any]:
    together: list[Any] = []
    for part in lists:
        together += part
    return together
