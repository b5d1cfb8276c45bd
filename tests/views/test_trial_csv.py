"""CSV reads back to the values, and no cell begins a formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamer.views.tables import COLUMNS, rows
from streamer.web.report import FORMATS, FORMULA_STARTS, RunData
from tests.report.reporting import DATA, HOSTILE, columns_in, folded, from_csv, hostile_events
from tests.support.events import a_trial


@pytest.mark.parametrize("made", DATA.values(), ids=DATA)
def test_csv_reads_back_to_the_values_of_the_trials(made: Callable[[], RunData]) -> None:
    data = made()
    assert data.trials
    columns = columns_in(data)
    assert from_csv(FORMATS["csv"](data), columns) == list(rows(data.trials, columns))


def test_no_cell_of_csv_begins_a_formula() -> None:
    content = FORMATS["csv"](folded(hostile_events())).decode()
    for text in HOSTILE:
        guarded = f"'{text}" if text[0] in FORMULA_STARTS else text
        assert f'"{guarded.replace(chr(34), chr(34) * 2)}"' in content
    for start in "=+@＝":
        assert f',"{start}' not in content
        assert f",{start}" not in content.replace(f'"{start}', "")


def test_an_empty_text_and_an_unknown_value_differ_in_csv() -> None:
    [row] = from_csv(FORMATS["csv"](folded([a_trial()])))
    values = dict(zip((column.name for column in COLUMNS), row, strict=True))
    assert (values["shard"], values["tier"], values["cost_usd"]) == ("", None, None)
