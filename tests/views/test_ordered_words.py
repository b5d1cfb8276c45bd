"""Two runs while one goes on: pairs in the order of the later one tell its final difference."""

from __future__ import annotations

from typing import Any

from streamer.folding.state import RunState
from streamer.views.compare import compare
from streamer.views.gate import ordered_words, with_order
from streamer.views.models import Comparison
from tests.support.events import a_plan, a_trial, folded

TASKS = [f"t{number:02}" for number in range(20)]


def a_run(run_id: str, letters: str, **plan: Any) -> RunState:
    """A shuffled run of one agent: `+` passed, `-` did not; what has no letter is not in."""
    started = f"2026-01-0{1 if run_id == 'base' else 2}T00:00:00Z"
    planned = {"tasks": TASKS, "attempts": 1, "order": TASKS, "order_kind": "shuffled", "started_at": started}
    events = [a_plan(run_id=run_id, **planned | plan)]
    events += [
        a_trial(run_id=run_id, task_id=task, agent=run_id, model="m", resolved=letter == "+")
        for task, letter in zip(TASKS, letters, strict=False)
    ]
    return folded(events)[0].run(run_id).state


def words(letters: str, base: str = "+" * 20, **plan: Any) -> list[str]:
    return ordered_words(a_run("new", letters, **plan), a_run("base", base), None, None)


def test_a_running_run_that_falls_behind_is_told_with_its_interval() -> None:
    [said] = words("-" * 12)
    assert said.startswith("base:m of base ahead of new:m of new in the final pass rate: [")
    assert said.endswith("] points in the end; 95 %, however often you look")


def test_while_nothing_separates_them_the_interval_holds_zero() -> None:
    [said] = words("+-+-", base="+-" * 10)
    assert said.startswith("new:m of new minus base:m of base: [-")


def test_an_order_that_nobody_declared_shuffled_claims_nothing_but_bounds() -> None:
    first, second = words("-" * 15, order_kind=None)
    assert first == "base:m of base can no longer be overtaken by new:m of new, unless results are corrected"
    assert second.endswith("if the order has nothing to do with difficulty")


def test_at_the_end_and_of_several_agents_there_is_nothing_to_add() -> None:
    assert words("+-" * 10) == []
    run = a_run("new", "-" * 12)
    assert ordered_words(run, run, None, None) == []
    several = [a_plan(run_id="two"), *(a_trial(run_id="two", agent=agent) for agent in ("x", "y"))]
    assert ordered_words(folded(several)[0].run("two").state, a_run("base", "+"), None, None) == []


def compared(a: str = "base", b: str = "new", *, ended: bool = False) -> Comparison:
    found = compare([], [], ((a, None), (b, None)), 0, 0, ended=ended)
    return found.model_copy(update={"words": ["what stood before"]})


def test_a_comparison_of_two_runs_begins_with_what_their_order_says() -> None:
    base, new = a_run("base", "+" * 20), a_run("new", "-" * 12)
    first, second = with_order(compared(), base, new).words
    assert (first, second) == (ordered_words(base, new, None, None)[0], "what stood before")


def test_nothing_is_added_at_the_end_within_a_run_and_where_a_log_is_not_at_hand() -> None:
    base, new = a_run("base", "+" * 20), a_run("new", "-" * 12)
    for found, a, b in (
        (compared(ended=True), base, new),
        (compared(b="base"), base, base),
        (compared(), base, None),
        (compared(), None, new),
    ):
        assert with_order(found, a, b) is found
