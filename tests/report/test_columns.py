"""Every plain field of a scored trial is a column."""

from __future__ import annotations

from streamer.report.columns import COLUMNS
from streamer.schemas.formulacode import FormulaCodePayload
from streamer.schemas.scored_trial import ScoredTrial


def test_every_plain_field_of_a_scored_trial_is_a_column() -> None:
    told = {column.path for column in COLUMNS}
    nested = {"type", "formulacode"}
    wanted = {(name,) for name in ScoredTrial.model_fields if name not in nested}
    repeated = {"success", "task_cost_usd", "trajectory_length"}
    blocks = {"per_benchmark_speedups", "pytest_summary", "snapshot_summary"}
    wanted |= {("formulacode", name) for name in set(FormulaCodePayload.model_fields) - repeated - blocks}
    assert told - {()} == wanted
