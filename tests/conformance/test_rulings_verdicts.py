"""R7, R27: spellings of baselines, and verdicts that follow from tests and snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.ruling_examples import AGENT, ORACLE, Json, scored, summary, the_agent, the_oracle
from tests.support.events import a_trial, summarised
from tests.support.formulacode_trials import a_suite, published

# R7


@pytest.mark.parametrize("model", ["Oracle", "ORACLE", "oracle"])
def test_r7_a_baseline_has_one_spelling(model: str) -> None:
    found = summarised([the_oracle(model=model), the_agent()])
    assert found[f"agent_model run-1|{ORACLE}"]["baseline"] is True


def test_r7_an_oracle_with_a_model_stays_what_it_says() -> None:
    held = summarised([the_oracle(model="openai/gpt-5"), the_agent()]).values()
    found = {s["agent_model"] for s in held if s["type"] == "agent_model_summary"}
    assert found == {"oracle:openai/gpt-5", AGENT}


def test_r7_two_spellings_of_the_oracle_are_one_slot() -> None:
    events = [the_oracle(model="Oracle"), the_oracle(model="oracle", revision=1), the_agent()]
    assert summary(*events, key=f"agent_model run-1|{ORACLE}")["trials"] == 1


# R27


def derived(**fields: Any) -> Json:
    """The scored trial of an event without a verdict."""
    return scored(a_trial(**{"resolved": None} | fields))


def test_r27_without_verdict_and_failure_mode_the_sections_decide() -> None:
    passed = derived(tests=a_suite(0), snapshot={"status": "passed"})
    failed = derived(tests=a_suite(1), snapshot={"status": "passed"})
    assert (passed["resolved"], passed["success"], passed["verdict_source"]) == (True, True, "derived")
    assert (failed["resolved"], failed["success"], failed["verdict_source"]) == (False, False, "derived")


def test_r27_unset_is_no_failure_mode() -> None:
    """G6: fc-eval writes it where nothing failed."""
    held = derived(tests=a_suite(0), failure_mode="unset")
    assert (held["resolved"], held["verdict_source"]) == (True, "derived")


def test_r27_with_a_failure_mode_there_is_no_verdict() -> None:
    held = derived(tests=a_suite(0), failure_mode="agent_timeout")
    assert (held["resolved"], held["verdict_source"]) == (None, None)
    assert summary(a_trial(resolved=None, tests=a_suite(0), failure_mode="x"))["no_verdict"] == 1


def test_r27_without_sections_there_is_no_verdict() -> None:
    assert (derived()["resolved"], derived()["verdict_source"]) == (None, None)


def test_r27_what_a_harness_says_stands() -> None:
    held = scored(a_trial(resolved=False, tests=a_suite(0)))
    assert (held["resolved"], held["success"], held["verdict_source"]) == (False, True, "reported")


def test_r27_a_derived_verdict_enters_accuracy() -> None:
    held = summary(a_trial(resolved=None, tests=a_suite(0)), a_trial(task_id="t2", resolved=False))
    assert (held["accuracy"], held["no_verdict"], held["resolved"]) == (0.5, 0, 1)


def test_r27_a_derived_verdict_follows_an_oracle_that_comes_late() -> None:
    """R9: two failures are as many as the oracle has."""
    stream = published(a_trial(agent_index=3, resolved=None, tests=a_suite(2)))
    (before,) = stream.scored.values()
    assert before["resolved"] is False
    stream.fold(the_oracle(tests=a_suite(2)))
    (after,) = [s for s in stream.scored.values() if s["agent"] == "terminus"]
    assert (after["resolved"], after["verdict_source"]) == (True, "derived")
    assert stream.summaries[f"agent_model run-1|{AGENT}"]["accuracy"] == 1.0
