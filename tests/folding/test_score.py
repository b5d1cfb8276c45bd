"""FormulaCode's aggregate of an agent:model: what its means rest on; it forgets what is taken back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.groups import FormulaCodeSums
from streamer.folding.prices import PriceTable
from streamer.folding.score import Scored, ScoringRules, cost_of_pass, grading_profile, score_trial
from streamer.folding.score.formulacode import MAX_PAYLOAD_BYTES
from streamer.folding.summaries import cost_delta, tier_uplift
from streamer.schemas.base import canonical_json, model_for_pricing, model_for_reporting
from streamer.schemas.events import ADVANTAGES, EVENT, TrialResult
from tests.folding.build import AGENT, BROKEN, RULES, counts, formulacode_numbers, payload, ratio, score
from tests.folding.build import a_trial as a_result
from tests.support.data import shared_data
from tests.support.events import Event, a_deletion, a_plan, a_retraction, a_trial, an_end, records, summarised
from tests.support.examples import examples
from tests.support.formulacode_cases import decoded, the_case
from tests.support.formulacode_trials import Json, failures, snapshots, suites

# The aggregate forgets


claims = st.dictionaries(
    st.sampled_from(ADVANTAGES), st.sampled_from([0.5, -0.25, -1.0, -3.0, 1e300]), min_size=1
)
counted_trials = st.builds(
    a_trial,
    tests=failures,
    snapshot=snapshots,
    benchmarks=suites,
    claimed=st.none() | claims,
    cost_usd=st.sampled_from([None, 0.0, 0.1, 2.5]),
    trajectory_length=st.sampled_from([None, 3, 10]),
)


def scored(event: Event) -> Scored:
    decoded = EVENT.validate_json(json.dumps(event))
    assert isinstance(decoded, TrialResult)
    return score_trial(decoded, RULES)


@examples(150)
@given(st.lists(counted_trials, max_size=8), st.randoms(use_true_random=False))
def test_what_is_taken_back_leaves_the_aggregate_of_the_rest(events: list[Event], rng: random.Random) -> None:
    trials = [(trial, trial.formulacode) for trial in map(scored, events)]
    known = [
        FormulaCodeSums.of([score], failures=not trial.success)
        for trial, score in trials
        if score is not None
    ]
    state, rest = FormulaCodeSums(), FormulaCodeSums()
    for trial in known:
        state.merge(trial)
    missing = rng.sample(range(len(known)), rng.randrange(len(known) + 1))
    for index in missing:
        state.unmerge(known[index])
    for index in sorted(set(range(len(known))) - set(missing), reverse=True):
        rest.merge(known[index])
    assert formulacode_numbers(state) == formulacode_numbers(rest)
    for index in set(range(len(known))) - set(missing):
        state.unmerge(known[index])
    assert formulacode_numbers(state) == formulacode_numbers(FormulaCodeSums())


# What the means rest on


def formulacode(*events: Event) -> Json:
    stored: Json = summarised(events)[AGENT]["formulacode"]
    return stored


def test_the_largest_numbers_stop_no_summary() -> None:
    huge = {
        "m.f": {"agent/nop": 1.7e308, "oracle/nop": 1.0},
        "n.f": {"agent/nop": 1.7e308, "oracle/nop": 1.0},
    }
    claimed = {"total_benchmarks": 9 * 10**18, "num_valid_benchmarks": 1e300, "agent_advantage": 1.7e308}
    stored = formulacode(
        *(a_trial(task_id=f"h{n}", benchmarks=huge, cost_usd=5e-324) for n in range(3)),
        *(a_trial(task_id=f"c{n}", claimed=claimed) for n in range(3)),
    )
    assert stored["mean_speedup"] == pytest.approx(1.7e308)
    assert stored["cost_weighted_advantage"] == "Infinity"
    assert (stored["num_benchmarks"], stored["num_valid_benchmarks"]) == (6, 6)


# Planned agents without a sub-trial (R21)


A_AND_B = ["a:m", "b:m"]


def sub_trial(task: str, agent: str, index: int, **fields: Any) -> Event:
    shown = {"m.f": {"agent/nop": 1.2, "oracle/nop": 1.5}}
    return a_trial(task_id=task, agent=agent, model="m", agent_index=index, benchmarks=shown, **fields)


def stale(*batches: list[Event]) -> set[tuple[str, str]]:
    """Kinds and keys whose last published summary is not what the run says now; a cut follows each batch."""
    pipeline, offset = Pipeline(), 0
    published: dict[tuple[str, str], str] = {}
    for events in batches:
        made = [type(r)(r.value, offset + n, timestamp=r.timestamp) for n, r in enumerate(records(events))]
        pipeline.fold(made)
        offset += len(made)
        for change in pipeline.run("run-1").take_changes().summaries:
            published[change.kind, change.key] = change.digest
    now = {(change.kind, change.key): change.digest for change in pipeline.run("run-1").summaries()}
    return {key for key, digest in published.items() if digest != now.get(key, "")} | (now.keys() - published)


MISSING_B = [sub_trial("t1", "a", 1), sub_trial("t1", "b", 2), sub_trial("t2", "a", 1)]


@pytest.mark.parametrize(
    ("events", "last"),
    [
        ([a_plan(agent_models=A_AND_B), sub_trial("t1", "a", 1)], a_plan(agent_models=["a:m"], revision=2)),
        (
            [a_plan(agent_models=A_AND_B), *MISSING_B],
            a_retraction(task_id="t2", agent="a", model="m", revision=1),
        ),
        (
            [a_plan(agent_models=A_AND_B, revision=1), sub_trial("t1", "a", 1, revision=9)],
            a_deletion(revision=5),
        ),
    ],
    ids=["planned no more", "retracted", "deleted"],
)
def test_an_agent_that_is_missing_no_more_is_published_no_more(events: list[Event], last: Event) -> None:
    assert stale([*events, an_end()], [last]) == set()


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
    return a_result(
        resolved=row["passed"],
        score=min(1.0, max(0.0, row["score"])),
        cost_usd=row["cost_usd"],
        duration_seconds=row["duration_seconds"],
        tier=row["tier"],
        subtest=row["subtest"],
        attempt=row["run_number"],
    )


# ProjectScylla


@pytest.mark.parametrize("dataset", ["dryrun", "haiku_n3", "haiku_draft"])
def test_every_published_row_scores_as_published(dataset: str) -> None:
    rows = {row["row"]: row for row in lines(f"{dataset}.jsonl")}
    expected = lines(f"{dataset}_per_run_expected.jsonl")
    assert {answer["row"] for answer in expected} == set(rows)
    for answer in expected:
        scored = score_trial(of_row(rows[answer["row"]]), RULES_OF_CONFORMANCE)
        assert scored.pass_rate == answer["pass_rate"]
        assert scored.impl_rate == answer["impl_rate"]
        assert scored.cost_of_pass == answer["cost_of_pass"]
        assert scored.composite_score == answer["composite_score"]
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
        assert COMPUTED[fn](case) == (approx(expected) if isinstance(expected, float) else expected), case[
            "id"
        ]


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


UNKNOWN = (None, None)


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
    result = payload(
        benchmarks={"m.f": ratio(3.0, 1.0)},
        tests={"status": "ok", "passed": 5, "failed": 0, "error": 0, "skipped": 1, "total": 6},
        snapshot={"status": "passed", "passed": 2, "failed": 0, "total": 2, "pass_to_fail": 0.0},
        cost_usd=0.5,
        trajectory_length=12,
    )
    assert result["pytest_summary"] == {
        "status": "ok",
        "passed": 5,
        "failed": 0,
        "error": 0,
        "skipped": 1,
        "total": 6,
        "failed_total": 0,
    }
    assert result["snapshot_summary"]["failed"] == 0
    assert (result["success"], result["task_cost_usd"], result["trajectory_length"]) == (True, 0.5, 12)
    assert result["benchmarks_left_out"] == 0


def test_a_trial_without_any_of_its_sections_is_no_formulacode_trial() -> None:
    assert score_trial(a_result(resolved=True, trajectory_length=3), RULES).formulacode is None


def many(size: int, name: str = "package.module.Class.time_function({})") -> Json:
    return {name.format(i): ratio(1.0 + i / size, 1.1) for i in range(size)}


def test_a_payload_that_is_too_large_keeps_the_hundred_slowest_and_fastest_and_says_so() -> None:
    size = 9_999
    result = payload(benchmarks=many(size) | {"invalid": None})
    kept = result["per_benchmark_speedups"]
    assert len(canonical_json(result)) <= MAX_PAYLOAD_BYTES
    assert (len(kept), result["benchmarks_left_out"], result["num_benchmarks"]) == (
        200,
        size + 1 - 200,
        size + 1,
    )
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
