"""The metrics that boards show: where each stands in an agent:model summary, and which direction is better.

>>> BOARD_METRICS["mean_cost"].value({"mean_cost": 0.25})
0.25
>>> BOARD_METRICS["cost_of_pass"].value({"cost_of_pass": "Infinity"})
inf
>>> BOARD_METRICS["mean_speedup"].value({"formulacode": None}) is None
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamer.schemas.base import METRIC_NAME
from streamer.schemas.details import NAMED
from streamer.schemas.limits import MAX_METRIC_NAME_CHARACTERS


@dataclass(frozen=True, slots=True)
class BoardMetric:
    """One METRIC of the boards.

    Attributes:
        name: the METRIC in `streamer:{RUN}:board:METRIC`.
        path: fields to follow from the agent:model summary to the number.
        higher_is_better: direction of the board.
        unit: unit of the number; "1" for a plain ratio.
        description: what it is, for people.
        label: heading for people; None: the name.
    """

    name: str
    path: tuple[str, ...]
    higher_is_better: bool
    unit: str
    description: str
    label: str | None = None

    def value(self, summary: Mapping[str, Any]) -> float | None:
        """The number in a summary (as parsed from JSON); None where it is unknown, absent or NaN (R14)."""
        found: Any = summary
        for step in self.path:
            found = found.get(step) if isinstance(found, Mapping) else None
        if found is None or math.isnan(float(found)):
            return None
        return float(found)


PRIMARY_METRIC = "pass_rate"
"""What boards are ordered by, unless the plan of the run says otherwise."""

BOARD_METRICS: dict[str, BoardMetric] = {
    metric.name: metric
    for metric in (
        BoardMetric("accuracy", ("accuracy",), True, "1", "Share of trials that the harness calls resolved."),
        BoardMetric(
            "pass_rate",
            ("statistics", "pass_rate", "mean"),
            True,
            "1",
            "Share of successes (tests, else verdict).",
        ),
        BoardMetric(
            "impl_rate", ("statistics", "impl_rate", "mean"), True, "1", "Mean of the judge's score, 0 to 1."
        ),
        BoardMetric(
            "composite_score",
            ("statistics", "composite_score", "median"),
            True,
            "1",
            "Median composite of pass rate and judge's score; judged agents only, whose grade rests on it.",
        ),
        BoardMetric(
            "cost_of_pass", ("cost_of_pass",), False, "USD", "Known cost per pass; inf with no pass."
        ),
        BoardMetric("mean_cost", ("mean_cost",), False, "USD", "Mean known cost of a trial."),
        BoardMetric("total_cost", ("total_cost",), False, "USD", "Sum of the known costs."),
        BoardMetric(
            "mean_duration",
            ("statistics", "duration_seconds", "mean"),
            False,
            "seconds",
            "Mean duration of a trial.",
        ),
        BoardMetric(
            "mean_speedup",
            ("formulacode", "mean_speedup"),
            True,
            "1",
            "Mean task speedup over the unchanged code (FormulaCode).",
        ),
        BoardMetric(
            "agent_advantage",
            ("formulacode", "agent_advantage"),
            True,
            "1",
            "Mean advantage over the human solution (FormulaCode).",
        ),
    )
}
"""METRIC to its definition, in the order in which boards are listed."""


def named_metric(name: str, says: Mapping[str, Any]) -> BoardMetric:
    """The board `metrics/NAME` of a named metric (R30).

    Args:
        says: how to read it: `direction`, `unit`, `label`, as a summary has them.
    """
    unit, label = says.get("unit") or "1", says.get("label") or name
    higher = says.get("direction") != "lower"
    return BoardMetric(NAMED + name, ("metrics", name, "mean"), higher, unit, f"Mean {label}.", label)


def can_have_board(metric: str) -> bool:
    """Whether it is a built-in METRIC or a well-formed `metrics/NAME`.

    >>> [can_have_board(metric) for metric in ("accuracy", "metrics/a/b", "metrics/", "reward")]
    [True, True, False, False]
    """
    if not metric.startswith(NAMED):
        return metric in BOARD_METRICS
    name = metric.removeprefix(NAMED)
    return len(name) <= MAX_METRIC_NAME_CHARACTERS and re.fullmatch(METRIC_NAME, name) is not None


def planned_means(summary: Mapping[str, Any]) -> dict[str, Any]:
    """`metrics/NAME` to its mean, of the metrics that the plan names (R30); None: no trial has a value.

    >>> planned, other = {"mean": 0.5, "planned": True}, {"mean": 3.0, "planned": False}
    >>> planned_means({"metrics": {"reward": planned, "style": other}})
    {'metrics/reward': 0.5}
    """
    named = (summary.get("metrics") or {}).items()
    return {NAMED + name: of["mean"] for name, of in named if of["planned"]}


def board_metric(metric: str, summaries: Iterable[Mapping[str, Any]]) -> BoardMetric | None:
    """The METRIC of that name; None: it is no built-in one, and no summary of an agent:model has it.

    >>> board_metric("metrics/latency", [{"metrics": {"latency": {"direction": "lower"}}}]).higher_is_better
    False
    >>> board_metric("metrics/unheard-of", [{"metrics": {}}]) is None
    True
    """
    if not metric.startswith(NAMED):
        return BOARD_METRICS.get(metric)
    name = metric.removeprefix(NAMED)
    says = (summary.get("metrics", {}).get(name) for summary in summaries)
    return next((named_metric(name, found) for found in says if found is not None), None)


def board_values(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """METRIC to value for one agent:model summary; None is not on the board, baselines never are (R4).

    Named metrics have a board where the plan names them (R30).
    """
    planned = (name for name, of in summary.get("metrics", {}).items() if of["planned"])
    metrics = [*BOARD_METRICS.values(), *(named_metric(name, {}) for name in planned)]
    return {of.name: None if summary["baseline"] else of.value(summary) for of in metrics}
