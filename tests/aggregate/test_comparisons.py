"""The comparison as it is published: when there is one, what limits it, when it is taken."""

from __future__ import annotations

import pytest

from streamer.folding import pairs
from streamer.folding.fold import Pipeline
from tests.aggregate.compared import (
    PLAN,
    compared,
    tasks_of,
    the_comparison,
    trial,
)
from tests.support.events import a_plan, records


def test_baselines_and_single_agents_are_not_compared() -> None:
    one = [PLAN, trial("a", "t1", passed=True), trial("nop", "t1", passed=False)]
    assert compared(one) is None
    assert tasks_of(one) == {"t1": {"a:m": [1, 1, 0]}}
    with_planned = [a_plan(agent_models=["a:m", "b:m"], revision=7), *one]
    assert [agent["agent"] for agent in the_comparison(with_planned)["agents"]] == ["a", "b"]


def test_beyond_sixty_agents_and_too_many_trials_there_is_none_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [trial(f"a{number:02}", "t1", passed=True) for number in range(61)]
    found = the_comparison([PLAN, *many])
    assert (found["missing"], found["rank_missing"]) == ("too_many_agents",) * 2
    assert (found["pairs"], len(found["agents"]), found["agents_total"]) == ([], 60, 61)
    assert tasks_of([PLAN, *many]) == {}
    assert len(the_comparison([PLAN, *many[1:]])["pairs"]) == 60 * 59 // 2
    monkeypatch.setattr(pairs, "MOST_CELLS", 59)
    assert the_comparison([PLAN, *many[1:]])["missing"] == "too_many_trials"
    monkeypatch.setattr(pairs, "MOST_RANKED_TASKS", 11)
    assert the_comparison([PLAN, *many[:2]])["rank_missing"] == "too_many_trials"


def test_a_comparison_that_waits_is_taken_later_and_only_if_it_differs() -> None:
    pipeline = Pipeline()
    events = [PLAN, trial("a", "t1", passed=True), trial("b", "t1", passed=False)]
    for record in records(events):
        pipeline.fold([record])
        update = pipeline.run("run-1").take_changes(comparison=False)
        assert update.tasks is None
        assert all(change.kind != "comparison" for change in update.summaries)
    run = pipeline.run("run-1")
    assert run.comparison_waits
    update = run.take_changes()
    assert [change.kind for change in update.summaries] == ["comparison"]
    assert update.tasks == run.comparisons.tasks_taken
    assert not run.comparison_waits
    assert (run.take_changes().summaries, run.take_changes().tasks) == ([], None)
