"""R2, R14, R15: costs, cost of pass and modes, example by example, through the whole pipeline."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from tests.conformance.ruling_examples import (
    AGENT,
    FINISHED,
    NOP,
    OF_AGENT,
    OF_ORACLE,
    RUN,
    TIMEOUT,
    Json,
    a_timeout,
    numbers,
    passes,
    scored,
    statistics,
    summary,
    the_agent,
    the_nop,
    the_oracle,
)
from tests.house.citations import SEMANTICS
from tests.support.events import Event, a_plan, a_trial, summarised
from tests.support.formulacode_trials import a_suite, published

# R14: cost of pass


def test_r14_a_failed_trial_costs_infinity_per_pass_whether_its_cost_is_known_or_not() -> None:
    failed = [a_trial(task_id="known", resolved=False, cost_usd=1.0), a_trial(task_id="t2", resolved=False)]
    assert statistics(*failed, of="cost_of_pass") == {
        "median": "Infinity",
        "mean": "Infinity",
        "mode": "Infinity",
        "min": "Infinity",
        "max": "Infinity",
        "std_dev": None,
        "count": 2,
    }
    for event in failed:
        stored = scored(event)
        assert stored["cost_of_pass"] == "Infinity"


def test_r14_a_pass_at_an_unknown_cost_has_none() -> None:
    assert statistics(a_trial(), of="cost_of_pass")["count"] == 0
    stored = scored(a_trial())
    assert stored["cost_of_pass"] is None


def test_r14_infinite_values_stand_in_median_min_max_and_mode() -> None:
    """1, 3, Infinity, Infinity: of the middle two one is infinite."""
    events = [a_trial(task_id=f"t{cost}", cost_usd=cost) for cost in (1.0, 3.0)] + passes(0, 2)
    stored = statistics(*events, of="cost_of_pass")
    assert (stored["min"], stored["max"], stored["count"]) == (1.0, "Infinity", 4)
    assert (stored["median"], stored["mode"]) == ("Infinity", "Infinity")
    assert (stored["mean"], stored["std_dev"]) == ("Infinity", None)
    assert statistics(*events[:3], of="cost_of_pass")["median"] == 3.0


FAILED_FOR_1 = a_trial(task_id="t2", resolved=False, cost_usd=1.0)


@pytest.mark.parametrize(
    ("events", "cost"),
    [
        ([a_trial(cost_usd=2.0), FAILED_FOR_1 | {"cost_usd": 4.0}, a_trial(task_id="unknown")], 6.0),
        ([a_trial(resolved=False)], "Infinity"),
        ([FAILED_FOR_1], "Infinity"),
        ([a_trial()], None),
        ([a_trial(), FAILED_FOR_1], None),
    ],
    ids=["one pass of two", "no pass", "no pass at a cost", "only passes at unknown costs", "and a failure"],
)
def test_r14_the_cost_per_pass_of_a_group_is_over_trials_with_a_known_cost(
    events: list[Event], cost: Any
) -> None:
    assert summary(*events)["cost_of_pass"] == cost


# R15: mode


@pytest.mark.parametrize(
    ("costs", "mode"),
    [
        ((0.1234561, 0.1234562, 0.5, 0.5), 0.5),  # to six decimals the first two are one value (S4)
        ((0.1234562, 0.1234561), 0.1234561),
        ((0.3, 0.2, 0.3, 0.2, 0.1), 0.2),
        ((0.00920315,), 0.00920315),
    ],
)
def test_r15_the_mode_compares_values_exactly_and_of_several_it_is_the_smallest(
    costs: tuple[float, ...], mode: float
) -> None:
    stored = statistics(*(a_trial(task_id=f"t{n}", cost_usd=c) for n, c in enumerate(costs)), of="cost_usd")
    assert stored["min"] <= stored["mode"] == mode <= stored["max"]


# R2: unknown costs


@pytest.mark.parametrize(
    ("fields", "cost", "source"),
    [
        ({}, None, None),
        ({"input_tokens": 0, "output_tokens": 0}, None, None),
        ({"model": "nobody/sells-this", "input_tokens": 10, "output_tokens": 10}, None, None),
        ({"cost_usd": 0.0, "input_tokens": 10, "output_tokens": 10}, 0.0, "reported"),
    ],
)
def test_r2_what_nobody_counted_or_prices_costs_an_unknown_sum_and_a_reported_zero_is_a_cost(
    fields: Json, cost: float | None, source: str | None
) -> None:
    stored = scored(a_trial(**fields))
    assert (stored["cost_usd"], stored["cost_source"]) == (cost, source)
    [agent] = [one for key, one in summarised([a_trial(**fields)]).items() if key.startswith("agent_model")]
    assert agent["total_cost"] == cost


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("Claude Opus 4.5", 90.0),
        ("Claude Sonnet 4", 18.0),
        ("GPT-4o", 20.0),
        ("claude-opus-4-5-20251101", 90.0),
    ],
)
def test_r2_the_specifications_prices_have_its_names(model: str, cost: float) -> None:
    """A million tokens in and a million out."""
    counted = {"input_tokens": 10**6, "output_tokens": 10**6}
    stored = scored(a_trial(model=model, **counted))
    assert (stored["cost_usd"], stored["cost_source"]) == (pytest.approx(cost), "estimated")


# -----------------------------------------------------------------------------
# R13, R23: grades and uplift, example by example, through the whole pipeline.


def grading(*events: Event, key: str = f"agent_model run-1|{AGENT}") -> tuple[Any, ...]:
    stored = summary(*events, key=key)
    return stored["grade"], stored["grade_basis"], stored["grade_provisional"]


# R13: grades


@pytest.mark.parametrize(
    ("percent", "letter"),
    [(100, "A"), (95, "A"), (94, "B"), (85, "B"), (75, "C"), (65, "D"), (64, "F"), (51, "F"), (49, "F")],
)
def test_r13_without_a_judge_the_grade_is_that_of_the_mean_pass_rate(percent: int, letter: str) -> None:
    """65 % is D; 51 % and 49 % are both F, where the median makes A and F of them."""
    stored = summary(*passes(percent, 100))
    assert (stored["grade"], stored["grade_basis"]) == (letter, "mean_pass_rate")
    assert stored["grade_score"] == percent / 100
    assert stored["grade_provisional"] is False


def test_r13_a_tier_without_a_judge_is_graded_likewise() -> None:
    events = passes(65, 100, tier="T0")
    for key in ("tier run-1|T0", "tier run-1|T0|terminus:gpt-5"):
        assert grading(*events, key=key) == ("D", "mean_pass_rate", False)


def test_r13_without_a_judge_there_is_no_composite() -> None:
    stored = summary(*passes(3, 4))
    assert stored["statistics"]["composite_score"]["count"] == 0
    assert stored["statistics"]["composite_score"]["median"] is None
    assert stored["coverage"]["composite_score"] == 0
    assert "composite_basis" not in stored
    stored = scored(a_trial())
    assert (stored["composite_score"], stored["grade"]) == (None, None)


def test_r13_with_a_judge_the_grade_is_that_of_the_median_composite() -> None:
    """(1 + 0.5) / 2, (1 + 0.9) / 2, (1 + 1) / 2: the median is 0.95."""
    stored = summary(*(a_trial(task_id=f"t{score}", score=score) for score in (0.5, 0.9, 1.0)))
    assert (stored["grade"], stored["grade_score"]) == ("A", 0.95)
    assert (stored["grade_basis"], stored["grade_provisional"]) == ("composite_median", False)


def test_r13_a_partly_judged_group_is_provisional_and_says_how_many_are_judged() -> None:
    stored = summary(*passes(3, 3), a_trial(task_id="judged", score=0.5))
    assert (stored["grade"], stored["grade_score"], stored["grade_basis"]) == ("C", 0.75, "composite_median")
    assert stored["grade_provisional"] is True
    assert (stored["coverage"]["composite_score"], stored["trials"]) == (1, 4)


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


def test_r13_a_judge_of_one_tier_is_no_judge_of_another() -> None:
    events = [a_trial(tier="T0", score=0.5), a_trial(tier="T1")]
    result = summarised(events)
    assert result["tier run-1|T0"]["grade_basis"] == "composite_median"
    assert result["tier run-1|T1"]["grade_basis"] == "mean_pass_rate"


def test_r13_a_grade_change_names_the_number_and_its_basis() -> None:
    stream = published(a_trial(resolved=False))
    stream.fold(a_trial(resolved=True, revision=1))
    (changes,) = [item for item in stream.changes if item["type"] == "grade_change"]
    assert (changes["from_grade"], changes["to_grade"]) == ("F", "A")
    assert (changes["grade_score"], changes["grade_basis"]) == (1.0, "mean_pass_rate")
    assert changes["grade_provisional"] is False
    assert "median_composite" not in changes


# R23: uplift


def test_r23_uplift_is_of_the_mean_pass_rates_where_nobody_judges() -> None:
    """0.75 against 0.5; the medians are both 0.5 and 1."""
    events = [*passes(2, 4, tier="T0"), *passes(3, 4, tier="T1")]
    stored = summary(*events, key="tier run-1|T1")
    assert (stored["tier_uplift"], stored["tier_delta"]) == (0.5, 0.25)


def test_r23_uplift_is_of_the_median_composites_where_there_is_a_judge() -> None:
    events = [a_trial(tier="T0", score=0.5), a_trial(tier="T1", score=0.8)]
    stored = summary(*events, key="tier run-1|T1")
    assert stored["tier_uplift"] == pytest.approx((0.9 - 0.75) / 0.75)
    assert stored["tier_delta"] == pytest.approx(0.15)


def test_r23_two_bases_are_never_compared() -> None:
    stored = summary(a_trial(tier="T0", score=0.5), a_trial(tier="T1"), key="tier run-1|T1")
    assert (stored["tier_uplift"], stored["tier_delta"]) == (None, None)


def test_r23_a_baseline_of_zero_has_a_difference_and_no_uplift() -> None:
    events = [*passes(0, 2, tier="T0"), *passes(1, 2, tier="T1")]
    stored = summary(*events, key="tier run-1|T1")
    assert (stored["tier_uplift"], stored["tier_delta"]) == (None, 0.5)
    across = summary(*events, key=RUN)["cross_tier"]
    assert (across["tier_uplift"], across["tier_delta"]) == ({"T1": None}, {"T1": 0.5})


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


def test_r11_pass_at_k_of_trial_groups_stands() -> None:
    """R10: a trial of several agents is one trial."""
    events = [
        a_trial(agent=agent, agent_index=index, attempt=attempt, resolved=attempt == index)
        for index, agent in ((1, "alpha"), (2, "beta"))
        for attempt in (1, 2)
    ]
    result = summarised(events)[RUN]["pass_at_k"]
    assert {k: stored["value"] for k, stored in result.items()} == {"1": 0.5, "2": 1.0}


def test_r11_baselines_make_no_mixture() -> None:
    """R4: the run's pass@k leaves them out."""
    result = summarised(
        [a_trial(), a_trial(agent="oracle", model="oracle"), a_trial(agent="nop", model="nop")]
    )
    assert result[RUN]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_a_second_agent_takes_pass_at_k_away_and_its_retraction_gives_it_back() -> None:
    stream = published(a_trial(), a_trial(agent="other"))
    assert stream.summaries[RUN]["pass_at_k"] is None
    missing = {"type": "trial_retracted", "run_id": "run-1", "task_id": "task-1", "model": "gpt-5"}
    stream.fold(missing | {"agent": "other", "revision": 0})
    assert stream.summaries[RUN]["pass_at_k"]["1"]["value"] == 1.0


