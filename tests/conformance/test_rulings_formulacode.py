"""The rulings on FormulaCode's numbers, example by example, through the whole pipeline."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from schemas.canonical import canonical_json
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_trials import a_suite, published

Json = dict[str, Any]
AGENT, ORACLE, NOP = "terminus:gpt-5", "oracle:oracle", "nop:nop"
FINISHED = {"type": "run_finished", "run_id": "run-1"}
TIMEOUT: Json = {"resolved": None, "failure_mode": "agent_timeout"}
OF_ORACLE = {"m.f": {"agent/nop": 1.5, "oracle/nop": 1.5}}
OF_AGENT = {"m.f": {"agent/nop": 1.2, "oracle/nop": 1.5}}
UNKNOWN_ORACLE = {"m.f": {"agent/nop": 1.2, "oracle/nop": None}}


def the_nop(**fields: Any) -> Event:
    return a_trial(**{"agent": "nop", "model": "nop", "agent_index": 1, "tests": a_suite(0)} | fields)


def the_oracle(**fields: Any) -> Event:
    known = {"agent": "oracle", "model": "oracle", "agent_index": 2, "tests": a_suite(0)}
    return a_trial(**known | {"benchmarks": OF_ORACLE} | fields)


def the_agent(**fields: Any) -> Event:
    return a_trial(**{"agent_index": 3, "tests": a_suite(0), "benchmarks": OF_AGENT} | fields)


def a_timeout(**fields: Any) -> Event:
    """A sub-trial of the agent that ended without any section."""
    return a_trial(**{"agent_index": 3} | TIMEOUT | fields)


def summary(events: list[Event], agent_model: str = AGENT) -> Json:
    held: Json = summarised(events)[f"agent_model run-1|{agent_model}"]
    return held


def numbers(events: list[Event], agent_model: str = AGENT) -> Json:
    """The FormulaCode numbers of an agent:model."""
    held: Json = summary(events, agent_model)["formulacode"]
    return held


ONE_SUCCESS_ONE_TIMEOUT = [
    the_oracle(task_id="t1"),
    the_agent(task_id="t1"),
    the_oracle(task_id="t2"),
    a_timeout(task_id="t2"),
]


# R21: what failed changed nothing


def test_r21_a_crash_never_raises_an_average() -> None:
    """1.2 beside an oracle of 1.5, then a timeout: (1.2 + 1) / 2, and ((1.2 - 1.5) + (1 - 1.5)) / 2."""
    held = numbers(ONE_SUCCESS_ONE_TIMEOUT)
    assert held["mean_speedup"] == pytest.approx(1.1)
    assert held["agent_advantage"] == pytest.approx(-0.4)
    assert [held[f"agent_advantage_level{n}"] for n in (1, 2, 3, 4)] == [pytest.approx(-0.4)] * 4
    assert held["mean_success_rate"] == 0.5
    assert (held["coverage"]["task_speedup"], held["coverage"]["agent_advantage"]) == (2, 2)


def test_r21_every_order_of_the_events_gives_the_same_numbers() -> None:
    wanted = canonical_json(numbers(ONE_SUCCESS_ONE_TIMEOUT))
    for order in itertools.permutations(ONE_SUCCESS_ONE_TIMEOUT):
        assert canonical_json(numbers(list(order))) == wanted


def test_r21_an_agent_that_only_times_out_has_numbers_and_a_success_rate_of_zero() -> None:
    held = numbers([the_oracle(), a_timeout()])
    assert (held["mean_success_rate"], held["mean_speedup"]) == (0.0, 1.0)
    assert held["agent_advantage"] == pytest.approx(-0.5)


def test_r21_an_agent_that_only_crashed_has_numbers_if_any_trial_of_the_run_has_a_section() -> None:
    """Its own trials are of other tasks, and nobody knows their benchmarks."""
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    held = numbers([a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone], "crasher:gpt-5")
    assert (held["mean_success_rate"], held["mean_speedup"]) == (0.0, 1.0)
    assert held["agent_advantage"] is None
    assert (held["coverage"]["task_speedup"], held["coverage"]["agent_advantage"]) == (1, 0)


def test_r21_the_section_may_come_after_the_crash_and_go_again() -> None:
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    section = a_trial(tests=a_suite(0), benchmarks=OF_AGENT)
    late, early = published(alone, section), published(section, alone)
    assert late.summaries == early.summaries
    retraction = {"type": "trial_retracted", "run_id": "run-1", "task_id": "task-1", "revision": 0}
    gone = published(section, alone, retraction | {"agent": "terminus", "model": "gpt-5"})
    assert gone.summaries["agent_model run-1|crasher:gpt-5"]["formulacode"] is None


def test_r21_a_run_without_any_section_has_no_formulacode_numbers() -> None:
    assert summary([a_trial(**TIMEOUT)])["formulacode"] is None


def test_r21_a_timeout_is_re_scored_by_an_oracle_that_comes_late() -> None:
    stream = published(the_nop(benchmarks={"m.f": {"agent/nop": 1.0}}), a_timeout())
    before = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
    assert (before["mean_speedup"], before["agent_advantage"]) == (1.0, None)
    stream.fold(the_oracle())
    (news,) = [item for item in stream.rescorings() if item["trial"]["agent"] == "terminus"]
    assert news["because"]["agent"] == "oracle"
    after = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
    assert (after["mean_speedup"], after["agent_advantage"]) == (1.0, pytest.approx(-0.5))


def test_r21_a_failed_agent_takes_every_benchmark_that_its_group_knows() -> None:
    """Its own m.f, and the oracle's m.g: 1 - sqrt(1.5 * 6)."""
    both = OF_ORACLE | {"m.g": {"agent/nop": 6.0, "oracle/nop": 6.0}}
    held = numbers([the_oracle(benchmarks=both), the_agent(tests=a_suite(1))])
    assert (held["num_benchmarks"], held["num_valid_benchmarks"]) == (2, 2)
    assert held["agent_advantage"] == pytest.approx(-2.0)


