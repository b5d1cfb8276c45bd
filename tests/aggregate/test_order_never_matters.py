"""The same set of events gives the same digests, whatever the order, the duplicates, the pages (R17, R18)."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.slots import unpacked
from tests.support.events import a_deletion, a_plan, a_retraction, a_start, a_trial, digests, folded, records
from tests.support.examples import examples

maybe = st.none
costs = st.sampled_from([0.0, 0.1, 0.25, 1e300, 1e-320, 3.3, 7.0])
stamps = st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-02T00:00:00Z"])

identities = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from(["t1", "t2"]),
        "attempt": st.integers(1, 2),
        "agent": st.sampled_from(["alpha", "nop", "oracle", "beta"]),
        "tier": st.sampled_from([None, "T0", "T1"]),
        "subtest": st.sampled_from([None, None, "a", "b"]),
    }
)
contents = st.fixed_dictionaries(
    {
        "revision": st.integers(0, 2),
        "resolved": st.sampled_from([True, False, None]),
        "score": maybe() | st.sampled_from([0.2, 0.9, 1.3]),
        "cost_usd": maybe() | costs,
        "duration_seconds": maybe() | st.floats(0, 1e5),
        "input_tokens": maybe() | st.integers(0, 10**6),
        "finished_at": stamps,
        "agent_index": st.sampled_from([None, None, 1, 2, 3]),
        "tests": st.sampled_from([None, {"status": "failed", "failed": 1}, {"status": "ok", "passed": 3}]),
        "failure_mode": st.sampled_from([None, "unset", "agent_timeout"]),
        "metrics": st.sampled_from([None, None, {"reward": 0.1}, {"reward": 1e300, "style/a": -3}, {}]),
    }
)
trials = st.builds(lambda who, what: a_trial(**who, **what), identities, contents)
starts = st.builds(
    lambda who, what: a_start(**who, **what),
    identities,
    st.fixed_dictionaries(
        {
            "revision": st.integers(0, 2),
            "position": st.sampled_from([None, 0, 1, 2, 5]),
            "started_at": st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]),
        }
    ),
)
retractions = st.builds(
    lambda who, revision: a_retraction(**who, revision=revision), identities, st.integers(0, 2)
)
plans = st.builds(
    a_plan,
    revision=st.integers(0, 3),
    tasks=st.sampled_from([None, 2, ["t1", "t2", "t3"]]),
    attempts=st.sampled_from([None, 1, 2]),
    agent_models=st.sampled_from([None, ["alpha:gpt-5", "oracle:gpt-5"]]),
    tiers=st.sampled_from([None, ["T0", "T1"]]),
    order=st.sampled_from([None, ["t1", "t2"], ["t2", "t1", "t1"], [["t1", 2], "t2"]]),
    order_kind=st.sampled_from([None, "shuffled", "shuffled", "chosen"]),
    concurrency=st.sampled_from([None, 2]),
    task_difficulty=st.sampled_from([None, {"t1": 0.5, "t2": 0.25}]),
    plan_complete=st.sampled_from([None, None, True, False]),
    judged=st.sampled_from([None, True, False]),
    metrics=st.sampled_from([None, {"reward": {"direction": "lower"}}, {"other": {"unit": "USD"}}]),
    primary_metric=st.sampled_from([None, "mean_cost", "metrics/style/a"]),
    grading_profile=st.sampled_from([None, "specified", "scylla-2026", "specified@0.7:0.3"]),
    baselines=st.sampled_from([None, ["beta"]]),
    baseline_tier=st.sampled_from([None, "T1"]),
    labels=st.sampled_from([None, {"a": "1"}, {"a": "2", "b": "3"}]),
)
finishes = st.builds(
    lambda revision, status: {
        "type": "run_finished",
        "run_id": "run-1",
        "revision": revision,
        "status": status,
    },
    st.integers(0, 2),
    st.sampled_from([None, "done", "failed"]),
)
deletions = st.builds(a_deletion, revision=st.integers(-1, 1))
mixed = st.lists(
    st.one_of(trials, trials, trials, starts, starts, retractions, plans, finishes, deletions), max_size=14
)
undeclared = st.builds(
    lambda plan, begun, results, more: [plan, *begun, *results, *more],
    st.builds(a_plan, tasks=st.sampled_from([2, ["t1", "t2"]]), attempts=st.integers(1, 2)),
    st.lists(starts.map(lambda start: start | {"agent": "gamma"}), min_size=1, max_size=3),
    st.lists(trials, min_size=1, max_size=6),
    st.lists(st.one_of(starts, retractions, finishes), max_size=3),
).flatmap(st.permutations)
"""A plan without tiers and subtests, which results show one by one, and an agent that only starts trials."""

events = st.one_of(mixed, undeclared)


def said(pipeline: Pipeline) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The digests of all summaries and comparisons, and the tasks of each run."""
    tasks = {run_id: pipeline.run(run_id).comparisons.tasks() for run_id in pipeline.runs()}
    return digests(pipeline), {run_id: held for run_id, held in tasks.items() if held}