def test_r11_the_accuracy_of_a_run_of_several_agents_stays() -> None:
    assert summary(a_trial(), a_trial(agent="other", resolved=False), key=RUN)["accuracy"] == 0.5


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
    stored = numbers(*ONE_SUCCESS_ONE_TIMEOUT)
    assert stored["mean_speedup"] == pytest.approx(1.1)
    assert stored["agent_advantage"] == pytest.approx(-0.4)
    assert [stored[f"agent_advantage_level{n}"] for n in (1, 2, 3, 4)] == [pytest.approx(-0.4)] * 4
    assert stored["mean_success_rate"] == 0.5
    assert (stored["coverage"]["task_speedup"], stored["coverage"]["agent_advantage"]) == (2, 2)


def test_r21_an_agent_that_only_times_out_has_numbers_and_a_success_rate_of_zero() -> None:
    stored = numbers(the_oracle(), a_timeout())
    assert (stored["mean_success_rate"], stored["mean_speedup"]) == (0.0, 1.0)
    assert stored["agent_advantage"] == pytest.approx(-0.5)


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


def test_r21_a_failed_agent_takes_every_benchmark_that_its_group_knows() -> None:
    """Its own m.f, and the oracle's m.g: 1 - sqrt(1.5 * 6)."""
    both = OF_ORACLE | {"m.g": {"agent/nop": 6.0, "oracle/nop": 6.0}}
    stored = numbers(the_oracle(benchmarks=both), the_agent(tests=a_suite(1)))
    assert (stored["num_benchmarks"], stored["num_valid_benchmarks"]) == (2, 2)
    assert stored["agent_advantage"] == pytest.approx(-2.0)


