"""The columns of a table of scored trials: one row per trial, in CSV and in Parquet alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from streamer.schemas.details import NAMED
from streamer.schemas.events import Measurements
from streamer.schemas.formulacode import ADVANTAGES, FormulaCodePayload
from streamer.schemas.scored_trial import ScoredTrial
from streamer.views.models import outcome_of
from streamer.views.named_columns import foremost

NAMED_METRIC_COLUMNS = 64
"""Named metrics that have a column."""

_NAMED_FIELD = "metrics"

Kind = Literal["text", "integer", "number", "boolean", "time"]

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """One column.

    Attributes:
        name: as in the model, so that there is no second name to learn.
        kind: one of text, integer (64 bits), number (double, may be infinite or NaN, R14), boolean, time
            (UTC).
        unit: unit of the number; "": it has none, or the plan names none.
        path: fields to follow from the scored trial; () for what is worked out here.
    """

    name: str
    kind: Kind
    unit: str = ""
    path: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The field's description, from the model."""
        if not self.path:
            return "In one word: passed, failed, fell_back (C1) or no_verdict (R19)."
        if self.path[0] == _NAMED_FIELD:
            return "The value that the harness gave to this metric (R30); null: none."
        model = FormulaCodePayload if len(self.path) == 2 else ScoredTrial
        return str(model.model_fields[self.path[-1]].description)

    def of(self, trial: Mapping[str, Any]) -> Value:
        """The value in a scored trial as parsed from JSON: numbers that are not finite as floats."""
        if not self.path:
            return outcome_of(trial)
        if self.path[0] == _NAMED_FIELD:
            value = (trial.get(_NAMED_FIELD) or {}).get(self.path[1])
            return None if value is None else float(value)
        found: Any = trial
        for step in self.path:
            found = found[step] if found is not None else None
        return float(found) if self.kind == "number" and found is not None else found


def _of_trial(kind: Kind, *names: str, unit: str = "") -> list[TrialColumn]:
    return [TrialColumn(name, kind, unit, (name,)) for name in names]


def _of_formulacode(kind: Kind, *names: str, unit: str = "") -> list[TrialColumn]:
    return [TrialColumn(name, kind, unit, ("formulacode", name)) for name in names]


def _of_measurements() -> list[TrialColumn]:
    """The columns that a harness measures of a trial, in the order of the model."""
    hints = get_type_hints(Measurements)
    columns = []
    for name, field in Measurements.model_fields.items():
        says = field.json_schema_extra
        assert isinstance(says, dict), name
        columns.append(TrialColumn(name, _KINDS[get_args(hints[name])[0]], str(says["unit"]), (name,)))
    return columns


_KINDS: dict[type, Kind] = {int: "integer", float: "number"}

COLUMNS: tuple[TrialColumn, ...] = (
    *_of_trial("text", "run_id", "shard", "task_id"),
    *_of_trial("integer", "attempt"),
    *_of_trial("text", "agent_model", "agent", "model"),
    *_of_trial("integer", "agent_index"),
    *_of_trial("text", "tier", "subtest"),
    TrialColumn("outcome", "text"),
    *_of_trial("boolean", "resolved", "success"),
    *_of_trial("text", "verdict_source", "failure_mode"),
    *_of_trial("boolean", "infrastructure_failure"),
    *_of_trial("number", "pass_rate", "impl_rate", "composite_score", unit="0 to 1"),
    *_of_trial("text", "grade"),
    *_of_trial("number", "cost_usd", unit="USD"),
    *_of_trial("text", "cost_source"),
    *_of_trial("number", "cost_of_pass", unit="USD"),
    *_of_trial("number", "duration_seconds", unit="seconds"),
    *_of_measurements(),
    *_of_formulacode("number", "task_speedup", unit="ratio"),
    *_of_formulacode("number", *ADVANTAGES, unit="difference of ratios"),
    *_of_formulacode("integer", "num_benchmarks", "num_valid_benchmarks", "benchmarks_left_out"),
    *_of_formulacode("boolean", "fallback_to_baseline", "claimed", "pytest_failed", "snapshot_failed"),
    *_of_trial("integer", "revision"),
    *_of_trial("text", "fingerprint"),
    *_of_trial("time", "last_event_at"),
    *_of_trial("integer", "semantics_version", "epoch", "state_version"),
    *_of_trial("text", "digest"),
)
"""In the order in which they stand in the file; named metrics come behind them."""


def columns_of(
    trials: Sequence[Mapping[str, Any]], planned: Mapping[str, Any] | None = None
) -> tuple[TrialColumn, ...]:
    """COLUMNS, and one `metrics/NAME` for each named metric that a trial has, by name (R30).

    Args:
        planned: named metrics of the plan, and how to read them, as a run summary has them. If trials have
            more than :data:`MOST_NAMED` metrics, these are kept first, then what most trials have.
    """
    reading = planned or {}
    counts = Counter(name for trial in trials for name in trial.get(_NAMED_FIELD) or ())
    named = (
        TrialColumn(NAMED + name, "number", reading.get(name, {}).get("unit") or "", (_NAMED_FIELD, name))
        for name in sorted(foremost(counts, reading, NAMED_METRIC_COLUMNS))
    )
    return (*COLUMNS, *named)


def rows(
    trials: Sequence[Mapping[str, Any]], columns: Sequence[TrialColumn] = COLUMNS
) -> Iterator[list[Value]]:
    """One row per trial, in the given order."""
    for trial in trials:
        yield [column.of(trial) for column in columns]
