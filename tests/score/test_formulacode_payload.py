"""FormulaCode's payload of a trial: what was not measured, claims, limits (R3, R21, R22)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.folding.score import score_trial
from streamer.folding.score.formulacode import MAX_PAYLOAD_BYTES
from streamer.schemas.events import ADVANTAGES
from streamer.schemas.wire import canonical_json
from tests.score.build import BROKEN, RULES, a_trial, counts, payload, ratio, score

Json = dict[str, Any]


# What was not measured


def test_r21_null_is_not_measured_and_an_empty_dict_is() -> None:
    unmeasured, empty = score(benchmarks=None, tests=counts(0, 0)), score(benchmarks={})
    assert (unmeasured.task_speedup, unmeasured.advantages, unmeasured.speedup_percentage) == (
        None,
        None,
        None,
    )
    assert (empty.task_speedup, empty.advantages, empty.speedup_percentage) == (1.0, (0.0,) * 5, 0.0)
    assert payload(benchmarks=None, tests=counts(0, 0))["per_benchmark_speedups"] is None
    assert payload(benchmarks={})["per_benchmark_speedups"] == {}


def test_r21_no_valid_benchmark_is_a_speedup_of_one_and_no_advantage() -> None:
    found = score(benchmarks={"m.f": ratio("x", 2.0)})
    assert (found.task_speedup, found.advantages, found.num_benchmarks) == (1.0, (0.0,) * 5, 1)


def test_r22_without_any_oracle_value_only_the_speedup_is_known() -> None:
    found = score(benchmarks={"m.f": {"agent/nop": 2.0}, "m.g": ratio(8.0, None), "m.h": {"agent/nop": "x"}})
    assert found.task_speedup == pytest.approx(4.0)
    assert (found.advantages, found.num_benchmarks, found.num_valid_benchmarks) == (None, 3, 0)
    only_seconds = {"agent_s": 1.0, "nop_s": 2.0}
    assert score(benchmarks={"m.f": only_seconds}).task_speedup == 2.0


def test_r22_one_oracle_value_even_invalid_is_enough_to_compare() -> None:
    found = score(benchmarks={"m.f": {"agent/nop": 2.0}, "m.g": ratio(8.0, 0.0)})
    assert (found.task_speedup, found.advantages) == (1.0, (0.0,) * 5)


def test_r22_a_fallback_without_any_oracle_value_is_a_speedup_of_one_without_advantage() -> None:
    found = score(benchmarks={"m.f": {"agent/nop": 2.0}}, snapshot=BROKEN)
    assert (found.fallback, found.task_speedup, found.advantages) == (True, 1.0, None)


# Claims

CLAIMED = dict.fromkeys(ADVANTAGES, 0.25) | {"total_benchmarks": 9, "num_valid_benchmarks": 7}


@pytest.mark.parametrize("benchmarks", [None, {}])
def test_r3_claims_without_speedups_are_kept_and_marked(benchmarks: Json | None) -> None:
    found = payload(claimed=CLAIMED, benchmarks=benchmarks)
    assert {name: found[name] for name in ADVANTAGES} == dict.fromkeys(ADVANTAGES, 0.25)
    assert (found["claimed"], found["num_benchmarks"], found["num_valid_benchmarks"]) == (True, 9, 7)


def test_r3_claims_beside_speedups_are_recomputed() -> None:
    found = payload(claimed=CLAIMED, benchmarks={"m.f": ratio(3.0, 1.0)})
    assert {name: found[name] for name in ADVANTAGES} == dict.fromkeys(ADVANTAGES, pytest.approx(2.0))
    assert (found["claimed"], found["num_benchmarks"]) == (False, 1)


def test_r1_a_level_that_a_log_does_not_claim_is_unknown() -> None:
    found = payload(claimed={"agent_advantage": 0.5, "agent_advantage_level1": "0.5"})
    assert [found[name] for name in ADVANTAGES] == [0.5, None, None, None, None]
    assert found["claimed"] is True
    assert payload(claimed={"agent_advantage": None, "total_benchmarks": 2})["claimed"] is False


@pytest.mark.parametrize("count", [-1, 10_001, 9 * 10**18, 1e300, "3", None, True])
def test_an_impossible_claimed_count_is_no_claim(count: Any) -> None:
    found = payload(claimed={"total_benchmarks": count, "num_valid_benchmarks": 3})
    assert (found["num_benchmarks"], found["num_valid_benchmarks"]) == (0, 3)


def test_the_percentage_is_recomputed_where_benchmarks_are_given() -> None:
    """After a fallback it is 0, whatever the log says (B14); old logs have only the percentage (B9)."""
    measured = {"benchmarks": {"m.f": ratio(3.0, 1.0)}, "speedup_percentage": 7.5}
    assert score(**measured).speedup_percentage == pytest.approx(200.0)
    assert score(**measured, snapshot=BROKEN).speedup_percentage == 0.0
    assert score(speedup_percentage=7.5).speedup_percentage == 7.5


# Payload


def test_a_payload_carries_what_the_specification_lists() -> None:
    found = payload(
        benchmarks={"m.f": ratio(3.0, 1.0)},
        tests={"status": "ok", "passed": 5, "failed": 0, "error": 0, "skipped": 1, "total": 6},
        snapshot={"status": "passed", "passed": 2, "failed": 0, "total": 2, "pass_to_fail": 0.0},
        cost_usd=0.5,
        trajectory_length=12,
    )
    assert found["pytest_summary"] == {
        "status": "ok",
        "passed": 5,
        "failed": 0,
        "error": 0,
        "skipped": 1,
        "total": 6,
        "failed_total": 0,
    }
    assert found["snapshot_summary"]["failed"] == 0
    assert (found["success"], found["task_cost_usd"], found["trajectory_length"]) == (True, 0.5, 12)
    assert found["benchmarks_left_out"] == 0


def test_a_trial_without_any_of_its_sections_is_no_formulacode_trial() -> None:
    assert score_trial(a_trial(resolved=True, trajectory_length=3), RULES).formulacode is None


def many(size: int, name: str = "package.module.Class.time_function({})") -> Json:
    return {name.format(i): ratio(1.0 + i / size, 1.1) for i in range(size)}


def test_a_payload_that_is_too_large_keeps_the_hundred_slowest_and_fastest_and_says_so() -> None:
    size = 9_999
    found = payload(benchmarks=many(size) | {"invalid": None})
    kept = found["per_benchmark_speedups"]
    assert len(canonical_json(found)) <= MAX_PAYLOAD_BYTES
    assert (len(kept), found["benchmarks_left_out"], found["num_benchmarks"]) == (
        200,
        size + 1 - 200,
        size + 1,
    )
    slowest = {"invalid", *(f"package.module.Class.time_function({i})" for i in range(99))}
    fastest = {f"package.module.Class.time_function({i})" for i in range(size - 100, size)}
    assert set(kept) == slowest | fastest


def test_a_payload_that_fits_leaves_nothing_out() -> None:
    found = payload(benchmarks=many(1000))
    assert (len(found["per_benchmark_speedups"]), found["benchmarks_left_out"]) == (1000, 0)


@pytest.mark.parametrize("length", [2_000, 4_000])
def test_even_with_very_long_names_a_payload_keeps_its_limit(length: int) -> None:
    found = payload(benchmarks=many(min(400, 900_000 // length), "x" * length + "{}"))
    assert len(canonical_json(found)) <= MAX_PAYLOAD_BYTES
    assert len(found["per_benchmark_speedups"]) + found["benchmarks_left_out"] == found["num_benchmarks"]


def test_key_order_inside_the_event_never_reaches_the_payload() -> None:
    forward = many(50)
    backward = dict(reversed(forward.items()))
    assert list(json.loads(json.dumps(backward))) != list(forward)
    assert canonical_json(payload(benchmarks=forward)) == canonical_json(payload(benchmarks=backward))
