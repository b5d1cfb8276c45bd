"""What the existing harnesses compute, recomputed: names, costs, success, per-run and cross-tier numbers.

Where a ruling departs from a harness, the test names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from streamer.folding.score import Scored, ScoringRules, cost_of_pass, grading_profile, score_trial
from streamer.folding.score.prices import PriceTable
from streamer.folding.summaries import cost_delta, tier_uplift, variance_of_medians
from streamer.schemas.base import model_for_pricing, model_for_reporting
from streamer.schemas.events import TrialResult
from tests.score.build import a_trial
from tests.support.data import shared_data
from tests.support.formulacode_cases import decoded, the_case

PROFILE = grading_profile("specified")
PRICES = PriceTable.default()
RULES = ScoringRules(PRICES, PROFILE)
Case = dict[str, Any]


def approx(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-15)


def lines(name: str) -> list[Case]:
    text = (shared_data() / "scylla" / name).read_text(encoding="utf-8")
    return [decoded(json.loads(line)) for line in text.split("\n") if line]


def functions(fn: str) -> list[Case]:
    found = [case for case in lines("function_cases.jsonl") if case["fn"] == fn]
    assert found
    return found


def of_row(row: Case) -> TrialResult:
    """A row of the published tables; impl_rate is the column `score` (S16)."""
    return a_trial(
        resolved=row["passed"],
        score=row["score"],
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
        scored = score_trial(of_row(rows[answer["row"]]), RULES)
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


def test_letter_grades() -> None:
    for case in functions("letter_grade"):
        assert PROFILE.grade(case["score"]) == case["expected"], case["id"]


def test_composites() -> None:
    for case in functions("composite"):
        profile = replace(PROFILE, pass_weight=case["pass_weight"], impl_weight=case["impl_weight"])
        composite = profile.composite(case["pass_rate"], case["impl_rate"])
        assert composite == approx(case["expected"]), case["id"]


def test_costs_of_pass() -> None:
    for case in functions("cost_of_pass"):
        rate = case["pass_rate"]
        per_pass = case["cost"] / rate if rate > 0 else None
        assert cost_of_pass(per_pass, rate > 0) == approx(case["expected"]), case["id"]


def test_cost_deltas() -> None:
    for case in functions("cost_delta"):
        assert cost_delta(case["costs"]) == case["expected"], case["id"]


def test_graded_runs() -> None:
    for case in functions("grade_run"):
        event = a_trial(resolved=case["passed"], score=case["weighted_score"], cost_usd=case["cost_usd"])
        scored = score_trial(event, RULES)
        assert {
            "pass_rate": scored.pass_rate,
            "impl_rate": scored.impl_rate,
            "cost_of_pass": scored.cost_of_pass,
            "composite_score": scored.composite_score,
            "letter_grade": PROFILE.grade(scored.composite_score),
        } == case["expected"], case["id"]


def test_tier_uplifts_but_r23_none_where_the_baseline_is_not_above_zero() -> None:
    for case in functions("tier_uplift"):
        expected = case["expected"] if case["baseline"] > 0 else None
        assert tier_uplift(case["tier"], case["baseline"]) == expected, case["id"]


def medians_by_tier(rows: list[Case]) -> dict[str, dict[str, float]]:
    tiers: dict[str, list[Scored]] = defaultdict(list)
    for row in rows:
        tiers[row["tier"]].append(score_trial(of_row(row), RULES))
    metrics = ("pass_rate", "impl_rate", "cost_usd", "composite_score")
    return {
        tier: {metric: median(getattr(scored, metric) for scored in trials) for metric in metrics}
        for tier, trials in tiers.items()
    }


@pytest.mark.parametrize("number", range(5))
def test_cross_tier_numbers_but_r23_no_uplift_over_a_zero_baseline(number: int) -> None:
    case = functions("tiers")[number]
    tiers, expected = medians_by_tier(case["rows"]), case["expected"]["cross_tier"]

    def of(metric: str) -> list[float]:
        return [medians[metric] for medians in tiers.values()]

    assert variance_of_medians(of("pass_rate"), PROFILE.ddof) == approx(expected["pass_rate_variance"])
    assert variance_of_medians(of("impl_rate"), PROFILE.ddof) == approx(expected["impl_rate_variance"])
    assert variance_of_medians(of("cost_usd"), PROFILE.ddof) == approx(expected["cost_variance"])
    assert cost_delta(of("cost_usd")) == approx(expected["cost_delta"])
    for tier, uplift in expected["tier_uplifts"].items():
        ours = tier_uplift(tiers[tier]["composite_score"], tiers["T0"]["composite_score"])
        assert ours == (approx(uplift) if tiers["T0"]["composite_score"] > 0 else None)
    for tier, answer in case["expected"]["tiers"].items():
        assert PROFILE.grade(tiers[tier]["composite_score"]) == answer["grade"]


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