def test_r21_a_fallback_invents_no_oracle_value() -> None:
    """fc-eval puts 1.0 there (C1), which makes the advantage 0.0."""
    for failed in (the_agent(tests=a_suite(1), benchmarks=UNKNOWN_ORACLE), a_timeout()):
        stream = published(the_nop(benchmarks=UNKNOWN_ORACLE), failed)
        held = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
        assert (held["mean_speedup"], held["agent_advantage"]) == (1.0, None)
        assert (held["num_benchmarks"], held["num_valid_benchmarks"]) == (1, 0)
        (scored,) = [s for s in stream.scored.values() if s["agent"] == "terminus"]
        entry = scored["formulacode"]["per_benchmark_speedups"]["m.f"]
        assert (entry["agent/nop"], entry["oracle/nop"], entry["advantage"]) == (1.0, None, None)


def test_r21_a_benchmark_without_an_oracle_value_does_not_dilute_the_others() -> None:
    """1 - 1.5 over one benchmark, and not 1 - sqrt(1.5 * 1)."""
    some = OF_AGENT | {"m.g": {"agent/nop": 2.0}}
    held = numbers([the_agent(tests=a_suite(1), benchmarks=some)])
    assert held["agent_advantage"] == pytest.approx(-0.5)
    assert (held["num_benchmarks"], held["num_valid_benchmarks"]) == (2, 1)


def test_r21_nop_never_falls_back() -> None:
    """R4: with benchmarks it keeps them, without any it was not measured."""
    own = numbers([the_nop(tests=a_suite(1), benchmarks=OF_AGENT), the_agent()], NOP)
    assert (own["mean_success_rate"], own["mean_speedup"]) == (0.0, pytest.approx(1.2))
    crashed = numbers([the_nop(tests=None, **TIMEOUT), the_oracle()], NOP)
    assert (crashed["mean_success_rate"], crashed["mean_speedup"]) == (0.0, None)


def test_r21_not_measured_in_a_trial_that_succeeded_is_left_out() -> None:
    events = [the_agent(), the_agent(task_id="null", benchmarks=None)]
    held = numbers(events)
    assert (held["mean_speedup"], held["agent_advantage"]) == (pytest.approx(1.2), pytest.approx(-0.3))
    assert held["mean_success_rate"] == 1.0


@pytest.mark.parametrize("benchmarks", [{}, {"m.f": {"agent/nop": 0.0, "oracle/nop": 1.5}}])
def test_r21_no_valid_benchmark_in_a_trial_that_succeeded_is_no_change(benchmarks: Json) -> None:
    held = numbers([the_agent(), the_agent(task_id="empty", benchmarks=benchmarks)])
    assert held["mean_speedup"] == pytest.approx((1.2 + 1.0) / 2)
    assert held["agent_advantage"] == pytest.approx((-0.3 + 0.0) / 2)


def test_r22_no_oracle_value_at_all_leaves_the_advantages_unknown() -> None:
    held = numbers([the_agent(), the_agent(task_id="t2", benchmarks={"m.f": {"agent/nop": 5.0}})])
    assert held["mean_speedup"] == pytest.approx((1.2 + 5.0) / 2)
    assert held["agent_advantage"] == pytest.approx(-0.3)
    assert held["coverage"]["agent_advantage"] == 1


# R21: planned agents without a sub-trial

PLAN = a_plan(agent_models=[ORACLE, AGENT])
WITHOUT_THE_AGENT = [PLAN, the_oracle(task_id="t1"), the_agent(task_id="t1"), the_oracle(task_id="t2")]


