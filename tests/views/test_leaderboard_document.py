"""Leaderboards as tables: ranked agents first, what is left out below, the methods in the note."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from streamer.views.leaderboard import NOT_RANKED, boards_of, leaderboard_document, leaderboard_tables
from streamer.views.tables import Table
from tests.support.board_runs import a_night, board_runs
from tests.support.events import Event

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def tables(*nights: Iterable[Event], metric: str = "pass_rate", limit: int | None = None) -> list[Table]:
    runs = board_runs(event for night in nights for event in night)
    return leaderboard_tables(boards_of(runs, metric, NOW), limit)


def cells(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def nights() -> list[Iterable[Event]]:
    """New generators, since each is read once."""
    return [
        a_night("n1", 1, {"a": "++" + "-" * 8, "b": "+" + "-" * 9}),
        a_night("n2", 2, {"a": "++++++++--", "b": "+" + "-" * 9}),
        a_night("n3", 3, {"a": "+" * 5}, ended=False, tasks=10, attempts=1, benchmark_version="2"),
    ]


def test_a_row_has_place_interval_trend_and_change_and_what_is_left_out_says_why() -> None:
    [table] = tables(*nights())
    first, second, below = cells(table)
    assert table.title == "tb 2: pass rate, highest first"
    assert (first["agent:model"], first["order"], first["place"]) == ("a:m", "1", "1")
    assert (second["agent:model"], second["order"], second["place"]) == ("b:m", "2", "2")
    assert (first["pass rate"], first["runs"], first["newest run"]) == ("50.0 %", "2", "n2")
    assert first["run by run"] == "20.0 %, 80.0 %"
    assert first["95 %"].startswith("[2")
    assert first["change"].startswith("+60.0 points [")
    assert first["change"].endswith("], real")
    assert second["change"] == "+0.0 points [0.0, 0.0], may be chance"
    assert (below["left out"], below["order"], below["95 %"]) == ("stalled", "–", "–")
    assert "all agents at once" in table.note
    assert "pooled" not in table.note.split("\n")[0]


def test_a_board_says_what_its_places_hold_for() -> None:
    [table] = tables(*nights())
    assert "holds for one board that was fixed beforehand, not for the best of many nights" in table.note
    assert "equal attempts at a task" in table.note


def test_a_named_metric_says_that_it_is_not_ranked_and_not_pooled() -> None:
    [table] = tables(*nights(), metric="metrics/reward")
    assert NOT_RANKED["metric"] in table.note
    assert "newest finished run" in table.note
    assert "place" not in table.heads


def test_a_limit_keeps_the_best() -> None:
    [table] = tables(*nights(), limit=1)
    assert [row["agent:model"] for row in cells(table)] == ["a:m"]


def test_runs_are_counted_beside_the_newest_and_versions_are_named() -> None:
    several = [a_night(f"n{n}", n, {"a": "+" * 6}, benchmark_version=str(n % 2)) for n in range(1, 6)]
    [table] = tables(*several)
    [row] = cells(table)
    assert (row["runs"], row["newest run"]) == ("5", "n5")
    assert "Versions of the benchmark are pooled: 0, 1." in table.note
    assert table.title.startswith("tb: ")


def test_hostile_names_are_visible_and_an_empty_document_says_so() -> None:
    [table] = tables(a_night("n\u202e", 1, {"evil\u2066": "+" * 6}))
    assert not any("\u202e" in cell or "\u2066" in cell for row in table.rows for cell in row)
    document = leaderboard_document([], ["tb"])
    assert (document.lines, document.tables) == (["No agent is on this board."], [])