def test_r21_a_fallback_invents_no_oracle_value() -> None:
    """fc-eval puts 1.0 there (C1), which makes the advantage 0.0."""
    for failed in (the_agent(tests=a_suite(1), benchmarks=UNKNOWN_ORACLE), a_timeout()):
        stream = published(the_nop(benchmarks=UNKNOWN_ORACLE), failed)
        stored = stream.summaries[f"agent_model run-1|{AGENT}"]["formulacode"]
        assert (stored["mean_speedup"], stored["agent_advantage"]) == (1.0, None)
        assert (stored["num_benchmarks"], stored["num_valid_benchmarks"]) == (1, 0)
        (scored,) = [s for s in stream.scored.values() if s["agent"] == "terminus"]
        entry = scored["formulacode"]["per_benchmark_speedups"]["m.f"]
        assert (entry["agent/nop"], entry["oracle/nop"], entry["advantage"]) == (1.0, None, None)


def test_r21_a_benchmark_without_an_oracle_value_does_not_dilute_the_others() -> None:
    """1 - 1.5 over one benchmark, and not 1 - sqrt(1.5 * 1)."""
    some = OF_AGENT | {"m.g": {"agent/nop": 2.0}}
    stored = numbers(the_agent(tests=a_suite(1), benchmarks=some))
    assert stored["agent_advantage"] == pytest.approx(-0.5)
    assert (stored["num_benchmarks"], stored["num_valid_benchmarks"]) == (2, 1)


