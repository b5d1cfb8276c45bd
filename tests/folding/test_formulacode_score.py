"""FormulaCode's score and payload: validity, levels, fallback, claims, limits (A, C, R3, R4, R21, R22)."""

from __future__ import annotations

import itertools
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
from streamer.folding.score.formulacode import TaskMetrics, task_metrics
from streamer.schemas.events import ADVANTAGES, TrialResult
from tests.folding.build import BROKEN, RULES, Json, a_trial, counts, payload, ratio, score, scored
from tests.support.examples import examples


def advantages(**fields: Any) -> Json:
    return dict(zip(ADVANTAGES, score(**fields).advantages or (), strict=True))


# Task metrics


def test_levels_are_means_over_modules_classes_functions_and_all() -> None:
    """Module a: sqrt(2*8) - 1 = 3, its classes 2-1 = 1, 8-1 = 7; module b: 4-2 = 2; all: 4 - 2 ** (1/3)."""
    result = advantages(
        benchmarks={"a.C.f(1)": ratio(2.0, 1.0), "a.D.g": ratio(8.0, 1.0), "b.h": ratio(4.0, 2.0)}
    )
    assert result == {
        "agent_advantage": pytest.approx(4.0 - 2.0 ** (1 / 3)),
        "agent_advantage_level1": pytest.approx((3.0 + 2.0) / 2),
        "agent_advantage_level2": pytest.approx((1.0 + 7.0 + 2.0) / 3),
        "agent_advantage_level3": pytest.approx((1.0 + 7.0 + 2.0) / 3),
        "agent_advantage_level4": pytest.approx(4.0 - 2.0 ** (1 / 3)),
    }


def test_a_class_of_the_same_name_in_two_modules_is_two_groups() -> None:
    two = task_metrics({"a.C.f": ratio(2.0, 1.0), "b.C.f": ratio(8.0, 1.0)}, fallback=False)
    one = task_metrics({"a.C.f(1)": ratio(2.0, 1.0), "a.C.f(2)": ratio(8.0, 1.0)}, fallback=False)
    assert two.advantages == pytest.approx((4.0, 4.0, 4.0, 3.0))
    assert one.advantages == pytest.approx((3.0, 3.0, 3.0, 3.0))


def test_a_benchmark_without_a_valid_oracle_is_dropped_altogether() -> None:
    result = task_metrics({"m.f": ratio(2.0, 1.0), "m.g": ratio(50.0, 0.0)}, fallback=False)
    assert result == TaskMetrics(2.0, (1.0, 1.0, 1.0, 1.0), 2, 1)


def test_numbers_at_the_edge_of_floats_overflow_nothing() -> None:
    """Their sum is infinite, their mean is not."""
    huge = sys.float_info.max
    result = task_metrics({f"m{i}.f": ratio(huge, 1.0) for i in range(3)}, fallback=False)
    assert result.advantages == pytest.approx((huge,) * 4)
    assert score(benchmarks={"m.f": ratio(huge, 1.0)}).speedup_percentage is None


names = st.sampled_from(
    ["a.C.f(1)", "a.C.f(2)", "a.C.g", "a.D.f", "a.f", "b.C.f", "f", "", "x.y.Z.t", "b.c.f"]
)
values = st.sampled_from([0.1, 0.3, 1.0, 1.7, 3.3, 1e-300, 1e300, None, 0, "x", True])
entries: st.SearchStrategy[Any] = st.one_of(
    st.builds(ratio, values, values), st.sampled_from([None, 5, [], {}, {"oracle/nop": 2.0}])
)
dicts = st.dictionaries(names, entries)


