"""What moved a number, for people: safe text, numbers that show what one trial moves, JSON without NaN."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from streamer.folding.slots import SlotKey
from streamer.schemas.base import canonical_json
from streamer.views.why import (
    CAUSES,
    Cause,
    MetricMoves,
    Move,
    Total,
    Why,
    metric_of,
    moves_table,
    totals_lines,
)

HOSTILE = "\x1b[31m\u202e|<b>"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_move(**fields: Any) -> Move:
    given: dict[str, Any] = {"offset": 7, "at": AT, "agent_model": "a:m", "cause": "result"}
    trial = SlotKey("", "t", 1, "a", "m", None, None)
    return Move(**given | {"trial": trial, "before": 0.5, "after": 0.5001} | fields)


def moves_of(*moves: Move, metric: str = "pass_rate", totals: tuple[Total, ...] = ()) -> MetricMoves:
    return MetricMoves.of(Why("r", metric_of(metric), 9, 0, list(totals), list(moves)))


def row_of(move: Move, metric: str = "pass_rate") -> dict[str, str]:
    table = moves_table(moves_of(move, metric=metric))
    [row] = table.rows
    return dict(zip(table.heads, row, strict=True))


@pytest.mark.parametrize(
    ("metric", "before", "after", "change"),
    [
        ("pass_rate", "50.00 %", "50.01 %", "+0.01 points"),
        ("mean_cost", "$0.5000", "$0.5001", "+0.0001 USD"),
        ("mean_duration", "0.5 s", "0.5 s", "+0.0001 s"),
        ("composite_score", "0.5", "0.5001", "+0.0001"),
        ("metrics/reward", "0.5", "0.5001", "+0.0001"),
    ],
)
def test_changes_have_their_unit_and_three_digits(metric: str, before: str, after: str, change: str) -> None:
    row = row_of(a_move(), metric)
    assert (row["before"], row["after"], row["change"]) == (before, after, change)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_words(cause: Cause) -> None:
    said = "rescored by a:m" if cause == "rescoring" else CAUSES[cause]
    assert row_of(a_move(cause=cause))["what"] == said


def test_a_move_says_its_time_and_its_trial_as_far_as_there_are_any() -> None:
    whole = row_of(a_move(trial=SlotKey("s", "t", 2, "a", "m", "T1", "03")))
    assert (whole["trial"], whole["time, UTC"]) == ("s: t, attempt 2, T1/03", "2026-01-02 03:04:05")
    bare = row_of(a_move(trial=None, at=None, cause="plan"))
    assert (bare["trial"], "time, UTC" in bare) == ("–", False)


def test_names_are_safe_to_print() -> None:
    trial = SlotKey(HOSTILE, HOSTILE, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    move = a_move(agent_model=HOSTILE, trial=trial, cause="rescoring")
    shown = [*row_of(move).values(), *totals_lines(moves_of(totals=(Total(HOSTILE, 0.1, 0.2, 1, 1, 0),)))]
    assert "\x1b" not in "".join(shown)
    assert "\u202e" not in "".join(shown)


def test_the_sums_say_where_a_number_came_from_and_where_it_stayed() -> None:
    totals = (Total("a:m", None, 0.5, 3, 1, 1), Total("b:m", 0.25, 0.5, 1, 1, 0), Total("c:m", 0.5, 0.5))
    assert totals_lines(moves_of(totals=(*totals, Total("d:m", None, None)))) == [
        "pass_rate of a:m moved from unknown to 50.00 % by 3 events: 1 up, 1 down",
        "pass_rate of b:m moved from 25.00 % to 50.00 % (+25.00 points) by 1 event: 1 up, 0 down",
        "pass_rate of c:m stayed at 50.00 %",
        "pass_rate of d:m is unknown; --metric names another number",
    ]


def test_json_writes_infinite_numbers_as_text_and_has_no_difference_of_them() -> None:
    inf = float("inf")
    moves = moves_of(a_move(before=inf, after=2.0), a_move(before=2.0, after=inf), a_move(before=None))
    again = orjson.loads(canonical_json(moves.model_dump(mode="json")))
    assert [(move["before"], move["after"], move["delta"]) for move in again["moves"]] == [
        ("Infinity", 2.0, None),
        (2.0, "Infinity", None),
        (None, 0.5001, None),
    ]
    assert MetricMoves.model_validate(again) == moves
