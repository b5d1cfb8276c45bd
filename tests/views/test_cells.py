"""The cells of trials: each outcome has its word, and what is unknown is a dash."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.text import UNSEEN
from streamer.views.boards import TRIALS
from streamer.views.cells import known, text
from streamer.views.models import TrialRow
from tests.support.builders import a_row


def cells(*rows: TrialRow) -> list[dict[str, str]]:
    columns = known(TRIALS.columns, rows)
    return [{column.name: text(column, row) for column in columns} for row in rows]


@pytest.mark.parametrize(
    ("outcome", "word"), [("passed", "passed"), ("fell_back", "fell back"), ("no_verdict", "no verdict")]
)
def test_each_outcome_has_its_word(outcome: Any, word: str) -> None:
    assert cells(a_row(outcome=outcome))[0]["outcome"] == word


@pytest.mark.parametrize("mode", [None, "none", "unset"])
def test_a_failure_mode_that_says_none_is_a_dash(mode: str | None) -> None:
    assert "failure" not in cells(a_row(failure_mode=mode))[0]
    assert cells(a_row(failure_mode=mode), a_row(failure_mode="x"))[0]["failure"] == UNSEEN
    assert cells(a_row(failure_mode="agent_timeout"))[0]["failure"] == "agent_timeout"


def test_tier_and_shard_stand_before_what_lies_in_them() -> None:
    [row] = cells(a_row(tier="T1", subtest="02", shard="night", task_id="t"))
    assert (row["tier"], row["task"]) == ("T1/02", "night: t")
    assert "tier" not in cells(a_row(subtest="02"))[0]
