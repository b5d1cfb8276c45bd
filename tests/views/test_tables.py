"""What the tables for people show where there is no judge, no pass@k, or a failure of the infrastructure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from streamer.views.tables import (
    EVENT_TIME,
    about,
    agents_table,
    head_lines,
    runs_table,
    subtests_table,
    tiers_tables,
    trials_table,
)
from tests.report.reporting import folded
from tests.support.builders import a_run_change, a_tier_change, an_agent_model_change
from tests.support.events import a_trial

NOW = datetime(2027, 1, 1, tzinfo=UTC)
BEFORE = datetime(2025, 1, 1, tzinfo=UTC)

UNJUDGED: dict[str, Any] = {"grade": "D", "grade_basis": "mean_pass_rate", "grade_score": 0.65}
JUDGED: dict[str, Any] = {"grade": "C", "grade_basis": "composite_median", "grade_score": 0.8}
FAILED = {"accuracy": 0.412, "accuracy_excluding_infrastructure": 0.43, "infrastructure_failures": 3}


def an_agent(name: str, rate: float | None, composite: float | None = None, **fields: Any) -> dict[str, Any]:
    means = {"pass_rate": rate, "composite_score": composite}
    return an_agent_model_change("r", name, "m", means=means, **fields).summary or {}


def a_run(**fields: Any) -> dict[str, Any]:
    return a_run_change("r", **fields).summary or {}


def test_agents_are_sorted_by_pass_rate_whatever_their_composite_baselines_last() -> None:
    agents = [
        an_agent("nop", 1.0, baseline=True),
        an_agent("unknown", None),
        an_agent("low", 0.2, 0.9),
        an_agent("high", 0.8, 0.1),
        an_agent("unjudged", 0.5),
    ]
    names = [row[0] for row in agents_table(agents).rows]
    assert names == ["high:m", "unjudged:m", "low:m", "unknown:m", "nop:m (baseline)"]


def test_without_a_judge_there_is_no_composite_and_the_grade_rests_on_the_pass_rate() -> None:
    table = agents_table([an_agent("a", 0.65, **UNJUDGED)])
    row = dict(zip(table.heads, table.rows[0], strict=True))
    assert "composite" not in row
    assert (row["pass rate"], row["grade"], row["rests on"]) == ("65.0 %", "D", "pass rate")


def test_with_a_judge_the_composite_stands_where_there_is_one() -> None:
    waiting = JUDGED | {"grade_provisional": True}
    table = agents_table([an_agent("a", 0.9, 0.8, **waiting), an_agent("b", 0.5, **UNJUDGED)])
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    assert [row["composite"] for row in rows] == ["0.8", "–"]
    assert [(row["grade"], row["rests on"]) for row in rows] == [
        ("C (judge awaited)", "composite"),
        ("D", "pass rate"),
    ]


def test_the_accuracy_without_infrastructure_failures_stands_beside_where_there_were_some() -> None:
    assert "w/o infra" not in agents_table([an_agent("a", 0.5)]).heads
    table = agents_table([an_agent("a", 0.5, **FAILED)])
    row = dict(zip(table.heads, table.rows[0], strict=True))
    assert (row["accuracy"], row["w/o infra"]) == ("41.2 %", "43.0 % (3)")
    [line, _] = head_lines(a_run(**FAILED), NOW)
    assert "accuracy 41.2 % (43.0 % without 3 infrastructure failures)" in line


def test_pass_at_k_that_is_null_is_left_out_with_a_reason_below() -> None:
    for table in (
        tiers_tables([a_tier_change("r", pass_at_k=None).summary or {}])[0],
        subtests_table([(a_tier_change("r", pass_at_k=None).summary or {}) | {"subtest": "01"}]),
    ):
        assert "pass@k" not in table.heads
        assert table.note.startswith("No pass@k: the trials mix agents or tiers")
    assert agents_table([an_agent("a", 0.5)]).note == ""


def test_the_accuracy_of_several_agents_is_called_all_trials_and_their_pass_at_k_is_their_own() -> None:
    [line, _] = head_lines(a_run(agent_models=2, pass_at_k=None), NOW)
    assert "all trials 100.0 %" in line
    assert "pass@k by agent only" in line
    [line, _] = head_lines(a_run(agent_models=1), NOW)
    assert "accuracy 100.0 %" in line
    assert "pass@k 1: 100.0 %" in line


def test_a_last_event_ahead_of_the_clock_is_said_to_be_simulated_or_replayed() -> None:
    run = a_run()
    assert head_lines(run, BEFORE)[-1] == EVENT_TIME
    assert EVENT_TIME not in head_lines(run, NOW)
    assert runs_table([run, a_run() | {"run_id": "s"}], BEFORE).note == f"{EVENT_TIME} (r, s)"
    assert runs_table([run] * 1_000, BEFORE).note == f"{EVENT_TIME} (r, r, r and 997 more)"
    assert runs_table([run], NOW).note == ""


def test_a_derived_verdict_says_so_and_trials_without_a_judge_have_no_score() -> None:
    trials = folded([a_trial(), a_trial(task_id="t2", resolved=None)]).trials or []
    derived = [trial | {"resolved": True, "verdict_source": "derived"} for trial in trials[:1]]
    table = trials_table([*derived, *trials])
    at = table.heads.index("resolved")
    assert table.rows[0][at] == "yes (derived)"
    assert not {"composite", "grade"} & set(table.heads)
    judged = folded([a_trial(score=0.5)]).trials or []
    assert {"composite", "grade"} <= set(trials_table(judged).heads)


@pytest.mark.parametrize(
    ("status", "words"), [(None, "running"), ("finished", "finished"), ("aborted", "finished (aborted)")]
)
def test_a_run_is_introduced_with_its_state(status: str | None, words: str) -> None:
    run = a_run(status=status, benchmark="bench")
    assert about(run, "running" if status is None else "finished") == ["bench", words]
