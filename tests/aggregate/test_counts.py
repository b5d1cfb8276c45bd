"""Trials that are counted many at once give what trials counted one by one give."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline, fold_records
from streamer.schemas.wire import Record
from tests.support.events import a_plan, a_retraction, folded, records
from tests.support.events import a_trial as a_result
from tests.support.examples import examples
from tests.worker.deployment import trial_events

SLOT = {"run_id", "task_id", "attempt", "agent", "model", "tier"}
"""Fields that name the slot of a result."""


@examples(8)
@given(seed=st.integers(0, 99))
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
    assert (run.totals.trials, run.totals.slots, run.totals.attempts.tasks) == (80, 120, 40)
    gone = [a_retraction(**{k: v for k, v in e.items() if k in SLOT}) for e in own[:39] + sub_trials]
    pipeline.fold(records(gone))
    run.count()
    assert (run.totals.trials, run.totals.slots, run.totals.attempts.tasks) == (1, 1, 1)
    last = a_retraction(**{k: v for k, v in own[39].items() if k in SLOT})
    pipeline.fold(records([last]))
    run.count()
    assert (run.groups, run.totals.trials, run.totals.attempts.tasks) == ({}, 0, 0)
    assert {total.count for total in run.totals.sums.values()} == {0}
