"""R21, R22, R25: speedups and advantages, example by example, through the whole pipeline."""

from __future__ import annotations

import itertools

import pytest

from streamer.schemas.wire import canonical_json
from tests.conformance.ruling_examples import (
    AGENT,
    NOP,
    OF_AGENT,
    OF_ORACLE,
    TIMEOUT,
    Json,
    a_timeout,
    numbers,
    summary,
    the_agent,
    the_nop,
    the_oracle,
)
from tests.support.events import a_trial
from tests.support.formulacode_trials import a_suite, published

UNKNOWN_ORACLE = {"m.f": {"agent/nop": 1.2, "oracle/nop": None}}
ONE_SUCCESS_ONE_TIMEOUT = [
    the_oracle(task_id="t1"),
    the_agent(task_id="t1"),
    the_oracle(task_id="t2"),
    a_timeout(task_id="t2"),
]


# R21: what failed changed nothing


def test_r21_a_crash_never_raises_an_average() -> None:
    """1.2 beside an oracle of 1.5, then a timeout: (1.2 + 1) / 2, and ((1.2 - 1.5) + (1 - 1.5)) / 2."""
    held = numbers(*ONE_SUCCESS_ONE_TIMEOUT)
    assert held["mean_speedup"] == pytest.approx(1.1)
    assert held["agent_advantage"] == pytest.approx(-0.4)
    assert [held[f"agent_advantage_level{n}"] for n in (1, 2, 3, 4)] == [pytest.approx(-0.4)] * 4
    assert held["mean_success_rate"] == 0.5
    assert (held["coverage"]["task_speedup"], held["coverage"]["agent_advantage"]) == (2, 2)


def test_r21_every_order_of_the_events_gives_the_same_numbers() -> None:
    wanted = canonical_json(numbers(*ONE_SUCCESS_ONE_TIMEOUT))
    for order in itertools.permutations(ONE_SUCCESS_ONE_TIMEOUT):
        assert canonical_json(numbers(*order)) == wanted


def test_r21_an_agent_that_only_times_out_has_numbers_and_a_success_rate_of_zero() -> None:
    held = numbers(the_oracle(), a_timeout())
    assert (held["mean_success_rate"], held["mean_speedup"]) == (0.0, 1.0)
    assert held["agent_advantage"] == pytest.approx(-0.5)


def test_r21_an_agent_that_only_crashed_has_numbers_if_any_trial_of_the_run_has_a_section() -> None:
    """Its own trials are of other tasks, and nobody knows their benchmarks."""
    alone = a_trial(agent="crasher", task_id="t9", **TIMEOUT)
    held = numbers(a_trial(tests=a_suite(0), benchmarks=OF_AGENT), alone, agent_model="crasher:gpt-5")
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
    assert summary(a_trial(**TIMEOUT))["formulacode"] is None


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
    held = numbers(the_oracle(benchmarks=both), the_agent(tests=a_suite(1)))
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
    held = numbers(the_agent(tests=a_suite(1), benchmarks=some))
    assert held["agent_advantage"] == pytest.approx(-0.5)
    assert (held["num_benchmarks"], held["num_valid_benchmarks"]) == (2, 1)


def test_r21_nop_never_falls_back() -> None:
    """R4: with benchmarks it keeps them, without any it was not measured."""
    own = numbers(the_nop(tests=a_suite(1), benchmarks=OF_AGENT), the_agent(), agent_model=NOP)
    assert (own["mean_success_rate"], own["mean_speedup"]) == (0.0, pytest.approx(1.2))
    crashed = numbers(the_nop(tests=None, **TIMEOUT), the_oracle(), agent_model=NOP)
    assert (crashed["mean_success_rate"], crashed["mean_speedup"]) == (0.0, None)


def test_r21_not_measured_in_a_trial_that_succeeded_is_left_out() -> None:
    events = [the_agent(), the_agent(task_id="null", benchmarks=None)]
    held = numbers(*events)
    assert (held["mean_speedup"], held["agent_advantage"]) == (pytest.approx(1.2), pytest.approx(-0.3))
    assert held["mean_success_rate"] == 1.0


@pytest.mark.parametrize("benchmarks", [{}, {"m.f": {"agent/nop": 0.0, "oracle/nop": 1.5}}])
def test_r21_no_valid_benchmark_in_a_trial_that_succeeded_is_no_change(benchmarks: Json) -> None:
    held = numbers(the_agent(), the_agent(task_id="empty", benchmarks=benchmarks))
    assert held["mean_speedup"] == pytest.approx((1.2 + 1.0) / 2)
    assert held["agent_advantage"] == pytest.approx((-0.3 + 0.0) / 2)


def test_r22_no_oracle_value_at_all_leaves_the_advantages_unknown() -> None:
    held = numbers(the_agent(), the_agent(task_id="t2", benchmarks={"m.f": {"agent/nop": 5.0}}))
    assert held["mean_speedup"] == pytest.approx((1.2 + 5.0) / 2)
    assert held["agent_advantage"] == pytest.approx(-0.3)
    assert held["coverage"]["agent_advantage"] == 1


# R25


def test_r25_the_cost_weighted_advantage_is_the_quotient_of_the_two_numbers_beside_it() -> None:
    """Advantage -0.3 of the two measured trials, $2 of the two priced ones."""
    held = numbers(
        the_agent(task_id="t1", cost_usd=1.0),
        the_agent(task_id="t2"),
        the_agent(task_id="t3", benchmarks=None, cost_usd=3.0),
    )
    assert held["mean_cost_per_task"] == 2.0
    assert held["agent_advantage"] == pytest.approx(-0.3)
    assert held["cost_weighted_advantage"] == held["agent_advantage"] / held["mean_cost_per_task"]


def test_r25_zero_cost_is_zero_and_an_unknown_part_is_unknown() -> None:
    assert numbers(the_agent(cost_usd=0.0))["cost_weighted_advantage"] == 0.0
    assert numbers(the_agent())["cost_weighted_advantage"] is None
    assert numbers(the_agent(benchmarks=None, cost_usd=1.0))["cost_weighted_advantage"] is None


def test_r25_a_timeout_weighs_in_with_its_cost_and_its_advantage() -> None:
    events = [*ONE_SUCCESS_ONE_TIMEOUT[:3], a_timeout(task_id="t2", cost_usd=4.0)]
    held = numbers(*(event | ({"cost_usd": 0.0} if event is events[1] else {}) for event in events))
    assert held["cost_weighted_advantage"] == pytest.approx(-0.4 / 2.0)
