"""Every plain field of a scored trial is a column."""

from __future__ import annotations

from typing import Any

from streamer.schemas.events import FormulaCodePayload
from streamer.schemas.summaries import ScoredTrial
from streamer.views.tables import COLUMNS, NAMED_METRIC_COLUMNS, columns_of, rows


def test_every_plain_field_of_a_scored_trial_is_a_column() -> None:
    told = {column.path for column in COLUMNS}
    nested = {"type", "formulacode", "metrics"}
    wanted = {(name,) for name in ScoredTrial.model_fields if name not in nested}
    repeated = {"success", "task_cost_usd", "trajectory_length"}
    blocks = {"per_benchmark_speedups", "pytest_summary", "snapshot_summary"}
    wanted |= {("formulacode", name) for name in set(FormulaCodePayload.model_fields) - repeated - blocks}
    assert told - {()} == wanted


def scored(*metrics: dict[str, float] | None) -> list[dict[str, Any]]:
    return [{"metrics": of_one} for of_one in metrics]


def test_each_named_metric_that_a_trial_has_is_a_column_by_name() -> None:
    trials = scored({"reward": 1.0, "a/b": 2.0}, None, {"constructor": 0.5})
    planned = {"reward": {"unit": "points"}, "never": {"unit": "USD"}}
    named = columns_of(trials, planned)[len(COLUMNS) :]
    assert [(column.name, column.unit) for column in named] == [
        ("metrics/a/b", ""),
        ("metrics/constructor", ""),
        ("metrics/reward", "points"),
    ]
    assert list(rows(trials, named)) == [[2.0, None, 1.0], [None, None, None], [None, 0.5, None]]
    assert all("R30" in column.description for column in named)


def test_of_too_many_named_metrics_planned_and_frequent_ones_are_kept() -> None:
    trials = scored(
        {f"m{n:03}": 1.0 for n in range(NAMED_METRIC_COLUMNS)},
        {"z-planned": 1.0},
        {"y-rare": 1.0, "m063": 1.0},
    )
    named = [column.name for column in columns_of(trials, {"z-planned": {}})[len(COLUMNS) :]]
    assert len(named) == NAMED_METRIC_COLUMNS
    assert named[-1] == "metrics/z-planned"
    assert "metrics/m063" in named
    assert {"metrics/y-rare", "metrics/m062"}.isdisjoint(named)


def test_without_named_metrics_the_columns_are_the_same() -> None:
    assert columns_of(scored(None, {})) == COLUMNS
