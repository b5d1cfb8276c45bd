"""FormulaCode's score and payload: validity, levels, fallback, claims, limits (A, C, R3, R4, R21, R22)."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.score import (
    ScoringRules,
    UnknownProfile,
    deciding_sub_trial,
    grading_profile,
    score_trial,
    score_trial_group,
)
from streamer.folding.score.formulacode import task_metrics
from streamer.schemas.events import TrialResult
from tests.folding.build import BROKEN, RULES, Json, a_trial, counts, payload, ratio, score, scored
from tests.support.examples import examples

# Task metrics


def test_numbers_at_the_edge_of_floats_overflow_nothing() -> None:
    """Their sum is infinite, their mean is not."""
    huge = sys.float_info.max
    result = task_metrics({f"m{i}.f": ratio(huge, 1.0) for i in range(3)}, fallback=False)
    assert result.advantages == pytest.approx((huge,) * 4)
    assert score(benchmarks={"m.f": ratio(huge, 1.0)}).speedup_percentage is None


# Fallback to the baseline


def test_r21_a_fallback_drops_entries_that_are_no_objects_and_invents_no_oracle_value() -> None:
    result = payload(
        benchmarks={
            "m.kept": ratio(3.0, 2.0),
            "m.missing": {"agent/nop": 3.0},
            "m.text": ratio(3.0, "2"),
            "m.negative": ratio(3.0, -2.0),
            "m.zero": ratio(3.0, 0),
            "m.seconds": {"agent_s": 1.0, "nop_s": 4.0, "oracle_s": 1.0},
            "m.bad_seconds": {"agent_s": 1.0, "nop_s": 4.0, "oracle_s": []},
            "m.null": None,
            "m.list": [1.0, 2.0],
        },
        tests=counts(1, 0),
    )
    shown = {name: entry["oracle/nop"] for name, entry in result["per_benchmark_speedups"].items()}
    assert shown == {
        "m.kept": 2.0,
        "m.missing": None,
        "m.text": None,
        "m.negative": None,
        "m.zero": None,
        "m.seconds": 4.0,
        "m.bad_seconds": None,
    }
    assert (result["num_benchmarks"], result["num_valid_benchmarks"]) == (7, 2)


@pytest.mark.parametrize("benchmarks", [None, {}, {"m.f": None}, {"m.f": 3.0, "m.g": [1]}])
def test_without_anything_to_fall_back_on_the_flag_stays_false(benchmarks: Json | None) -> None:
    result = score(benchmarks=benchmarks, tests=counts(1, 0))
    assert (result.pytest_failed, result.fallback) == (True, False)
    assert (result.task_speedup, result.advantages, result.num_benchmarks) == (1.0, None, 0)


@pytest.mark.parametrize("agent", ["nop", "oracle", "nopx", "NOP", "terminus"])
def test_r4_nop_never_falls_back_alone_or_in_a_group_and_every_other_agent_does(agent: str) -> None:
    benchmarks = {"m.f": ratio(2.0, 1.0)}
    event = a_trial(
        agent=agent, agent_index=1, tests=counts(3, 0), snapshot=BROKEN, benchmarks=benchmarks, resolved=True
    )
    for one in (score_trial(event, RULES), *score_trial_group([event], RULES)):
        assert one.formulacode is not None
        assert (one.success, one.formulacode.fallback) == (False, agent != "nop")
        assert one.formulacode.task_speedup == (2.0 if agent == "nop" else 1.0)


# -----------------------------------------------------------------------------
# Failures of the infrastructure are told apart from the agent's.


@pytest.mark.parametrize(
    ("fields", "excluded"),
    [
        ({"harness": "terminal-bench", "failure_mode": "unknown_agent_error"}, True),
        ({"harness": "fc-eval", "failure_mode": "agent_installation_failed", "resolved": False}, True),
        ({"harness": "harbor", "failure_mode": "ApiOverloadedError"}, True),
        ({"harness": "harbor", "failure_mode": "unknown_agent_error"}, False),
        ({"harness": "terminal-bench", "failure_mode": "agent_timeout"}, False),
        ({"harness": "terminal-bench", "failure_mode": "unknown_agent_error", "resolved": True}, False),
        ({"failure_mode": "infrastructure_error"}, True),
        ({"failure_mode": "unknown_agent_error"}, False),
        ({"harness": "terminal-bench"}, False),
    ],
)
def test_an_unresolved_trial_that_the_infrastructure_failed_is_told_apart(
    fields: dict[str, Any], excluded: bool
) -> None:
    assert scored(**fields).infrastructure_failure is excluded


@pytest.mark.parametrize(
    ("rules", "fields", "excluded"),
    [
        ({"harness": "terminal-bench"}, {"failure_mode": "unknown_agent_error"}, True),
        ({"harness": "terminal-bench"}, {"failure_mode": "unknown_agent_error", "harness": "harbor"}, False),
        ({"infrastructure": frozenset({"agent_timeout"})}, {"failure_mode": "agent_timeout"}, True),
        ({"infrastructure": frozenset({"agent_timeout"})}, {"failure_mode": "unknown_agent_error"}, False),
    ],
)
def test_a_plan_names_its_harness_and_infrastructure_failures(
    rules: Json, fields: Json, excluded: bool
) -> None:
    fields = ({"harness": "terminal-bench"} if "infrastructure" in rules else {}) | fields
    assert (
        score_trial(a_trial(**fields), ScoringRules(RULES.prices, **rules)).infrastructure_failure is excluded
    )


# -----------------------------------------------------------------------------
# Grading profiles (R12, R16, S2, S5, S17).


@pytest.mark.parametrize(
    ("median", "specified", "later"),
    [
        (math.inf, "A", "S"),
        (1.5, "A", "S"),
        (1.0, "A", "S"),
        (0.95, "A", "A"),
        (math.nextafter(0.95, 0), "B", "A"),
        (0.85, "B", "A"),
        (0.8, "C", "A"),
        (math.nextafter(0.75, 0), "D", "B"),
        (0.65, "D", "B"),
        (0.4, "F", "C"),
        (math.nextafter(0.4, 0), "F", "D"),
        (0.2, "F", "D"),
        (math.nextafter(0.2, 0), "F", "F"),
        (-math.inf, "F", "F"),
        (math.nan, "F", "F"),
        (None, None, None),
    ],
)
def test_lower_bounds_are_inclusive_and_exact(median: float | None, specified: str, later: str) -> None:
    assert grading_profile("specified").grade(median) == specified
    assert grading_profile("scylla-2026").grade(median) == later


def test_no_name_is_the_specified_profile_and_the_later_one_takes_the_variance_of_a_sample() -> None:
    assert grading_profile(None) is grading_profile("specified")
    assert (grading_profile(None).ddof, grading_profile("scylla-2026").ddof) == (0, 1)


def test_weights_move_the_composite() -> None:
    # (1.0 * 0.7 + 0.5 * 0.3) / 1.0
    assert grading_profile("specified@0.7:0.3").composite(1.0, 0.5) == pytest.approx(0.85, rel=1e-15)
    assert grading_profile("specified@1:0").composite(1.0, 0.2) == 1.0
    assert grading_profile("specified@0:1").composite(1.0, 0.2) == 0.2
    assert grading_profile("specified@0:0").composite(1.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        *((f"specified@{equal}", "specified") for equal in ("0.5:0.5", "1:1", "2.0:2")),
        ("specified@0.70:.3", "specified@0.7:0.3"),
        ("scylla-2026@2.0:1", "scylla-2026@2:1"),
        ("specified@1e-07:1", "specified@1e-07:1"),
        ("specified@00:1", "specified@0:1"),
    ],
)
def test_weights_have_one_canonical_spelling(name: str, canonical: str) -> None:
    assert grading_profile(name).name == canonical
    assert grading_profile(canonical) == grading_profile(name)


weights = st.floats(0, 1e6)


@examples(50)
@given(weights, weights)
def test_the_canonical_name_reads_back_as_the_same_profile(pass_weight: float, impl_weight: float) -> None:
    profile = grading_profile(f"specified@{pass_weight!r}:{impl_weight!r}")
    assert grading_profile(profile.name) == profile


@examples(50)
@given(weights, weights, st.sampled_from([0.0, 1.0]), st.floats(0, 1))
def test_a_composite_of_rates_is_itself_within_0_and_1(
    p: float, i: float, passed: float, impl: float
) -> None:
    composite = grading_profile(f"specified@{p!r}:{i!r}").composite(passed, impl)
    assert 0.0 <= composite <= math.nextafter(1.0, 2)


@pytest.mark.parametrize(
    "name",
    [
        "", "Specified", " specified", "specified ", "strict", "specified@", "specified@1", "specified@1:",
        "specified@-1:2", "specified@nan:1", "specified@inf:1", "specified@1:2:3", "specified@1_0:1",
        "specified@1:2@1:2", "specified@٣:1", "specified@1e7:1", "specified@0.7:0.3\n",
    ],
)  # fmt: skip
def test_another_name_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(UnknownProfile, match=r"allowed: specified, scylla-2026 or none, opt.*@PASS:IMPL"):
        grading_profile(name)


# -----------------------------------------------------------------------------
# Scoring of trials: success, rates, composite, duration (R1, R5, R9, R10, R13, R20, R27).


def successes(*events: TrialResult) -> list[bool]:
    return [s.success for s in score_trial_group(events, RULES)]


# Success


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


@pytest.mark.parametrize(
    ("oracle", "own", "success"),
    [
        (
            {"tests": counts(0, 1, status="failed")},
            counts(0, 1, status="failed"),
            True,
        ),  # R5: an error is one
        ({"tests": None}, counts(1, 0), False),
        ({"tests": None}, counts(0, 0), True),
        ({"tests": counts(status="missing")}, counts(1, 0), False),
        ({"tests": counts(status="failed")}, counts(1, 0), False),
        ({"tests": counts(9, 0, status="failed")}, counts(1, 0), True),
        ({"tests": counts(9, 0, status="failed"), "agent": "oracle-v2"}, counts(1, 0), False),
        ({"tests": counts(2, 0, status="failed"), "failure_mode": "parse_error"}, counts(2, 0), True),
    ],
)
def test_r20_an_agent_may_fail_as_often_as_an_oracle_with_readable_counts(
    oracle: Json, own: Json, success: bool
) -> None:
    reference = a_trial(**{"agent": "oracle", "agent_index": 1} | oracle)
    assert successes(reference, a_trial(agent="a", agent_index=2, tests=own))[1] is success


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


@pytest.mark.parametrize("status", ["missing", "unparsable", "failed"])
def test_r5_a_section_without_counts_fails_in_a_group_too(status: str) -> None:
    oracle = a_trial(agent="oracle", agent_index=1, tests=counts(5, 0))
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=counts(status=status)))[1] is False


def test_snapshots_are_never_relative_to_the_oracle() -> None:
    broken = {"status": "failed", "pass_to_fail": 1.0}
    oracle = a_trial(agent="oracle", agent_index=1, snapshot=broken)
    assert successes(oracle, a_trial(agent="a", agent_index=2, snapshot=broken)) == [False, False]


def test_of_two_oracles_the_one_with_the_lowest_index_is_the_reference() -> None:
    strict = a_trial(agent="oracle", agent_index=1, tests=counts(0, 0))
    lenient = a_trial(agent="oracle-2", agent_index=2, tests=counts(9, 0))
    agent = a_trial(agent="a", agent_index=3, tests=counts(1, 0))
    assert successes(agent, lenient, strict) == [False, False, True]


def test_a_group_of_one_agent_scores_like_a_trial_of_its_own_and_one_of_none_has_no_verdict() -> None:
    event = a_trial(agent="a", agent_index=1, tests=counts(1, 0), score=0.7, cost_usd=0.2)
    assert score_trial_group([event], RULES) == [score_trial(event, RULES)]
    assert (score_trial_group([], RULES), deciding_sub_trial([], RULES.is_baseline)) == ([], None)


# Derived verdicts


NO_MODES = (None, "unset", "none")


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        *(({"tests": counts(0, 0), "failure_mode": mode}, (True, "derived", True)) for mode in NO_MODES),
        *(({"tests": counts(1, 0), "failure_mode": mode}, (False, "derived", False)) for mode in NO_MODES),
        ({"tests": counts(0, 0), "failure_mode": "agent_timeout"}, (None, None, True)),
        ({"benchmarks": {"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}}}, (None, None, False)),
        ({"resolved": False, "tests": counts(0, 0)}, (False, "reported", True)),
    ],
)
def test_r27_a_verdict_is_reported_or_follows_from_the_sections_without_a_failure_mode(
    fields: Json, verdict: tuple[bool | None, str | None, bool]
) -> None:
    trial = scored(**fields)
    assert (trial.resolved, trial.verdict_source, trial.success) == verdict


# Rates, cost, duration


@pytest.mark.parametrize(
    ("score", "impl_rate"), [(1.3, None), (-0.2, None), (-0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (1 + 1e-9, 1.0)]
)
def test_r13_a_judges_score_outside_0_to_1_is_missing(score: float, impl_rate: float | None) -> None:
    trial = scored(score=score)
    assert trial.impl_rate == impl_rate
    assert impl_rate is None or math.copysign(1.0, trial.impl_rate) == 1.0


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
