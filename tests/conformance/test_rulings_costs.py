"""R11, R13, R19, R21: grades, pass@k, accuracies, failed agents, by hand, through the whole pipeline.

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
    RUN,
    TIMEOUT,
    a_timeout,
    numbers,
    passes,
    summary,
    the_agent,
    the_nop,
    the_oracle,
)
from tests.house.citations import SEMANTICS
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_trials import a_suite, published


def grading(*events: Event, key: str = f"agent_model run-1|{AGENT}") -> tuple[Any, ...]:
    stored = summary(*events, key=key)
    return stored["grade"], stored["grade_basis"], stored["grade_provisional"]


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
    assert grading(*events) == grade
    assert grading(*reversed(events)) == grade


def test_r13_a_grade_change_names_the_number_and_its_basis() -> None:
    stream = published(a_trial(resolved=False))
    stream.fold(a_trial(resolved=True, revision=1))
    (changes,) = [item for item in stream.changes if item["type"] == "grade_change"]
    assert (changes["from_grade"], changes["to_grade"]) == ("F", "A")
    assert (changes["grade_score"], changes["grade_basis"]) == (1.0, "mean_pass_rate")
    assert changes["grade_provisional"] is False
    assert "median_composite" not in changes


# -----------------------------------------------------------------------------
# R11, R19: pass@k and the two accuracies, example by example, through the whole pipeline.


# R11: pass@k


@pytest.mark.parametrize(
    ("trials", "mixed", "alone"),
    [
        ([a_trial(agent=f"agent-{n}") for n in range(256)], [RUN], "agent_model run-1|agent-0:gpt-5"),
        (
            [a_trial(tier="T0"), a_trial(tier="T1", resolved=False)],
            [RUN, f"agent_model run-1|{AGENT}"],
            f"tier run-1|T0|{AGENT}",
        ),
        ([a_trial(tier="T0"), a_trial(tier="T0", agent="b")], ["tier run-1|T0"], f"tier run-1|T0|{AGENT}"),
    ],
    ids=["agents", "tiers", "agents of one tier"],
)
def test_r11_no_pass_at_k_over_a_mixture(trials: list[Event], mixed: list[str], alone: str) -> None:
    """256 agents with one attempt each are no 256 attempts: "pass@256 100 %" is gone."""
    result = summarised(trials)
    assert [result[key]["pass_at_k"] for key in mixed] == [None] * len(mixed)
    assert {k: stored["value"] for k, stored in result[alone]["pass_at_k"].items()} == {"1": 1.0}


def test_r11_a_second_agent_takes_pass_at_k_away_and_its_retraction_gives_it_back() -> None:
    stream = published(a_trial(), a_trial(agent="other"))
    assert stream.summaries[RUN]["pass_at_k"] is None
    missing = {"type": "trial_retracted", "run_id": "run-1", "task_id": "task-1", "model": "gpt-5"}
    stream.fold(missing | {"agent": "other", "revision": 0})
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


# -----------------------------------------------------------------------------
# R21, R22, R25: speedups and advantages, example by example, through the whole pipeline.


ONE_SUCCESS_ONE_TIMEOUT = [
    the_oracle(task_id="t1"),
    the_agent(task_id="t1"),
    the_oracle(task_id="t2"),
    a_timeout(task_id="t2"),
]


# R21: what failed changed nothing


def test_r21_a_crash_never_raises_an_average() -> None:
    """1.2 beside an oracle of 1.5, then a timeout: (1.2 + 1) / 2, and ((1.2 - 1.5) + (1 - 1.5)) / 2."""
    stored = numbers(*ONE_SUCCESS_ONE_TIMEOUT)
    assert stored["mean_speedup"] == pytest.approx(1.1)
    assert stored["agent_advantage"] == pytest.approx(-0.4)
    assert [stored[f"agent_advantage_level{n}"] for n in (1, 2, 3, 4)] == [pytest.approx(-0.4)] * 4
    assert stored["mean_success_rate"] == 0.5
    assert (stored["coverage"]["task_speedup"], stored["coverage"]["agent_advantage"]) == (2, 2)


def test_r21_an_agent_that_only_crashed_has_numbers_if_any_trial_of_the_run_has_a_section() -> None:
    """Its own trials are of other tasks, and nobody knows their benchmarks."""
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    stored = numbers(a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone, agent_model="crasher:gpt-5")
    assert (stored["mean_success_rate"], stored["mean_speedup"]) == (0.0, 1.0)
    assert stored["agent_advantage"] is None
    assert (stored["coverage"]["task_speedup"], stored["coverage"]["agent_advantage"]) == (1, 0)


def test_r21_the_section_may_come_after_the_crash_and_go_again() -> None:
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    section = a_trial(tests=a_suite(0), benchmarks=OF_AGENT)
    late, early = published(alone, section), published(section, alone)
    assert late.summaries == early.summaries
    retraction = {"type": "trial_retracted", "run_id": "run-1", "task_id": "task-1", "revision": 0}
    missing = published(section, alone, retraction | {"agent": "terminus", "model": "gpt-5"})
    assert missing.summaries["agent_model run-1|crasher:gpt-5"]["formulacode"] is None


def test_r21_a_run_without_any_section_has_no_formulacode_numbers() -> None:
    assert summary(a_trial(**TIMEOUT))["formulacode"] is None


def test_r21_a_timeout_is_re_scored_by_an_oracle_that_comes_late() -> None:
    stream = published(the_nop(benchmarks={"m.f": {"agent/nop": 1.0}}), a_timeout())
    before = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
    assert (before["mean_speedup"], before["agent_advantage"]) == (1.0, None)
    stream.fold(the_oracle())
    (changes,) = [item for item in stream.rescorings() if item["trial"]["agent"] == "terminus"]
    assert changes["because"]["agent"] == "oracle"
    after = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
    assert (after["mean_speedup"], after["agent_advantage"]) == (1.0, pytest.approx(-0.5))


# -----------------------------------------------------------------------------
# docs/semantics.md: its worked examples are what the code computes.


JsonOfSemanticsPage = dict[str, Any]


def scored_of_semantics_page(event: Event) -> JsonOfSemanticsPage:
    """The scored trial that is published of one event."""
    (stored,) = published(event).scored.values()
    return stored


def agent(*events: Event) -> JsonOfSemanticsPage:
    """The summary of the agent:model that `trial()` belongs to."""
    return summarised(events)[f"agent_model run-1|{AGENT}"]


def tier(name: str, *events: Event) -> JsonOfSemanticsPage:
    """The pooled summary of a tier."""
    return summarised(events)[f"tier run-1|{name}"]


def run(*events: Event) -> JsonOfSemanticsPage:
    """The summary of the run."""
    return summarised(events)[RUN]


def test_the_worked_examples_are_what_the_code_computes() -> None:
    names = {
        "trial": a_trial,
        "plan": a_plan,
        "scored": scored_of_semantics_page,
        "agent": agent,
        "tier": tier,
        "run": run,
    }
    done = doctest.testfile(str(SEMANTICS), module_relative=False, globs=names, encoding="utf-8")
    assert done.attempted >= 35
    assert done.failed == 0