@examples(150)
@given(events, st.randoms(use_true_random=False))
def test_any_order_and_any_duplicates_give_the_same_digests(
    arrived: list[dict[str, Any]], rng: random.Random
) -> None:
    shuffled = arrived + rng.sample(arrived, len(arrived) // 2)
    rng.shuffle(shuffled)
    assert said(folded(shuffled)[0]) == said(folded(arrived)[0])


@examples(100)
@given(events, st.randoms(use_true_random=False))
def test_pages_of_several_writers_join_to_the_same_state(
    arrived: list[dict[str, Any]], rng: random.Random
) -> None:
    pages: list[tuple[str, bytes]] = []
    cuts = sorted(rng.randrange(len(arrived) + 1) for _ in range(2))
    for number, part in enumerate((arrived[: cuts[1]], arrived[cuts[0] :])):
        writer = Pipeline(writer=f"w{number}")
        for record in records(part):
            for run_id in writer.fold([record]).touched:
                held = dict(pages)
                for write in writer.run(run_id).take_pages():
                    if write.value is None:
                        held.pop(write.key, None)
                    else:
                        held[write.key] = write.value
                pages = list(held.items())
    joined = Pipeline(writer="w9")
    repeated = pages + pages
    rng.shuffle(repeated)
    for key, value in repeated:
        joined.load_page(key, value)
    assert said(joined) == said(folded(arrived)[0])


@examples(100)
@given(events)
def test_what_was_cut_along_the_way_ends_as_what_stands(arrived: list[dict[str, Any]]) -> None:
    pipeline = Pipeline()
    published: dict[tuple[str, str], bytes] = {}
    scored: dict[str, bytes] = {}
    tasks: dict[str, dict[str, str]] = {}
    for record in records(arrived):
        for run_id in pipeline.fold([record]).touched:
            cut = pipeline.run(run_id).take_changes()
            for change in cut.summaries:
                if change.value is None:
                    del published[change.kind, change.key]
                else:
                    published[change.kind, change.key] = change.value
            if cut.tasks is not None:
                tasks[run_id] = unpacked(cut.tasks.packed)
            for trial in cut.scored:
                if trial.value is None:
                    scored.pop(trial.key, None)
                else:
                    scored[trial.key] = trial.value
    at_once = folded(arrived)[0]
    standing = {
        (change.kind, change.key): change.digest
        for run_id in at_once.runs()
        for change in at_once.run(run_id).summaries()
    }
    assert {key: json.loads(value)["digest"] for key, value in published.items()} == standing
    assert {run_id: held for run_id, held in tasks.items() if held} == said(at_once)[1]
    whole = {
        trial.key: json.loads(trial.value)["digest"]
        for run_id in at_once.runs()
        for trial in at_once.run(run_id).take_changes().scored
        if trial.value is not None
    }
    assert {key: json.loads(value)["digest"] for key, value in scored.items()} == whole


@examples(60)
@given(events)
def test_nothing_changed_means_nothing_is_cut(arrived: list[dict[str, Any]]) -> None:
    pipeline, result = folded(arrived)
    for run_id in result.touched:
        pipeline.run(run_id).take_changes()
    again = pipeline.fold(records(arrived))
    for run_id in again.touched:
        assert pipeline.run(run_id).take_changes().summaries == []
