"""A cut costs what has changed, however many agents a plan names; and misses nothing that has changed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.folding.fold import Pipeline
from streamer.folding.groups import FormulaCodeSums
from streamer.folding.plan import Plan
from streamer.folding.summaries import MissingTrials, missing_sub_trials
from tests.support.events import Event, a_plan, a_retraction, a_trial, records
from tests.support.examples import examples

RUN = "run-1"
AGENTS = 300
FINISHED = {"type": "run_finished", "run_id": RUN}


def a_sub_trial(agent: int, task: str, **fields: Any) -> Event:
    """A sub-trial with a benchmark."""
    measured = {"b": {"agent/nop": 0.5, "oracle/nop": 0.25}}
    found = {"agent": f"a{agent}", "model": "m", "task_id": task, "agent_index": agent + 1}
    return a_trial(**found, benchmarks=measured) | fields


def a_plan_of_many() -> Event:
    """Many planned agents."""
    return a_plan(agent_models=[f"a{number}:m" for number in range(AGENTS)], tasks=9, attempts=1)


def cut_after(pipeline: Pipeline, *events: Event) -> list[str]:
    """Keys of the summaries that a cut gives after these events."""
    pipeline.fold(records(events))
    return sorted(change.key for change in pipeline.run(RUN).take_changes().summaries)


def test_the_planned_agents_are_gone_through_a_few_times_however_many_tiers_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline, calls = Pipeline(), []
    agent_models = Plan.agent_models

    def counted(self: Plan) -> set[tuple[str, str]]:
        calls.append(self)
        return agent_models(self)

    monkeypatch.setattr(Plan, "agent_models", counted)
    cut_after(pipeline, a_plan_of_many(), *(a_trial(tier=f"T{n}", task_id=f"t{n}") for n in range(100)))
    assert len(calls) <= 4


def numbers(missing: MissingTrials) -> tuple[Any, ...]:
    """What missing trials say."""
    sums = missing.sums
    body = sums.body(None, 1.0, None, nop=False)
    return sums.trials, sums.failures, sums.fallbacks, body, missing.tasks, missing.speedups


def plainly_missing(pipeline: Pipeline) -> dict[tuple[str, str], MissingTrials]:
    """What agents lack, worked out one trial and one agent after the other."""
    run = pipeline.run(RUN).state
    scores: dict[tuple[str, str], list[Any]] = {}
    tasks: dict[tuple[str, str], Counter[str]] = {}
    groups = run.scores.trial_groups()
    for group in groups:
        there = {(k[3], k[4]) for k, slot in run.slots.items() if (*k[:3], *k[5:]) == group and slot.winner}
        mates = {(k[3], k[4]) for other, keys in groups.items() if other[0] == group[0] for k in keys}
        planned = run.plan.agent_models() & mates if group[0] else run.plan.agent_models()
        for owner in planned - there:
            scores.setdefault(owner, []).append(run.scores.of_missing(group))
            tasks.setdefault(owner, Counter())[group.task_id] += 1
    sums = {owner: FormulaCodeSums.of(found, failures=len(found)) for owner, found in scores.items()}
    return {owner: MissingTrials(sums[owner], tasks[owner]) for owner in sums}


@examples(24)
@given(seed=st.integers(0, 999))
def test_missing_sub_trials_and_what_cuts_publish_are_those_of_a_plain_walk(seed: int) -> None:
    rng, pipeline, published = random.Random(seed), Pipeline(), dict[tuple[str, str], str]()
    planned = [f"a{number}:m" for number in range(8)]
    events = [FINISHED]
    for _ in range(150):
        agent, task = rng.randrange(5), f"t{rng.randrange(6)}"
        where = {"shard": rng.choice(("", "", "s")), "tier": rng.choice((None, None, "T0", "T1"))}
        where |= {"revision": rng.randrange(3), "agent_index": rng.choice((agent + 1, agent + 1, None))}
        events.append(a_sub_trial(agent, task, **where))
        if rng.random() < 0.1:
            gone = {"agent": f"a{agent}", "model": "m", "task_id": task, "shard": where["shard"]}
            events.append(a_retraction(**gone, tier=where["tier"], revision=rng.randrange(3)))
        if rng.random() < 0.1:
            some = rng.sample(planned, rng.randrange(1, 8))
            events.append(a_plan(agent_models=some, tasks=6, attempts=1, revision=rng.randrange(9)))
    for start in range(0, len(events), 5):
        pipeline.fold(records(events[start : start + 5]))
        for change in pipeline.run(RUN).take_changes().summaries:
            published[change.kind, change.key] = change.digest
            if change.value is None:
                del published[change.kind, change.key]
        standing = pipeline.run(RUN).summaries()
        assert published == {(change.kind, change.key): change.digest for change in standing}
        if pipeline.run(RUN).state.totals.with_formulacode and pipeline.run(RUN).state.plan.agent_models():
            found, plain = missing_sub_trials(pipeline.run(RUN).state), plainly_missing(pipeline)
            assert {owner: numbers(trials) for owner, trials in found.items()} == {
                owner: numbers(trials) for owner, trials in plain.items()
            }
