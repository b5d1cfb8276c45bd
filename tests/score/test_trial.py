"""Scoring of trials: success, rates, composite, duration (R1, R5, R9, R10, R13, R20, R27)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from streamer.folding.score import (
    ScoringRules,
    deciding_sub_trial,
    grading_profile,
    score_trial,
    score_trial_group,
)
from streamer.schemas.events import TrialResult
from tests.score.build import RULES, a_trial, counts, scored


def successes(*events: TrialResult) -> list[bool]:
    return [s.success for s in score_trial_group(events, RULES)]


def test_example_1_of_the_specification() -> None:
    trial = scored(resolved=True, score=0.85, cost_usd=0.50)
    assert (trial.pass_rate, trial.impl_rate, trial.cost_of_pass, trial.composite_score) == (
        1.0,
        0.85,
        0.50,
        0.925,
    )
    assert RULES.profile.grade(trial.composite_score) == "B"


# Success


@pytest.mark.parametrize(("resolved", "success"), [(True, True), (False, False), (None, False)])
def test_without_sections_success_is_the_harness_verdict(resolved: bool | None, success: bool) -> None:
    trial = scored(resolved=resolved)
    assert (trial.resolved, trial.success, trial.pass_rate) == (resolved, success, float(success))


@pytest.mark.parametrize(
    ("section", "success"),
    [
        (counts(), True),
        (counts(0, 0), True),
        (counts(1, 0), False),
        (counts(0, 1), False),
        (counts(1, None), False),
        (counts(error=1), False),
        (counts(status="failed"), False),
        (counts(0, 0, status="failed"), False),
        (counts(3, 0, status="failed"), False),
        (counts(status="missing"), False),
        (counts(0, 0, status="unparsable"), False),
    ],
)
def test_tests_of_a_single_trial_are_judged_absolutely(section: dict[str, Any], success: bool) -> None:
    assert scored(resolved=not success, tests=section).success is success


def test_r5_exactly_one_errored_test_is_one_failure_and_no_parse_error() -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=counts(0, 1, status="failed"))
    agent = a_trial(agent="a", agent_index=2, tests=counts(0, 1, status="failed"))
    assert successes(oracle, agent) == [True, True]


@pytest.mark.parametrize(
    ("section", "success"),
    [
        ({"status": "passed"}, True),
        ({"status": "passed", "pass_to_fail": 0.0}, True),
        ({"status": "passed", "failed": 7}, True),
        ({"status": "passed", "pass_to_fail": 0.5}, False),
        ({"status": "passed", "pass_to_fail": 1.0}, False),
        ({"status": "failed"}, False),
        ({"status": "missing"}, False),
        ({"status": "unparsable"}, False),
    ],
)
def test_snapshots_fail_on_their_status_or_on_a_test_that_broke(
    section: dict[str, Any], success: bool
) -> None:
    assert scored(resolved=not success, snapshot=section).success is success


def test_each_section_that_is_there_must_pass() -> None:
    fine, broken = {"status": "passed"}, {"status": "failed"}
    assert scored(tests=counts(0, 0), snapshot=fine).success is True
    assert scored(tests=counts(0, 0), snapshot=broken).success is False
    assert scored(tests=counts(1, 0), snapshot=fine).success is False


@pytest.mark.parametrize(("own", "success"), [(0, True), (2, True), (3, False)])
def test_in_a_group_as_many_failures_as_the_oracle_are_fine(own: int, success: bool) -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=counts(1, 1, status="failed"))
    agent = a_trial(agent="a", agent_index=2, tests=counts(own, 0, status="failed" if own else "ok"))
    assert successes(oracle, agent) == [True, success]


def test_in_a_group_without_an_oracle_failures_count_absolutely() -> None:
    assert successes(
        a_trial(agent="nop", agent_index=1, tests=counts(0, 0)),
        a_trial(agent="a", agent_index=2, tests=counts(1, 0)),
    ) == [True, False]


@pytest.mark.parametrize("section", [None, counts(status="missing"), counts(status="failed")])
def test_an_oracle_without_counts_allows_no_failure(section: dict[str, Any] | None) -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=section)
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=counts(1, 0)))[1] is False
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=counts(0, 0)))[1] is True


@pytest.mark.parametrize("status", ["missing", "unparsable"])
def test_r5_a_missing_section_fails_in_a_group_too(status: str) -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=counts(5, 0))
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=counts(status=status)))[1] is False


def test_a_failed_section_without_counts_fails_in_a_group_too() -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=counts(5, 0))
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=counts(status="failed")))[1] is False


def test_snapshots_are_never_relative_to_the_oracle() -> None:
    broken = {"status": "failed", "pass_to_fail": 1.0}
    oracle = a_trial(agent="oracle", agent_index=1, snapshot=broken)
    assert successes(oracle, a_trial(agent="a", agent_index=2, snapshot=broken)) == [False, False]


def test_of_two_oracles_the_one_with_the_lowest_index_is_the_reference() -> None:
    strict = a_trial(agent="oracle", agent_index=1, tests=counts(0, 0))
    lenient = a_trial(agent="oracle-2", agent_index=2, tests=counts(9, 0))
    agent = a_trial(agent="a", agent_index=3, tests=counts(1, 0))
    assert successes(agent, lenient, strict) == [False, False, True]


def test_r9_the_order_of_the_sub_trials_changes_no_score() -> None:
    group = [
        a_trial(agent="nop", agent_index=1, tests=counts(2, 0), snapshot={"status": "passed"}),
        a_trial(agent="oracle", model="x", agent_index=2, tests=counts(2, 0)),
        a_trial(agent="oracle", model="y", agent_index=2, tests=counts(0, 0)),
        a_trial(agent="a", agent_index=3, tests=counts(3, 0), score=0.5),
        a_trial(agent="b", agent_index=3, tests=counts(1, 0), cost_usd=1.0),
    ]
    expected = dict(zip(map(id, group), score_trial_group(group, RULES), strict=True))
    decides = deciding_sub_trial(group, RULES.is_baseline)
    for order in itertools.permutations(group):
        again = score_trial_group(order, RULES)
        assert again == [expected[id(event)] for event in order]
        assert deciding_sub_trial(order, RULES.is_baseline) is decides


def test_a_group_of_one_agent_scores_like_a_trial_of_its_own() -> None:
    event = a_trial(agent="a", agent_index=1, tests=counts(1, 0), score=0.7, cost_usd=0.2)
    assert score_trial_group([event], RULES) == [score_trial(event, RULES)]


def test_no_sub_trials_have_no_scores_and_no_verdict() -> None:
    assert score_trial_group([], RULES) == []
    assert deciding_sub_trial([], RULES.is_baseline) is None


# Verdict of a group


@pytest.mark.parametrize("verdict", [True, False, None])
def test_the_last_agent_that_is_no_baseline_gives_the_verdict(verdict: bool | None) -> None:
    group = [
        a_trial(agent="a", agent_index=2, resolved=not verdict),
        a_trial(agent="b", agent_index=3, resolved=verdict),
        a_trial(agent="oracle", agent_index=9, resolved=not verdict),
        a_trial(agent="nop", agent_index=1, resolved=not verdict),
    ]
    decides = deciding_sub_trial(group, RULES.is_baseline)
    assert decides is group[1]
    assert decides.resolved is verdict


def test_with_baselines_only_the_highest_of_them_gives_the_verdict() -> None:
    group = [
        a_trial(agent="oracle", agent_index=2, resolved=True),
        a_trial(agent="nop", agent_index=1, resolved=False),
    ]
    assert deciding_sub_trial(group, RULES.is_baseline) is group[0]


# Derived verdicts


@pytest.mark.parametrize("mode", [None, "unset", "none"])
def test_r27_without_a_failure_mode_tests_and_snapshot_give_the_verdict(mode: str | None) -> None:
    passed = scored(tests=counts(0, 0), failure_mode=mode)
    failed = scored(tests=counts(1, 0), failure_mode=mode)
    assert (passed.resolved, passed.verdict_source) == (True, "derived")
    assert (failed.resolved, failed.verdict_source) == (False, "derived")


def test_r27_with_a_failure_mode_or_without_sections_a_trial_stays_without_a_verdict() -> None:
    timed_out = scored(tests=counts(0, 0), failure_mode="agent_timeout")
    assert (timed_out.resolved, timed_out.verdict_source, timed_out.success) == (None, None, True)
    bare = scored(benchmarks={"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}})
    assert (bare.resolved, bare.verdict_source) == (None, None)


def test_r27_a_verdict_of_the_harness_stands() -> None:
    trial = scored(resolved=False, tests=counts(0, 0))
    assert (trial.resolved, trial.verdict_source, trial.success) == (False, "reported", True)


# Rates, cost, duration


@pytest.mark.parametrize(
    ("score", "impl_rate"), [(1.3, 1.0), (-0.2, 0.0), (-0.0, 0.0), (0.5, 0.5), (1.0, 1.0)]
)
def test_the_judges_score_is_clamped_to_0_and_1(score: float, impl_rate: float) -> None:
    trial = scored(score=score)
    assert trial.impl_rate == impl_rate
    assert math.copysign(1.0, trial.impl_rate) == 1.0


def test_a_trial_that_awaits_its_judge_has_no_composite() -> None:
    trial = scored(resolved=True)
    assert (trial.impl_rate, trial.composite_score) == (None, None)


def test_the_profiles_weights_shape_the_composite() -> None:
    weighted = ScoringRules(RULES.prices, grading_profile("specified@3:1"))
    assert score_trial(a_trial(resolved=True, score=0.5), weighted).composite_score == 0.875


START, END = "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:01.5+01:00"


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"started_at": START, "finished_at": END}, 1.5),
        ({"started_at": START, "finished_at": START}, 0.0),
        ({"started_at": END, "finished_at": START}, None),
        ({"started_at": START}, None),
        ({"finished_at": END}, None),
        ({"started_at": START, "finished_at": END, "duration_seconds": 0.0}, 0.0),
        ({}, None),
    ],
)
def test_the_duration_is_reported_or_from_start_to_end(fields: dict[str, Any], seconds: float | None) -> None:
    assert scored(**fields).duration_seconds == seconds


def test_what_the_harness_measured_is_handed_on() -> None:
    measured = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_tokens": 3,
        "cache_write_tokens": 4,
        "trajectory_length": 5,
        "failure_mode": "agent_timeout",
    }
    trial = scored(**measured, resolved=True)
    assert {name: getattr(trial, name) for name in measured} == measured
    assert trial.success is True  # (R19): failure mode and outcome are independent
