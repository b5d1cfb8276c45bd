"""Trials counted many at once: the same columns as of trials counted one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from schemas.plain import PlainTrial
from streamer.aggregate import trials as module
from streamer.aggregate.slot_key import slot_key
from streamer.aggregate.trials import Trials
from streamer.fold import fold_records
from streamer.pipeline import Pipeline
from streamer.records import Record
from streamer.score import PriceTable, ScoringRules, grading_profile, score_trial
from streamer.stats import PassAtK
from tests.score.build import a_trial
from tests.support.events import a_plan, a_retraction, folded, records
from tests.support.events import a_trial as a_result
from tests.support.examples import examples
from tests.worker.deployment import trial_events

PRICES = PriceTable.default()
RULES = [
    ScoringRules(PRICES, grading_profile(name))
    for name in (None, "scylla-2026", "specified@0.7:0.3", "specified@0:0")
]
TIMES = st.none() | st.sampled_from([datetime(2026, 1, 1, 0, minute, tzinfo=UTC) for minute in (0, 7)])

SLOT = {"run_id", "task_id", "attempt", "agent", "model", "tier"}
"""Fields that name the slot of a result."""

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


@pytest.fixture(params=[1, 10**9], ids=["in columns", "in lists"])
def _worth(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the parts: as if they were large, or small."""
    monkeypatch.setattr(module, "WORTH_COLUMNS", request.param)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.profile.name)
@pytest.mark.usefixtures("_worth")
# the fixture is the same for all examples
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.lists(TRIALS, min_size=1, max_size=30), min_size=1, max_size=3))
def test_columns_of_several_parts_are_those_of_each_part_alone(
    rules: ScoringRules, parts: list[list[PlainTrial]]
) -> None:
    """Weights, prices, missing values and scores outside of [0, 1] included (R2, R13, R14, R20)."""
    pairs = [[(slot_key(t), score_trial(t, rules)) for t in part] for part in parts]
    wanted = [_said(Trials.of(part)) for part in pairs]
    assert [_said(part) for part in Trials.parts_of(pairs)] == wanted


@pytest.mark.usefixtures("_worth")
def test_parts_with_sections_keep_them() -> None:
    """FormulaCode's sections, a success that is not the verdict's (R20), and a trial without either."""
    tests = {"status": "failed", "failed": 1}
    events = [
        a_trial(
            task_id="a",
            resolved=True,
            tests=tests,
            benchmarks={"b": {"agent/nop": 2.0, "oracle/nop": 1.5}},
            cost_usd=1.0,
        ),
        a_trial(task_id="b", resolved=None),
    ]
    pairs = [(slot_key(e), score_trial(e, RULES[0])) for e in events]
    first, second = Trials.parts_of([pairs[:1], pairs[1:]])
    assert (_said(first), _said(second)) == (_said(Trials.of(pairs[:1])), _said(Trials.of(pairs[1:])))
    assert (len(first.formulacode.pairs), first.resolved, first.passes_with_cost) == (1, 1, 0)
    assert (second.formulacode.pairs, second.no_verdict) == ([], 1)
    assert Trials.parts_of([]) == []


def _said(trials: Trials) -> dict[str, Any]:
    """Everything in a comparable form: values in order, since nothing depends on theirs."""
    said = trials._asdict() | {
        "formulacode": trials.formulacode.pairs,
        "values": {metric: sorted(values.kept) for metric, values in trials.values.items()},
        "finite": {metric: values.finite for metric, values in trials.values.items()},
        "sums": {metric: values.sums.summary() for metric, values in trials.values.items()},
    }
    attempts = PassAtK()
    attempts.extend(trials.attempts)
    return said | {"attempts": (attempts.tasks, attempts.summary())}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("_worth")
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
            alone.run(run_id).take_changes()
    wanted = [change for run_id in sorted(alone.runs()) for change in alone.run(run_id).summaries()]
    assert [(c.key, c.digest) for c in together.summaries()] == [(c.key, c.digest) for c in wanted]


@pytest.mark.usefixtures("_worth")
def test_sub_trials_and_trials_of_their_own_are_taken_back_as_they_were_counted() -> None:
    """Many at once in, the same many at once out: nothing is left of any group or total."""
    sub_trials = [
        a_result(task_id=f"t{n}", agent=agent, agent_index=index, resolved=n % 3 == 0, cost_usd=n / 7)
        for n in range(40)
        for index, agent in enumerate(("oracle", "alpha"), 1)
    ]
    own = [a_result(task_id=f"t{n % 9}", attempt=n, agent="nop", score=n / 40) for n in range(1, 41)]
    pipeline, _ = folded(sub_trials + own, takes_changes=False)
    run = pipeline.run("run-1").state
    run.count()
    assert (run.totals.trials, run.totals.slots, len(run.totals.tasks)) == (80, 120, 40)
    gone = [a_retraction(**{k: v for k, v in e.items() if k in SLOT}) for e in own[:39] + sub_trials]
    pipeline.fold(records(gone))
    run.count()
    assert (run.totals.trials, run.totals.slots, dict(run.totals.tasks)) == (1, 1, {"t4": 1})
    last = a_retraction(**{k: v for k, v in own[39].items() if k in SLOT})
    pipeline.fold(records([last]))
    run.count()
    assert (run.groups, run.totals.trials, len(run.totals.tasks)) == ({}, 0, 0)
    assert {total.count for total in run.totals.sums.values()} == {0}