def test_r21_nop_never_falls_back() -> None:
    """R4: with benchmarks it keeps them, without any it was not measured."""
    own = numbers(the_nop(tests=a_suite(1), benchmarks=OF_AGENT), the_agent(), agent_model=NOP)
    assert (own["mean_success_rate"], own["mean_speedup"]) == (0.0, pytest.approx(1.2))
    crashed = numbers(the_nop(tests=None, **TIMEOUT), the_oracle(), agent_model=NOP)
    assert (crashed["mean_success_rate"], crashed["mean_speedup"]) == (0.0, None)


@pytest.mark.parametrize("benchmarks", [{}, {"m.f": {"agent/nop": 0.0, "oracle/nop": 1.5}}])
def test_r21_no_valid_benchmark_in_a_trial_that_succeeded_is_not_measured(benchmarks: Json) -> None:
    stored = numbers(the_agent(), the_agent(task_id="empty", benchmarks=benchmarks))
    assert stored["mean_speedup"] == pytest.approx(1.2)
    assert stored["agent_advantage"] == pytest.approx(-0.3)


# R25


def test_r25_a_timeout_weighs_in_with_its_cost_and_its_advantage() -> None:
    events = [*ONE_SUCCESS_ONE_TIMEOUT[:3], a_timeout(task_id="t2", cost_usd=4.0)]
    stored = numbers(*(event | ({"cost_usd": 0.0} if event is events[1] else {}) for event in events))
    assert stored["cost_weighted_advantage"] == pytest.approx(-0.4 / 2.0)


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
