"""R11, R13, R19, R21 by hand: what random runs do not reach. The worked examples of docs/semantics.md.

The same rulings against a plain reimplementation on random runs: test_formulacode_runs.py and
test_compatibility.py.
"""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from tests.conformance.ruling_examples import (
    AGENT,
    FINISHED,
    OF_AGENT,
    ORACLE,
    RUN,
    TIMEOUT,
    Json,
    numbers,
    passes,
    summary,
    the_agent,
    the_oracle,
)
from tests.house.citations import SEMANTICS
from tests.support.events import Event, a_plan, a_retraction, a_trial, summarised
from tests.support.formulacode_trials import a_suite, published

# R13: grades


JUDGED = a_trial(task_id="judged", score=0.5)


@pytest.mark.parametrize(
    ("events", "grade"),
    [
        ([*passes(3, 3), JUDGED], ("C", "composite_median", True)),
        ([*passes(3, 3), JUDGED, FINISHED], ("C", "composite_median", False)),
        ([a_plan(judged=True), *passes(3, 3)], (None, "composite_median", True)),
        ([a_plan(judged=True), *passes(3, 3), JUDGED], ("C", "composite_median", True)),
        ([a_plan(judged=False), *passes(3, 3), JUDGED], ("A", "mean_pass_rate", False)),
        ([a_plan(), *passes(3, 3)], ("A", "mean_pass_rate", False)),
        ([a_plan(judged=None), *passes(3, 3), JUDGED], ("C", "composite_median", True)),
        ([a_plan(grading_profile="scylla-2026"), *passes(65, 100)], ("B", "mean_pass_rate", False)),
    ],
    ids=["partly", "ended", "declared", "declared, partly", "denied", "no word", "no word, partly", "later"],
)
def test_r13_a_judge_is_waited_for_once_one_is_declared_or_seen_until_the_end(
    events: list[Event], grade: tuple[Any, ...]
) -> None:
    for stream in (events, events[::-1]):
        stored = summary(*stream)
        assert (stored["grade"], stored["grade_basis"], stored["grade_provisional"]) == grade


def test_r13_a_grade_change_names_the_number_and_its_basis() -> None:
    stream = published(a_trial(resolved=False))
    stream.fold(a_trial(resolved=True, revision=1))
    (change,) = [item for item in stream.changes if item["type"] == "grade_change"]
    expected = {"from_grade": "F", "to_grade": "A", "grade_score": 1.0, "grade_provisional": False}
    assert change.items() >= (expected | {"grade_basis": "mean_pass_rate"}).items()
    assert "median_composite" not in change


# R11: pass@k


def test_r11_a_second_agent_takes_pass_at_k_away_and_its_retraction_gives_it_back() -> None:
    stream = published(a_trial(), a_trial(agent="other"))
    assert stream.summaries[RUN]["pass_at_k"] is None
    stream.fold(a_retraction(agent="other"))
    assert stream.summaries[RUN]["pass_at_k"]["1"]["value"] == 1.0


# R19: accuracy without infrastructure failures

OUTAGE = a_trial(task_id="outage", resolved=None, failure_mode="no_such_host")


@pytest.mark.parametrize(
    ("modes", "events", "accuracies"),
    [
        (["no_such_host"], [*passes(1, 2), OUTAGE], (1 / 3, 0.5, 1)),
        ([], [*passes(1, 2), OUTAGE], (1 / 3, 1 / 3, 0)),
        (["no_such_host"], [OUTAGE], (0.0, None, 1)),
        (None, [a_trial(resolved=None, failure_mode="agent_timeout")], (0.0, 0.0, 0)),
    ],
    ids=["one of three", "none is named", "nothing else", "a timeout of the agent"],
)
def test_r19_infrastructure_failures_count_as_failures_and_a_second_number_leaves_them_out(
    modes: list[str] | None, events: list[Event], accuracies: tuple[Any, ...]
) -> None:
    names = ("accuracy", "accuracy_excluding_infrastructure", "infrastructure_failures")
    for key in (f"agent_model run-1|{AGENT}", RUN):
        stored = summary(a_plan(infrastructure_failures=modes), *events, key=key)
        assert tuple(stored[name] for name in names) == accuracies


# R21: what failed changed nothing, and what is missing once the run has finished failed


PLAN = a_plan(agent_models=[ORACLE, AGENT])
WITHOUT_THE_AGENT = [PLAN, the_oracle(task_id="t1"), the_agent(task_id="t1"), the_oracle(task_id="t2")]
SECTION = a_trial(tests=a_suite(0), benchmarks=OF_AGENT)


def test_r21_the_section_may_come_after_the_crash_and_go_again() -> None:
    """A run's first section of FormulaCode gives numbers to an agent that only crashed."""
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    stream = published(alone, SECTION)
    assert stream.summaries == published(SECTION, alone).summaries
    stored = stream.summaries["agent_model run-1|crasher:gpt-5"]["formulacode"]
    assert (stored["mean_success_rate"], stored["mean_speedup"], stored["agent_advantage"]) == (
        0.0,
        1.0,
        None,
    )
    stream.fold(a_retraction())
    assert stream.summaries["agent_model run-1|crasher:gpt-5"]["formulacode"] is None


def test_r21_what_is_missing_counts_in_formulacodes_numbers_alone_and_re_scores_nothing() -> None:
    stream = published(*WITHOUT_THE_AGENT)
    scored, running = dict(stream.scored), stream.summaries[f"agent_model run-1|{AGENT}"]
    stream.fold(FINISHED)
    assert (stream.scored, stream.rescorings()) == (scored, [])
    finished = stream.summaries[f"agent_model run-1|{AGENT}"]
    assert (running["formulacode"]["missing"], finished["formulacode"]["missing"]) == (0, 1)
    for name in ("trials", "accuracy", "resolved", "unresolved", "failure_modes", "pass_at_k", "total_cost"):
        assert finished[name] == running[name], name


def test_r21_an_agent_is_missing_only_where_a_trial_has_several_agents() -> None:
    """Trials of their own are of one agent each (R10)."""
    alone = SECTION | {"agent": "other", "task_id": "t2"}
    assert numbers(PLAN, SECTION, alone, FINISHED)["missing"] == 0


# docs/semantics.md: its worked examples are what the code computes.


def test_the_worked_examples_are_what_the_code_computes() -> None:
    def scored(event: Event) -> Json:
        (stored,) = published(event).scored.values()
        return stored

    names = {
        "trial": a_trial,
        "plan": a_plan,
        "scored": scored,
        "agent": summary,
        "tier": lambda name, *events: summarised(events)[f"tier run-1|{name}"],
        "run": lambda *events: summarised(events)[RUN],
    }
    done = doctest.testfile(str(SEMANTICS), module_relative=False, globs=names, encoding="utf-8")
    assert done.attempted >= 35
    assert done.failed == 0