@examples(200)
@given(dicts, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_benchmarks_never_matters(benchmarks: Json, fallback: bool, rng: Any) -> None:
    shuffled = list(benchmarks.items())
    rng.shuffle(shuffled)
    assert task_metrics(dict(shuffled), fallback=fallback) == task_metrics(benchmarks, fallback=fallback)


def test_every_size_gives_the_bits_of_one_log_and_one_exp() -> None:
    """The same pair, once or a thousand times over, in one group or in many."""
    alone = task_metrics({"m.f": ratio(1.7, 1.3)}, fallback=False)
    for size in (2, 10, 100, 1000):
        for name in ("m.C.f({})", "m{}.C.f", "m.C.f{}"):
            many = task_metrics({name.format(i): ratio(1.7, 1.3) for i in range(size)}, fallback=False)
            assert many.task_speedup == pytest.approx(alone.task_speedup, rel=4e-16)
            assert many.advantages == pytest.approx(alone.advantages, rel=1e-14)


# Fallback to the baseline


def test_a_failed_agent_is_treated_as_if_it_had_changed_nothing() -> None:
    """Two benchmarks: 1 - 2 and 1 - 8; overall 1 - 4."""
    result = payload(benchmarks={"m.f": ratio(9.0, 2.0), "n.f": ratio("bad", 8.0)}, snapshot=BROKEN)
    assert result["fallback_to_baseline"] is True
    assert result["task_speedup"] == 1.0
    assert result["agent_advantage"] == pytest.approx(-3.0)
    assert result["agent_advantage_level1"] == pytest.approx((-1.0 - 7.0) / 2)
    assert (result["num_benchmarks"], result["num_valid_benchmarks"]) == (2, 2)
    assert result["per_benchmark_speedups"]["n.f"] == {
        "agent/nop": 1.0,
        "oracle/nop": 8.0,
        "advantage": -7.0,
        "fallback_to_baseline": True,
    }


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


def test_r4_nop_never_falls_back_alone_or_in_a_group() -> None:
    event = a_trial(
        agent="nop", agent_index=1, tests=counts(3, 0), snapshot=BROKEN, benchmarks={"m.f": ratio(2.0, 1.0)}
    )
    for one_scored in (score_trial(event, RULES), *score_trial_group([event], RULES)):
        assert one_scored.formulacode is not None
        assert (one_scored.success, one_scored.formulacode.fallback, one_scored.formulacode.task_speedup) == (
            False,
            False,
            2.0,
        )


@pytest.mark.parametrize("agent", ["oracle", "nopx", "NOP", "terminus"])
def test_every_other_agent_falls_back_the_oracle_too(agent: str) -> None:
    assert score(agent=agent, snapshot=BROKEN, benchmarks={"m.f": ratio(2.0, 1.0)}).fallback is True


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


def test_a_trial_without_a_harness_has_the_plans() -> None:
    rules = ScoringRules(RULES.prices, harness="terminal-bench")
    assert score_trial(a_trial(failure_mode="unknown_agent_error"), rules).infrastructure_failure
    other = a_trial(failure_mode="unknown_agent_error", harness="harbor")
    assert not score_trial(other, rules).infrastructure_failure


def test_the_plan_names_infrastructure_failures_in_place_of_the_table() -> None:
    rules = ScoringRules(RULES.prices, infrastructure=frozenset({"agent_timeout"}))
    timeout = a_trial(harness="terminal-bench", failure_mode="agent_timeout")
    error = a_trial(harness="terminal-bench", failure_mode="unknown_agent_error")
    assert score_trial(timeout, rules).infrastructure_failure
    assert not score_trial(error, rules).infrastructure_failure


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


def test_r20_only_the_exact_label_makes_an_oracle() -> None:
    failing = counts(9, 0, status="failed")
    agent = a_trial(agent="a", agent_index=2, tests=counts(1, 0, status="failed"))
    named = {label: a_trial(agent=label, agent_index=1, tests=failing) for label in ("oracle", "oracle-v2")}
    assert successes(named["oracle"], agent)[1] is True
    assert successes(named["oracle-v2"], agent) == [False, False]


def test_r20_the_counts_of_an_oracle_with_a_parse_error_stand_where_they_are_readable() -> None:
    tests = counts(2, 0, status="failed")
    oracle = a_trial(agent="oracle", agent_index=1, tests=tests, resolved=None, failure_mode="parse_error")
    assert successes(oracle, a_trial(agent="a", agent_index=2, tests=tests))[1] is True


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
