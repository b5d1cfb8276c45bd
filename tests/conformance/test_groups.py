"""Summaries of random runs against the plain reimplementation of the rulings on groups of trials."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.folds import (
    Summary,
    close,
    folded,
    pooled_tiers,
    statistics_of,
    summaries,
    the_run,
    travelling,
)
from tests.conformance.group_rules import (
    BASELINES,
    SCORED,
    cost_of_pass,
    distribution,
    graded,
    pass_at_k,
    uplift,
    verdict,
)
from tests.support.events import Event, a_plan, a_trial

Events = list[Event]
SEEDS = range(60)
VERDICTS = (True, True, True, False, False, None)
COSTS = (None, 0.0, 0.1, 0.2, 0.3, 1e-7, 1e-7 + 1e-13, 2.5)
SCORES = (None, 0.0, 0.3, 0.3000000001, 0.65, 0.9, 1.0, 1.7, -0.5)
JUDGED = (None, None, None, True, False)


class Run:
    """A random run: its trials, and what its plan and its end say."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.judged = rng.choice(JUDGED)
        self.finished = rng.random() < 0.4
        self.attempts = rng.choice([1, 2, 5])
        scores = SCORES if rng.random() < 0.7 else (None,)
        tiers = rng.choice([(None,), (None,), ("T0",), ("T0", "T1", "T2")])
        self.trials = [
            self._trial(rng, tier, agent, task, attempt, rng.choice(scores))
            for tier in tiers
            for agent in rng.choice([("alpha",), ("alpha", "beta"), ("alpha", "beta", "oracle")])
            for task in ("t1", "t2", "t3")
            for attempt in range(1, 1 + rng.choice([1, 2, 5]))
            if rng.random() < 0.8
        ] or [a_trial(agent="alpha", model="m")]
        if len(tiers) == 1 and rng.random() < 0.4:
            for trial in self.trials:
                trial["agent_index"] = ("oracle", "alpha", "beta").index(trial["agent"]) + 1

    @staticmethod
    def _trial(rng: random.Random, tier: str | None, agent: str, task: str, n: int, score: Any) -> Event:
        fields = {"tier": tier, "score": score, "cost_usd": rng.choice(COSTS)}
        known = {name: value for name, value in fields.items() if value is not None}
        said = {"resolved": rng.choice(VERDICTS), "failure_mode": rng.choice(["unset", "agent_timeout"])}
        duration = {"duration_seconds": rng.choice([1.0, 2.0, 61.5])}
        return a_trial(agent=agent, model="m", task_id=task, attempt=n, **known, **said, **duration)

    @property
    def events(self) -> Events:
        plan = a_plan(judged=self.judged, attempts=self.attempts)
        ends = [{"type": "run_finished", "run_id": "run-1"}] if self.finished else []
        return [plan, *self.trials, *ends]

    def of(self, **fields: Any) -> Events:
        """The trials with these fields."""
        return [t for t in self.trials if all(t.get(name) == value for name, value in fields.items())]

    @property
    def compared(self) -> Events:
        return [trial for trial in self.trials if trial["agent"] not in BASELINES]


def groups(run: Run) -> Iterator[tuple[Summary, Events]]:
    """Every summary of a group, and the group's trials."""
    folding = folded(run.events)
    for summary in summaries(folding, "agent_model"):
        yield summary, run.of(agent=summary["agent"])
    for summary in summaries(folding, "tier"):
        mine = run.of(tier=summary["tier"])
        key = summary["agent_model"]
        yield summary, [t for t in mine if key == f"{t['agent']}:m" or (key is None and t in run.compared)]


@pytest.fixture(params=SEEDS, scope="module")
def run(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def test_every_statistic_is_the_ruled_one(run: Run) -> None:
    """R1, R13 to R16, R18."""
    for ours, trials in groups(run):
        for metric in SCORED:
            ruled = {name: travelling(value) for name, value in distribution(trials, metric).items()}
            held = statistics_of(ours, metric)
            assert held == {name: close(value) for name, value in ruled.items()}, metric
            assert held["mode"] == ruled["mode"], metric
            assert ours["coverage"][metric] == ruled["count"]


def test_every_grade_rests_on_the_ruled_number(run: Run) -> None:
    """R13."""
    for ours, trials in groups(run):
        ruled = graded(trials, run.judged, run.finished)
        assert {name: ours[name] for name in ruled} == {
            name: close(value) if name == "grade_score" else value for name, value in ruled.items()
        }


def test_every_cost_of_pass_is_total_known_cost_per_pass_at_a_known_cost(run: Run) -> None:
    """R14."""
    for ours, trials in groups(run):
        assert ours["cost_of_pass"] == close(travelling(cost_of_pass(trials)))


def test_uplift_is_of_the_number_that_the_grade_rests_on(run: Run) -> None:
    """R23."""
    tiers = pooled_tiers(folded(run.events))
    mine = {tier: [t for t in run.compared if t.get("tier") == tier] for tier in tiers}
    for tier, ours in tiers.items():
        if tier == "T0" or "T0" not in tiers:
            assert (ours["tier_uplift"], ours["tier_delta"]) == (None, None)
            continue
        both = [graded(mine[t], run.judged, run.finished) for t in (tier, "T0")]
        ruled = uplift(*both)
        assert {name: ours[name] for name in ruled} == {name: close(value) for name, value in ruled.items()}


def test_pass_at_k_is_the_ruled_one_and_null_over_a_mixture(run: Run) -> None:
    """R10, R11: trial groups count as one trial in the run alone, and baselines not at all."""
    check_pass_at_k(the_run(folded(run.events)), run.trials, run.attempts)
    for ours, trials in groups(run):
        if not ours.get("baseline") and trials[0]["agent"] not in BASELINES:
            check_pass_at_k(ours, [t | {"agent_index": None} for t in trials], run.attempts)


def check_pass_at_k(ours: Summary, trials: Events, attempts: int) -> None:
    ruled, held = pass_at_k(trials, attempts), ours["pass_at_k"]
    assert (held is None) is (ruled is None)
    assert {k: (v["value"], v["tasks_covered"]) for k, v in (held or {}).items()} == {
        k: (close(v["value"]), v["tasks_covered"]) for k, v in (ruled or {}).items()
    }


def test_accuracy_is_over_all_trials_of_an_agent(run: Run) -> None:
    """R19: without a verdict, not resolved."""
    for ours, trials in groups(run):
        assert ours["accuracy"] == close(sum(verdict(t) is True for t in trials) / len(trials))
        assert ours["no_verdict"] == sum(verdict(t) is None for t in trials)
