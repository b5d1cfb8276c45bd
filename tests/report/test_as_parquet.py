"""Parquet reads back to the values; without pyarrow the extra is named."""

from __future__ import annotations

import io
import sys

import pyarrow.parquet as pq
import pytest

from streamer.report.as_parquet import ParquetMissing, as_parquet
from streamer.report.columns import COLUMNS, rows
from streamer.report.data import RunData
from streamer.report.formats import FORMATS
from tests.report.reporting import _read

TYPES = {
    "text": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "time": "timestamp[us, tz=UTC]",
}


def test_parquet_reads_back_to_the_values_of_the_trials(data: RunData) -> None:
    assert data.trials
    table = pq.read_table(io.BytesIO(FORMATS["parquet"](data)))
    expected = [list(map(_read, COLUMNS, row)) for row in rows(data.trials)]
    assert [list(row.values()) for row in table.to_pylist()] == expected
    assert [str(field.type) for field in table.schema] == [TYPES[column.kind] for column in COLUMNS]
    assert all(field.metadata[b"description"] for field in table.schema)


def test_without_pyarrow_parquet_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"trialstream\[report\]"):
        as_parquet([])
