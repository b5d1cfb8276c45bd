"""Trials scored many at once: the same columns as of trials scored one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.plain import PlainTrial
from streamer.aggregate.slots import slot_key
from streamer.aggregate.trials import Trials
from streamer.fold import fold_records
from streamer.pipeline import Pipeline, Record
from streamer.score import PriceTable, grading_profile, measured, score_trial
from tests.support.events import a_plan
from tests.worker.deployment import trial_events

PRICES = PriceTable.default()
PROFILES = [grading_profile(name) for name in (None, "scylla-2026", "specified@0.7:0.3", "specified@0:0")]
TIMES = st.none() | st.sampled_from([datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in (0, 7)])

COUNTS = st.none() | st.integers(0, 2**53)
AMOUNTS = st.none() | st.floats(0, 1e15)
TRIALS = st.builds(
    PlainTrial,
    type=st.just("trial_result"),
    run_id=st.just("r"),
    task_id=st.sampled_from("ab"),
    subtest=st.none() | st.sampled_from("st"),
    model=st.sampled_from(["gpt-4o", "a-model-without-price"]),
    resolved=st.none() | st.booleans(),
    score=st.none() | st.sampled_from([-0.0, -3.0, 0.0, 1.0, 7.5]) | st.floats(0, 1),
    cost_usd=AMOUNTS,
    duration_seconds=AMOUNTS,
    started_at=TIMES,
    finished_at=TIMES,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    cache_read_tokens=COUNTS,
    cache_write_tokens=COUNTS,
    trajectory_length=COUNTS,
    failure_mode=st.none() | st.sampled_from(["timeout", "error"]),
)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@given(trials=st.lists(TRIALS, min_size=1, max_size=60))
def test_columns_of_trials_scored_together_are_those_of_trials_scored_alone(
    profile: Any, trials: list[PlainTrial]
) -> None:
    """Weights, prices, missing values and scores outside of [0, 1] included (R2, R13, R14, R20)."""
    together = Trials.of_measured([measured(trial.task_id, trial, PRICES) for trial in trials], profile)
    alone = Trials.of([(slot_key(trial), score_trial(trial, profile, PRICES)) for trial in trials])
    assert _said(together) == _said(alone)


def _said(trials: Trials) -> dict[str, Any]:
    """Everything in a comparable form: values in order, since nothing depends on theirs."""
    said = trials._asdict() | {
        "formulacode": trials.formulacode.pairs,
        "values": {metric: sorted(values.kept) for metric, values in trials.values.items()},
        "finite": {metric: values.finite for metric, values in trials.values.items()},
        "sums": {metric: values.sums.summary() for metric, values in trials.values.items()},
    }
    return said | {"passed": [passed.__class__ for _, passed in trials.attempts]}


@pytest.mark.parametrize("seed", range(6))
def test_trials_scored_together_are_taken_back_as_they_were_counted(seed: int) -> None:
    """Re-runs, retractions, another profile and a new baseline after many trials have come."""
    values = trial_events(400, runs=2, seed=seed)
    plan = a_plan(run_id="run 1", grading_profile="specified@0.7:0.3", baselines=["agent-1"])
    values.insert(300, json.dumps(plan).encode())
    together = fold_records(Record(value, offset) for offset, value in enumerate(values))
    alone = Pipeline()
    for offset, value in enumerate(values):
        alone.fold([Record(value, offset)])
        for run_id in alone.runs():
            alone.cut(run_id)
    wanted = [change for run_id in sorted(alone.runs()) for change in alone.all_summaries(run_id)]
    assert [(c.key, c.digest) for c in together.summaries()] == [(c.key, c.digest) for c in wanted]
