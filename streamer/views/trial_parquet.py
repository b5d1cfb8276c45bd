"""Scored trials as Parquet, by pyarrow (the extra `report`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from streamer.views.trial_columns import TrialColumn, Value, columns_of


class ParquetMissing(Exception):
    """pyarrow is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Parquet needs pyarrow, which the extra `report` brings: pip install 'trialstream[report]'. "
            "CSV has the same columns and needs nothing"
        )


def as_parquet(trials: Sequence[Mapping[str, Any]], planned: Mapping[str, Any] | None = None) -> bytes:
    """One row per scored trial; each field carries its description and unit as metadata. See `columns_of`.

    Raises:
        ParquetMissing: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ParquetMissing from None
    types = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    columns = columns_of(trials, planned)
    fields = [
        pa.field(c.name, types[c.kind], metadata={"description": c.description, "unit": c.unit})
        for c in columns
    ]
    arrays = [pa.array([_value(c, trial) for trial in trials], types[c.kind]) for c in columns]
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), out, compression="zstd")
    return bytes(out.getvalue().to_pybytes())


def _value(column: TrialColumn, trial: Mapping[str, Any]) -> Value | datetime:
    value = column.of(trial)
    return datetime.fromisoformat(value) if column.kind == "time" and isinstance(value, str) else value
