"""A comparison as a document: the numbers of each metric, the flipped tasks, and what was not compared."""

from __future__ import annotations

from streamer.views.compare import METHODS, STILL_OPEN, compare, comparison_document
from streamer.views.tables import Table
from tests.support.builders import a_row

NAMES = (("r", "a:m"), ("s", None))


def cells(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def tables(*, ended: bool, limit: int = 20) -> list[Table]:
    a = [a_row(task_id=f"t{n}", cost_usd=1.0, metrics={"wait": 1.0 + n}) for n in range(4)]
    b = [
        a_row(task_id=f"t{n}", cost_usd=1.5, metrics={"wait": 2.0 + n}, success=False, failure_mode="timeout")
        for n in range(3)
    ]
    readings = {"wait": {"unit": "seconds", "direction": "lower", "label": "Wait\u202e"}}
    found = compare(a, b, NAMES, 0, limit, ended=ended, readings=readings)
    return list(comparison_document(found).tables)


def test_each_metric_has_a_row_in_its_own_unit() -> None:
    metrics = cells(tables(ended=True)[0])
    assert [(row["mean over tasks"], row["A"], row["B"], row["B - A"], row["95 %"]) for row in metrics] == [
        ("pass_rate", "100.0 %", "0.0 %", "-100.0 points", "[-100.0, -100.0]"),
        ("cost_usd", "$1.0000", "$1.5000", "+$0.5000", "[$0.5000, $0.5000]"),
        ("Wait\\u202e", "2 s", "3 s", "+1 s", "[1 s, 1 s]"),
    ]
    assert [row["A better"] for row in metrics] == ["3", "3", "3"]


def test_the_note_says_whether_intervals_hold() -> None:
    assert tables(ended=True)[0].note == METHODS
    running = tables(ended=False)[0]
    assert (running.note, "95 %" in running.heads) == (STILL_OPEN, False)


def test_lists_end_with_how_many_more_there_are() -> None:
    _, flips, pairs, not_common = tables(ended=True, limit=1)
    assert cells(flips) == [
        {
            "passed by": "A alone",
            "the other failed by": "timeout",
            "tasks": "3",
            "which": "t0, and 2 more (--limit)",
        }
    ]
    assert (len(pairs.rows), pairs.note) == (1, "and 2 more (--limit)")
    assert cells(not_common) == [{"only in": "A", "tasks": "1", "which": "t3"}]


def test_a_side_is_called_by_its_run_and_its_agent() -> None:
    found = compare([a_row()], [a_row()], NAMES, 0, 1)
    assert comparison_document(found).facts == [
        "A  r: a:m, 1 trial of the common tasks",
        "B  s: all but baselines, 1 trial of the common tasks",
    ]
