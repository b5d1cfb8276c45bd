"""Parquet reads back to the values; without pyarrow the extra is named."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from streamer.views.tables import rows
from streamer.web.report import FORMATS, ParquetMissing, RunData, as_parquet
from tests.report.reporting import DATA, _read, columns_in, folded, mixed_events

TYPES = {
    "text": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "time": "timestamp[us, tz=UTC]",
}


@pytest.mark.parametrize("made", DATA.values(), ids=DATA)
def test_parquet_reads_back_to_the_values_of_the_trials(made: Callable[[], RunData]) -> None:
    data = made()
    assert data.trials
    table = pq.read_table(io.BytesIO(FORMATS["parquet"](data)))
    columns = columns_in(data)
    expected = [list(map(_read, columns, row)) for row in rows(data.trials, columns)]
    assert [list(row.values()) for row in table.to_pylist()] == expected
    assert [str(field.type) for field in table.schema] == [TYPES[column.kind] for column in columns]
    assert all(field.metadata[b"description"] for field in table.schema)


def test_a_named_metric_is_a_column_with_the_unit_that_the_plan_says() -> None:
    table = pq.read_table(io.BytesIO(FORMATS["parquet"](folded(mixed_events()))))
    units = {field.name: field.metadata[b"unit"] for field in table.schema if "/" in field.name}
    assert units == {"metrics/__proto__": b"", "metrics/latency/p50": b"seconds", "metrics/reward": b""}
    known = [value for value in table["metrics/latency/p50"].to_pylist() if value is not None]
    assert known == [1.5, -2.0]


def test_without_pyarrow_parquet_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"trialstream\[report\]"):
        as_parquet([])