def test_r21_a_planned_agent_without_a_sub_trial_counts_once_the_run_has_finished() -> None:
    running = numbers(WITHOUT_THE_AGENT)
    assert (running["missing"], running["mean_success_rate"]) == (0, 1.0)
    assert running["mean_speedup"] == pytest.approx(1.2)
    finished = numbers([*WITHOUT_THE_AGENT, FINISHED])
    assert (finished["missing"], finished["mean_success_rate"]) == (1, 0.5)
    assert finished["mean_speedup"] == pytest.approx(1.1)
    assert finished["agent_advantage"] == pytest.approx(-0.4)


def test_r21_what_is_missing_enters_no_other_count() -> None:
    running, finished = summary(WITHOUT_THE_AGENT), summary([*WITHOUT_THE_AGENT, FINISHED])
    for name in ("trials", "accuracy", "resolved", "unresolved", "failure_modes", "pass_at_k", "total_cost"):
        assert finished[name] == running[name], name
    for name in ("num_benchmarks", "num_valid_benchmarks", "mean_cost_per_task"):
        assert finished["formulacode"][name] == running["formulacode"][name], name


def test_r21_nothing_is_re_scored_for_what_is_missing() -> None:
    stream = published(*WITHOUT_THE_AGENT)
    scored = dict(stream.scored)
    stream.fold(FINISHED)
    assert stream.scored == scored
    assert stream.rescorings() == []


def test_r21_what_was_missing_is_no_more_once_it_arrives() -> None:
    late = the_agent(task_id="t2")
    arrived = numbers([*WITHOUT_THE_AGENT, FINISHED, late])
    assert (arrived["missing"], arrived["mean_success_rate"]) == (0, 1.0)
    assert canonical_json(arrived) == canonical_json(numbers([*WITHOUT_THE_AGENT, late, FINISHED]))


def test_r21_an_agent_is_missing_only_where_a_trial_has_several_agents() -> None:
    """Trials of their own are of one agent each (R10)."""
    alone = a_trial(agent="other", task_id="t2", tests=a_suite(0), benchmarks=OF_AGENT)
    held = numbers([PLAN, a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone, FINISHED])
    assert held["missing"] == 0


# R25


def test_r25_the_cost_weighted_advantage_is_the_quotient_of_the_two_numbers_beside_it() -> None:
    """Advantage -0.3 of the two measured trials, $2 of the two priced ones."""
    held = numbers(
        [
            the_agent(task_id="t1", cost_usd=1.0),
            the_agent(task_id="t2"),
            the_agent(task_id="t3", benchmarks=None, cost_usd=3.0),
        ]
    )
    assert held["mean_cost_per_task"] == 2.0
    assert held["agent_advantage"] == pytest.approx(-0.3)
    assert held["cost_weighted_advantage"] == held["agent_advantage"] / held["mean_cost_per_task"]


def test_r25_zero_cost_is_zero_and_an_unknown_part_is_unknown() -> None:
    assert numbers([the_agent(cost_usd=0.0)])["cost_weighted_advantage"] == 0.0
    assert numbers([the_agent()])["cost_weighted_advantage"] is None
    assert numbers([the_agent(benchmarks=None, cost_usd=1.0)])["cost_weighted_advantage"] is None


def test_r25_a_timeout_weighs_in_with_its_cost_and_its_advantage() -> None:
    events = [*ONE_SUCCESS_ONE_TIMEOUT[:3], a_timeout(task_id="t2", cost_usd=4.0)]
    held = numbers([event | ({"cost_usd": 0.0} if event is events[1] else {}) for event in events])
    assert held["cost_weighted_advantage"] == pytest.approx(-0.4 / 2.0)


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
    assert summary(events, ORACLE)["trials"] == 1


# R27


def derived(**fields: Any) -> Json:
    """The scored trial of an event without a verdict."""
    (scored,) = published(a_trial(**{"resolved": None} | fields)).scored.values()
    return scored


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
    assert summary([a_trial(resolved=None, tests=a_suite(0), failure_mode="x")])["no_verdict"] == 1


def test_r27_without_sections_there_is_no_verdict() -> None:
    assert (derived()["resolved"], derived()["verdict_source"]) == (None, None)


def test_r27_what_a_harness_says_stands() -> None:
    (scored,) = published(a_trial(resolved=False, tests=a_suite(0))).scored.values()
    assert (scored["resolved"], scored["success"], scored["verdict_source"]) == (False, True, "reported")


def test_r27_a_derived_verdict_enters_accuracy() -> None:
    held = summary([a_trial(resolved=None, tests=a_suite(0)), a_trial(task_id="t2", resolved=False)])
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
