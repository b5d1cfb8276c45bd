"""Scores of trials: FormulaCode's aggregates, payloads and advantages, grades, success, and failures."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.folding.groups import FormulaCodeSums
from streamer.folding.prices import PriceTable
from streamer.folding.score import (
    Scored,
    ScoringRules,
    UnknownProfile,
    cost_of_pass,
    deciding_sub_trial,
    grading_profile,
    score_trial,
    score_trial_group,
)
from streamer.folding.score.formulacode import (
    MAX_PAYLOAD_BYTES,
    TaskMetrics,
    benchmark_name,
    speedups,
    task_metrics,
)
from streamer.folding.summaries import cost_delta, tier_uplift
from streamer.schemas.base import canonical_json, model_for_pricing, model_for_reporting
from streamer.schemas.events import ADVANTAGES, EVENT, TrialResult
from tests.folding.build import (
    AGENT,
    BROKEN,
    RULES,
    Json,
    a_trial,
    counts,
    formulacode_numbers,
    payload,
    ratio,
    score,
    scored,
)
from tests.support.data import shared_data
from tests.support.events import Event, a_plan, an_end, summarised
from tests.support.events import a_trial as an_event
from tests.support.examples import any_of, examples
from tests.support.formulacode_cases import decoded, the_case
from tests.support.formulacode_trials import failures, snapshots, suites

# The aggregate forgets


claims = st.dictionaries(
    st.sampled_from(ADVANTAGES), st.sampled_from([0.5, -0.25, -1.0, -3.0, 1e300]), min_size=1
)
counted_trials = any_of(
    {"tests": failures, "snapshot": snapshots, "benchmarks": suites, "claimed": st.none() | claims}
    | {"cost_usd": [None, 0.0, 0.1, 2.5], "trajectory_length": [None, 3, 10]}
).map(lambda fields: an_event(**fields))


def scored_event(event: Event) -> Scored:
    decoded = EVENT.validate_json(json.dumps(event))
    assert isinstance(decoded, TrialResult)
    return score_trial(decoded, RULES)


@examples(150)
@given(st.lists(counted_trials, max_size=8), st.randoms(use_true_random=False))
def test_what_is_taken_back_leaves_the_aggregate_of_the_rest(events: list[Event], rng: random.Random) -> None:
    scores = [(trial, trial.formulacode) for trial in map(scored_event, events)]
    known = [FormulaCodeSums.of([score], failures=not trial.success) for trial, score in scores if score]
    state, rest = FormulaCodeSums(), FormulaCodeSums()
    for trial in known:
        state.merge(trial)
    rng.shuffle(known)
    withdrawn = rng.randrange(len(known) + 1)
    for trial in known[:withdrawn]:
        state.unmerge(trial)
    for trial in known[withdrawn:]:
        rest.merge(trial)
    assert formulacode_numbers(state) == formulacode_numbers(rest)
    for trial in known[withdrawn:]:
        state.unmerge(trial)
    assert formulacode_numbers(state) == formulacode_numbers(FormulaCodeSums())


# What the means rest on


def test_the_largest_numbers_stop_no_summary() -> None:
    huge = dict.fromkeys(("m.f", "n.f"), ratio(1.7e308, 1.0))
    claimed = {"total_benchmarks": 9 * 10**18, "num_valid_benchmarks": 1e300, "agent_advantage": 1.7e308}
    trials = [an_event(task_id=f"h{n}", benchmarks=huge, cost_usd=5e-324) for n in range(3)]
    trials += [an_event(task_id=f"c{n}", claimed=claimed) for n in range(3)]
    stored = summarised(trials)[AGENT]["formulacode"]
    assert stored["mean_speedup"] == pytest.approx(1.7e308)
    assert stored["cost_weighted_advantage"] == "Infinity"
    assert (stored["num_benchmarks"], stored["num_valid_benchmarks"]) == (6, 6)


# Planned agents without a sub-trial (R21)


def sub_trial(task: str, agent: str, index: int, **fields: Any) -> Event:
    shown = {"m.f": {"agent/nop": 1.2, "oracle/nop": 1.5}}
    return an_event(task_id=task, agent=agent, model="m", agent_index=index, benchmarks=shown, **fields)


def test_a_planned_label_without_a_model_means_the_unknown_model() -> None:
    plan = a_plan(agent_models=["a", "b:"])
    events = [sub_trial("t1", "a", 1) | {"model": None}, sub_trial("t1", "b", 2) | {"model": None}]
    stored = summarised([plan, *events, an_end()])
    agents = {key for key in stored if key.startswith("agent_model")}
    assert agents == {"agent_model run-1|a:unknown", "agent_model run-1|b:unknown"}
    assert stored["agent_model run-1|a:unknown"]["formulacode"]["missing"] == 0


# -----------------------------------------------------------------------------
# What the existing harnesses compute, recomputed: names, costs, success, per-run and cross-tier numbers.
#
# Where a ruling departs from a harness, the test names it.


PROFILE = grading_profile("specified")
PRICES = PriceTable.default()
RULES_OF_CONFORMANCE = ScoringRules(PRICES, PROFILE)
Case = dict[str, Any]


def approx(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-15)


def lines(name: str) -> list[Case]:
    text = (shared_data() / "scylla" / name).read_text(encoding="utf-8")
    return [decoded(json.loads(line)) for line in text.split("\n") if line]


def functions(fn: str) -> list[Case]:
    result = [case for case in lines("function_cases.jsonl") if case["fn"] == fn]
    assert result
    return result


def of_row(row: Case) -> TrialResult:
    """A row of the published tables; impl_rate is the column `score` (S16), clamped as S2 does."""
    same = {name: row[name] for name in ("cost_usd", "duration_seconds", "tier", "subtest")}
    score = min(1.0, max(0.0, row["score"]))
    return a_trial(resolved=row["passed"], score=score, attempt=row["run_number"], **same)


# ProjectScylla


@pytest.mark.parametrize("dataset", ["dryrun", "haiku_n3", "haiku_draft"])
def test_every_published_row_scores_as_published(dataset: str) -> None:
    rows = {row["row"]: row for row in lines(f"{dataset}.jsonl")}
    expected = lines(f"{dataset}_per_run_expected.jsonl")
    assert {answer["row"] for answer in expected} == set(rows)
    for answer in expected:
        scored = score_trial(of_row(rows[answer["row"]]), RULES_OF_CONFORMANCE)
        for name in ("pass_rate", "impl_rate", "cost_of_pass", "composite_score"):
            assert getattr(scored, name) == answer[name], name
        assert PROFILE.grade(scored.composite_score) == answer["letter_grade"]


def test_published_grades_follow_the_later_profile() -> None:
    later = grading_profile("scylla-2026")
    graded = [row for row in lines("haiku_n3.jsonl") if row["grade"]]
    assert graded
    assert [later.grade(row["score"]) for row in graded] == [row["grade"] for row in graded]


COMPUTED: dict[str, Callable[[Case], Any]] = {
    "letter_grade": lambda case: PROFILE.grade(case["score"]),
    "composite": lambda case: replace(
        PROFILE, pass_weight=case["pass_weight"], impl_weight=case["impl_weight"]
    ).composite(case["pass_rate"], case["impl_rate"]),
    "cost_of_pass": lambda case: cost_of_pass(
        case["cost"] / case["pass_rate"] if case["pass_rate"] > 0 else None, case["pass_rate"] > 0
    ),
    "cost_delta": lambda case: cost_delta(case["costs"]),
    "tier_uplift": lambda case: tier_uplift(case["tier"], case["baseline"]),
}


@pytest.mark.parametrize("fn", COMPUTED)
def test_numbers_are_the_harness_s_but_r23_none_where_the_baseline_is_not_above_zero(fn: str) -> None:
    for case in functions(fn):
        expected = case["expected"] if fn != "tier_uplift" or case["baseline"] > 0 else None
        close = approx(expected) if isinstance(expected, float) else expected
        assert COMPUTED[fn](case) == close, case["id"]


# FormulaCode


def test_model_names() -> None:
    expected = the_case("model_names").expected
    for row in expected:
        assert model_for_pricing(row["model"]) == row["pricing"]
        assert model_for_reporting(row["model"]) == row["reporting"]


def test_costs_but_r2_what_the_harness_cannot_price_is_unknown_or_priced_never_zero() -> None:
    expected = the_case("costs").expected
    assert any(row["cost"] for row in expected)
    for row in expected:
        cost = PRICES.cost(row["model"] or "unknown", row["input_tokens"], row["output_tokens"])
        if row["cost"]:
            assert cost == approx(row["cost"]), row
        else:
            assert cost is None or cost > 0, row


# -----------------------------------------------------------------------------
# FormulaCode's payload of a trial: what was not measured, claims, limits (R3, R21, R22).


# What was not measured


@pytest.mark.parametrize(
    ("benchmarks", "fields", "speedup", "counted"),
    [
        (None, {"tests": counts(0, 0)}, None, (0, 0)),
        ({}, {}, None, (0, 0)),
        ({"m.f": ratio("x", 2.0)}, {}, None, (1, 0)),
        ({"m.f": {"agent/nop": 2.0}, "m.g": ratio(8.0, None), "m.h": {"agent/nop": "x"}}, {}, 4.0, (3, 0)),
        ({"m.f": {"agent_s": 1.0, "nop_s": 2.0}}, {}, 2.0, (1, 0)),
        ({"m.f": {"agent/nop": 2.0}, "m.g": ratio(8.0, 0.0)}, {}, None, (2, 0)),
        ({"m.f": {"agent/nop": 2.0}}, {"snapshot": BROKEN}, 1.0, (1, 0)),
    ],
    ids=["null", "empty", "R21: invalid", "R22: no oracle", "seconds", "R22: a bad oracle", "R22: fallback"],
)
def test_r21_r22_what_was_not_measured_is_unknown(
    benchmarks: Json | None, fields: Json, speedup: float | None, counted: tuple[int, int]
) -> None:
    result = score(benchmarks=benchmarks, **fields)
    assert result.task_speedup == (speedup and pytest.approx(speedup))
    assert (result.advantages, result.fallback) == (None, "snapshot" in fields)
    assert (result.num_benchmarks, result.num_valid_benchmarks) == counted
    assert payload(benchmarks=benchmarks, **fields)["per_benchmark_speedups"] == benchmarks or benchmarks


# Claims

CLAIMED = dict.fromkeys(ADVANTAGES, 0.25) | {"total_benchmarks": 9, "num_valid_benchmarks": 7}


@pytest.mark.parametrize("benchmarks", [None, {}])
def test_r3_claims_without_speedups_are_kept_and_marked(benchmarks: Json | None) -> None:
    result = payload(claimed=CLAIMED, benchmarks=benchmarks)
    assert {name: result[name] for name in ADVANTAGES} == dict.fromkeys(ADVANTAGES, 0.25)
    assert (result["claimed"], result["num_benchmarks"], result["num_valid_benchmarks"]) == (True, 9, 7)


def test_r3_claims_beside_speedups_are_recomputed() -> None:
    result = payload(claimed=CLAIMED, benchmarks={"m.f": ratio(3.0, 1.0)})
    assert {name: result[name] for name in ADVANTAGES} == dict.fromkeys(ADVANTAGES, pytest.approx(2.0))
    assert (result["claimed"], result["num_benchmarks"]) == (False, 1)


def test_r1_a_level_that_a_log_does_not_claim_is_unknown() -> None:
    result = payload(claimed={"agent_advantage": 0.5, "agent_advantage_level1": "0.5"})
    assert [result[name] for name in ADVANTAGES] == [0.5, None, None, None, None]
    assert result["claimed"] is True
    assert payload(claimed={"agent_advantage": None, "total_benchmarks": 2})["claimed"] is False


@pytest.mark.parametrize("count", [-1, 10_001, 9 * 10**18, 1e300, "3", None, True])
def test_an_impossible_claimed_count_is_no_claim(count: Any) -> None:
    result = payload(claimed={"total_benchmarks": count, "num_valid_benchmarks": 3})
    assert (result["num_benchmarks"], result["num_valid_benchmarks"]) == (0, 3)


def test_the_percentage_is_recomputed_where_benchmarks_are_given() -> None:
    """After a fallback it is 0, whatever the log says (B14); old logs have only the percentage (B9)."""
    measured = {"benchmarks": {"m.f": ratio(3.0, 1.0)}, "speedup_percentage": 7.5}
    assert score(**measured).speedup_percentage == pytest.approx(200.0)
    assert score(**measured, snapshot=BROKEN).speedup_percentage == 0.0
    assert score(speedup_percentage=7.5).speedup_percentage == 7.5


# Payload


def test_a_payload_carries_what_the_specification_lists() -> None:
    tests = {"status": "ok", "passed": 5, "failed": 0, "error": 0, "skipped": 1, "total": 6}
    snapshot = {"status": "passed", "passed": 2, "failed": 0, "total": 2, "pass_to_fail": 0.0}
    numbers = {"cost_usd": 0.5, "trajectory_length": 12}
    result = payload(benchmarks={"m.f": ratio(3.0, 1.0)}, tests=tests, snapshot=snapshot, **numbers)
    assert result["pytest_summary"] == tests | {"failed_total": 0}
    assert result["snapshot_summary"]["failed"] == 0
    assert (result["success"], result["task_cost_usd"], result["trajectory_length"]) == (True, 0.5, 12)
    assert result["benchmarks_left_out"] == 0


def test_a_trial_without_any_of_its_sections_is_no_formulacode_trial() -> None:
    assert score_trial(a_trial(resolved=True, trajectory_length=3), RULES).formulacode is None


def many(size: int, name: str = "package.module.Class.time_function({})") -> Json:
    return {name.format(i): ratio(1.0 + i / size, 1.1) for i in range(size)}


def test_a_payload_that_is_too_large_keeps_the_hundred_slowest_and_fastest_and_says_so() -> None:
    size = 9_999
    result = payload(benchmarks=many(size) | {"invalid": None})
    kept = result["per_benchmark_speedups"]
    assert len(canonical_json(result)) <= MAX_PAYLOAD_BYTES
    counted = len(kept), result["benchmarks_left_out"], result["num_benchmarks"]
    assert counted == (200, size + 1 - 200, size + 1)
    slowest = {"invalid", *(f"package.module.Class.time_function({i})" for i in range(99))}
    fastest = {f"package.module.Class.time_function({i})" for i in range(size - 100, size)}
    assert set(kept) == slowest | fastest


def test_a_payload_that_fits_leaves_nothing_out() -> None:
    result = payload(benchmarks=many(1000))
    assert (len(result["per_benchmark_speedups"]), result["benchmarks_left_out"]) == (1000, 0)


@pytest.mark.parametrize("length", [2_000, 4_000])
def test_even_with_very_long_names_a_payload_keeps_its_limit(length: int) -> None:
    result = payload(benchmarks=many(min(400, 900_000 // length), "x" * length + "{}"))
    assert len(canonical_json(result)) <= MAX_PAYLOAD_BYTES
    assert len(result["per_benchmark_speedups"]) + result["benchmarks_left_out"] == result["num_benchmarks"]


# -----------------------------------------------------------------------------
# The advantages are those of a plain computation, group by group, to the last bit.


names = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "a.", "a.b.", "x.y.z."]),
    st.sampled_from(["", "C.", "D.", "c."]),
    st.sampled_from(["f", "g", "time_x"]),
    st.sampled_from(["", "(1)", "(2)", "(n='a')"]),
)
any_ratio = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1.0, 0.1, 1.7, 5e-324, 0.0, -1.0]))


def plainly(benchmarks: dict[str, Any]) -> tuple[float, ...] | None:
    """Levels 1 to 4 as the specification says it: group, take both geometric means, average (A5, A6).

    Where no benchmark is valid, nothing was measured (R21).
    """
    valid = [one for one in speedups(benchmarks, fallback=False) if one.advantage is not None]
    levels = []
    for depth in (1, 2, 3, 0):
        groups: dict[tuple[str | None, ...], list[tuple[float, float]]] = {}
        for one in valid:
            logs = (math.log(one.agent or 0.0), math.log(one.oracle or 0.0))
            groups.setdefault(benchmark_name(one.name)[:depth], []).append(logs)
        sides = (zip(*group, strict=True) for group in groups.values())
        differences = [_gmean(agent) - _gmean(oracle) for agent, oracle in sides]
        levels.append(math.fsum(differences) / len(differences) if differences else 0.0)
    return tuple(levels) if valid else None


def _gmean(logs: tuple[float, ...]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(names, st.builds(ratio, any_ratio, any_ratio), max_size=60))
def test_the_levels_are_those_of_a_plain_computation(benchmarks: dict[str, Any]) -> None:
    """Invalid entries among them count in no level (A1)."""
    assert repr(task_metrics(benchmarks, fallback=False).advantages) == repr(plainly(benchmarks))


def test_more_benchmarks_than_are_remembered_give_the_same_bits() -> None:
    benchmarks = {f"m{i % 7}.C{i % 31}.f({i})": ratio(1.0 + i / 977, 1.3) for i in range(2_500)}
    assert task_metrics(benchmarks, fallback=False).advantages == plainly(benchmarks)


# -----------------------------------------------------------------------------
# Speedups of single benchmarks: valid ratios, ratios from seconds, and of failed agents (R21).


@pytest.mark.parametrize(
    "value", [None, "1.2", [2.0], {}, 0, 0.0, -1.0, False, -math.inf, math.inf, math.nan]
)
def test_what_is_no_positive_finite_number_is_invalid(value: Any) -> None:
    result = task_metrics({"m.f": ratio(value, 1.0), "m.g": ratio(4.0, 1.0)}, fallback=False)
    assert result == TaskMetrics(4.0, (3.0, 3.0, 3.0, 3.0), 2, 1)


@pytest.mark.parametrize("value", [True, 1, 1e-320, 10**18, 5e-324, sys.float_info.max])
def test_every_positive_finite_number_is_valid(value: Any) -> None:
    result = task_metrics({"m.f": ratio(value, 1.0)}, fallback=False)
    assert result.num_valid_benchmarks == 1
    assert result.task_speedup == pytest.approx(float(value), rel=1e-12)


def test_seconds_become_ratios_over_the_baseline_by_medians_of_the_samples() -> None:
    given_seconds = {"agent_s": [4.0, 1.0, 2.0], "nop_s": [6.0, 2.0], "oracle_s": 1.0}
    assert payload(benchmarks={"m.f": given_seconds})["per_benchmark_speedups"] == {
        "m.f": {"agent/nop": 2.0, "oracle/nop": 4.0, "advantage": -2.0}
    }


SECONDS: Json = {"agent_s": 1.0, "nop_s": 1.0, "oracle_s": 1.0}


@pytest.mark.parametrize(
    "entry",
    [
        *(SECONDS | {"agent_s": bad} for bad in ([], [1.0, 0.0], [1.0, "2"], -1.0)),
        *(SECONDS | {name: None} for name in ("nop_s", "oracle_s")),
        {"agent_s": 1.0, "oracle_s": 1.0},
        SECONDS | {"agent_s": 5e-324, "nop_s": 1e308},
    ],
)
def test_seconds_that_give_no_ratio_are_invalid(entry: Json) -> None:
    result = score(benchmarks={"m.f": ratio(2.0, 1.0), "m.g": entry})
    assert (result.num_benchmarks, result.num_valid_benchmarks, result.task_speedup) == (2, 1, 2.0)


def test_a_ratio_that_is_given_wins_over_seconds() -> None:
    entry = ratio(3.0, 1.0) | SECONDS
    assert score(benchmarks={"m.f": entry}).task_speedup == pytest.approx(3.0)
    assert score(benchmarks={"m.f": entry | {"agent/nop": None}}).num_valid_benchmarks == 0


def test_r21_a_failed_agents_claims_do_not_count() -> None:
    result = score(tests=counts(1, 0), claimed={"agent_advantage": 5.0, "total_benchmarks": 3})
    assert (result.advantages, result.claimed, result.num_benchmarks) == (None, False, 0)


def test_r21_measured_benchmarks_without_any_sign_of_failure_stand() -> None:
    signs: list[Json] = [{}, {"resolved": False}, {"failure_mode": "agent_timeout"}]
    signs.append(signs[2] | {"resolved": True})
    measured = [score(benchmarks={"m.f": ratio(2.0, 1.0)}, **sign) for sign in signs]
    assert [one.task_speedup for one in measured] == [2.0, 1.0, 1.0, 2.0]


@given(st.permutations(range(4)))
def test_r21_the_order_of_the_sub_trials_changes_no_benchmark(order: list[int]) -> None:
    suites: list[Json] = [{"m.f": ratio(1.0, 3.0)}, {"m.f": ratio(2.0, 2.0), "m.g": ratio(5.0, 5.0)}]
    suites.append({"m.h": ratio(2.0, 7.0)})
    events: list[Any] = [
        a_trial(agent=agent, agent_index=index, resolved=True, benchmarks=suite)
        for index, (agent, suite) in enumerate(zip(("nop", "oracle", "terminus"), suites, strict=True), 1)
    ]
    events.append(a_trial(agent="other", agent_index=4, failure_mode="agent_timeout"))
    expected = score_trial_group(events, RULES)
    assert score_trial_group([events[place] for place in order], RULES) == [
        expected[place] for place in order
    ]
    failed = expected[3].formulacode
    assert failed is not None
    assert failed.advantages is not None
    assert failed.num_valid_benchmarks == 3
    assert failed.advantages[0] == pytest.approx(1.0 - (2.0 * 5.0 * 7.0) ** (1 / 3))


# -----------------------------------------------------------------------------
# FormulaCode's score: validity, fallback (A, C, R3, R4, R21, R22).


def test_numbers_at_the_edge_of_floats_overflow_nothing() -> None:
    """Their sum is infinite, their mean is not."""
    huge = sys.float_info.max
    result = task_metrics({f"m{i}.f": ratio(huge, 1.0) for i in range(3)}, fallback=False)
    assert result.advantages == pytest.approx((huge,) * 4)
    assert score(benchmarks={"m.f": ratio(huge, 1.0)}).speedup_percentage is None


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
    unknown = dict.fromkeys(f"m.{name}" for name in ("missing", "text", "negative", "zero", "bad_seconds"))
    assert shown == unknown | {"m.kept": 2.0, "m.seconds": 4.0}
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


TERMINAL_BENCH, BY_TIMEOUT = {"harness": "terminal-bench"}, {"infrastructure": frozenset({"agent_timeout"})}


@pytest.mark.parametrize(
    ("plan", "harness", "failure_mode", "resolved", "excluded"),
    [
        ({}, "terminal-bench", "unknown_agent_error", None, True),
        ({}, "fc-eval", "agent_installation_failed", False, True),
        ({}, "harbor", "ApiOverloadedError", None, True),
        ({}, "harbor", "unknown_agent_error", None, False),
        ({}, "terminal-bench", "agent_timeout", None, False),
        ({}, "terminal-bench", "unknown_agent_error", True, False),
        ({}, None, "infrastructure_error", None, True),
        ({}, None, "unknown_agent_error", None, False),
        ({}, "terminal-bench", None, None, False),
        (TERMINAL_BENCH, None, "unknown_agent_error", None, True),
        (TERMINAL_BENCH, "harbor", "unknown_agent_error", None, False),
        (BY_TIMEOUT, "terminal-bench", "agent_timeout", None, True),
        (BY_TIMEOUT, "terminal-bench", "unknown_agent_error", None, False),
    ],
)
def test_an_unresolved_trial_that_the_infrastructure_failed_is_told_apart_as_the_plan_says(
    plan: Json, harness: str | None, failure_mode: str | None, resolved: bool | None, excluded: bool
) -> None:
    trial = a_trial(harness=harness, failure_mode=failure_mode, resolved=resolved)
    assert score_trial(trial, ScoringRules(RULES.prices, **plan)).infrastructure_failure is excluded


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
def test_a_composite_of_rates_lies_within_0_and_1(p: float, i: float, passed: float, impl: float) -> None:
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


FAILED_TESTS = [counts(1, 0), counts(0, 1), counts(1, None), counts(error=1), counts(status="failed")]
FAILED_TESTS += [counts(0, 0, status="failed"), counts(3, 0, status="failed")]
FAILED_TESTS += [counts(status="missing"), counts(0, 0, status="unparsable")]


@pytest.mark.parametrize(
    ("section", "success"),
    [(counts(), True), (counts(0, 0), True), *((section, False) for section in FAILED_TESTS)],
)
def test_tests_of_a_single_trial_are_judged_absolutely(section: dict[str, Any], success: bool) -> None:
    assert scored(resolved=not success, tests=section).success is success


@pytest.mark.parametrize(
    ("oracle", "own", "success"),
    [
        ({"tests": counts(0, 1, status="failed")}, counts(0, 1, status="failed"), True),  # R5: an error
        ({"tests": None}, counts(1, 0), False),
        ({"tests": None}, counts(0, 0), True),
        ({"tests": counts(status="missing")}, counts(1, 0), False),
        ({"tests": counts(status="failed")}, counts(1, 0), False),
        ({"tests": counts(9, 0, status="failed")}, counts(1, 0), True),
        ({"tests": counts(9, 0, status="failed"), "agent": "oracle-v2"}, counts(1, 0), False),
        ({"tests": counts(2, 0, status="failed"), "failure_mode": "parse_error"}, counts(2, 0), True),
        # R5: a section without counts fails
        *(({"tests": counts(5, 0)}, counts(status=of), False) for of in ("missing", "unparsable", "failed")),
    ],
)
def test_r5_r20_an_agent_may_fail_as_often_as_a_readable_oracle(
    oracle: Json, own: Json, success: bool
) -> None:
    reference = a_trial(**{"agent": "oracle", "agent_index": 1} | oracle)
    assert successes(reference, a_trial(agent="a", agent_index=2, tests=own))[1] is success


@pytest.mark.parametrize(
    ("section", "success"),
    [
        *(({"status": "passed"} | more, True) for more in ({}, {"pass_to_fail": 0.0}, {"failed": 7})),
        *(({"status": "passed", "pass_to_fail": share}, False) for share in (0.5, 1.0)),
        *(({"status": status}, False) for status in ("failed", "missing", "unparsable")),
    ],
)
def test_snapshots_fail_on_status_or_on_a_test_that_broke(section: dict[str, Any], success: bool) -> None:
    assert scored(resolved=not success, snapshot=section).success is success


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
