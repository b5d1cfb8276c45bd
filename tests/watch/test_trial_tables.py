"""The columns of the newest trials: each outcome has its word, and what is unknown is a dash."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.text import UNSEEN
from streamer.views.models import TrialRow
from streamer.watch.trial_tables import trial_columns
from tests.support.builders import a_row


def cells(*rows: TrialRow) -> list[dict[str, str]]:
    return [{column.key: column.text(row) for column in trial_columns(rows, "trials")} for row in rows]


@pytest.mark.parametrize(
    ("outcome", "word"), [("passed", "passed"), ("fell_back", "fell back"), ("no_verdict", "no verdict")]
)
def test_each_outcome_has_its_word(outcome: Any, word: str) -> None:
    assert cells(a_row(outcome=outcome))[0]["outcome"] == word


def test_the_number_of_the_attempt_is_shown_only_where_there_are_several() -> None:
    assert "attempt" not in cells(a_row())[0]
    assert [row["attempt"] for row in cells(a_row(), a_row(attempt=2))] == ["1", "2"]


@pytest.mark.parametrize("mode", [None, "none", "unset"])
def test_a_failure_mode_that_says_none_is_a_dash(mode: str | None) -> None:
    assert cells(a_row(failure_mode=mode))[0]["failure"] == UNSEEN
    assert cells(a_row(failure_mode="agent_timeout"))[0]["failure"] == "agent_timeout"


def test_tier_and_shard_stand_before_what_lies_in_them() -> None:
    [row] = cells(a_row(tier="T1", subtest="02", shard="night", task_id="t"))
    assert (row["tier"], row["task"]) == ("T1/02", "night: t")
    assert cells(a_row(subtest="02"))[0]["tier"] == UNSEEN
