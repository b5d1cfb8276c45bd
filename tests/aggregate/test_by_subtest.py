"""Tiers broken down by subtest agree with the tiers."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.breakdowns import by_subtest
from streamer.folding.fold import fold_records
from streamer.folding.state import RunState
from streamer.schemas.wire import records_of_lines
from tests.support.examples import examples

TRIALS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("trial_result"),
            "run_id": st.just("r"),
            "task_id": st.sampled_from("ab"),
            "attempt": st.integers(1, 2),
            "agent": st.sampled_from(["x", "y", "nop"]),
            "tier": st.sampled_from(["T0", "T1", None]),
            "subtest": st.sampled_from(["00", "01", None]),
            "resolved": st.sampled_from([True, False, None]),
            "score": st.sampled_from([None, 0.25, 1.0]),
            "cost_usd": st.sampled_from([None, 0.1, 0.7]),
            "revision": st.integers(0, 2),
        }
    ),
    min_size=1,
    max_size=25,
)

ADDED = ("trials", "resolved", "no_verdict", "superseded", "conflicts", "runs_completed")
NOT_OF_SUBTESTS = {
    "made_with",
    "degraded",
    "type",
    "run_id",
    "runs_planned",
    "provisional",
    "in_flight",
    "uncertainty",
    "subtest",
    "digest",
    "epoch",
} | {
    "state_version",
    "last_event_at",
    "made_with",
    "degraded",
}


def a_run(trials: list[dict[str, Any]]) -> tuple[RunState, dict[tuple[str, str | None], dict[str, Any]]]:
    """The run of these trials, and its tier summaries by tier and agent:model."""
    folding = fold_records(records_of_lines(map(orjson.dumps, trials)))
    tiers = [c.summary for c in folding.summaries() if c.kind == "tier" and c.summary]
    return folding.pipeline.run("r").state, {(tier["tier"], tier["agent_model"]): tier for tier in tiers}


@examples(60)
@given(TRIALS)
def test_counts_of_the_subtests_sum_to_the_tier(trials: list[dict[str, Any]]) -> None:
    run, tiers = a_run(trials)
    bodies = by_subtest(run)
    assert {(body["tier"], body["agent_model"]) for body in bodies} == tiers.keys()
    for place, tier in tiers.items():
        parts = [body for body in bodies if (body["tier"], body["agent_model"]) == place]
        assert len({part["subtest"] for part in parts}) == len(parts)
        for name in ADDED:
            assert sum(part[name] for part in parts) == tier[name], name


@examples(60)
@given(TRIALS)
def test_a_tier_with_one_subtest_says_the_same_as_that_subtest(trials: list[dict[str, Any]]) -> None:
    run, tiers = a_run([{**trial, "subtest": "00"} for trial in trials])
    for body in by_subtest(run):
        tier = tiers[(body["tier"], body["agent_model"])]
        shared = body.keys() - NOT_OF_SUBTESTS
        assert {k: body[k] for k in shared} == {k: tier[k] for k in shared}
        assert tier.keys() - NOT_OF_SUBTESTS == shared


def planned(plan: dict[str, Any]) -> dict[str | None, int | None]:
    """Planned runs of a subtest, by agent:model."""
    trial = {"type": "trial_result", "run_id": "r", "task_id": "t", "tier": "T1", "subtest": "01"}
    started = {"type": "run_started", "run_id": "r", **plan}
    run, _ = a_run([trial | {"agent": "x"}, trial | {"agent": "y"}, trial | {"agent": "nop"}, started])
    return {body["agent_model"]: body["runs_planned"] for body in by_subtest(run)}


def test_runs_are_planned_per_subtest_only_where_the_plan_says_so() -> None:
    """R26 plans 10 runs per tier, which says nothing of its subtests."""
    assert set(planned({}).values()) == {None}
    assert planned({"tasks": 3, "attempts": 2, "subtests": {"T1": 4}}) == {
        None: 12,
        "x:unknown": 6,
        "y:unknown": 6,
        "nop:unknown": 6,
    }
