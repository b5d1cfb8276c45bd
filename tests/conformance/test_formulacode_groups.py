"""Random multi-agent runs of FormulaCode against the plain reimplementation: R7 to R10, R20 to R22, R25."""

from __future__ import annotations

import random
from typing import Any

import pytest

from streamer.folding.fold import Folding
from tests.conformance.folds import close, summaries
from tests.conformance.formulacode_compare import differing_fields
from tests.conformance.formulacode_rules import (
    Json,
    SubTrial,
    cost_weighted,
    exact_mean,
    fallen_back,
    known_oracles,
    ruled,
)
from tests.support.events import Event, a_plan, a_trial
from tests.support.events import folded as piped
from tests.support.formulacode_cases import ADVANTAGES, close_difference
from tests.support.formulacode_trials import Published

SEEDS = range(60)
KEYS = ["nop:nop", "oracle:oracle", "alpha:m", "beta:m"]
VALUES = (None, None, 0.0, 0.5, 1.0, 1.2, 1.5, 3.0)
NAMES = ("m.f", "m.C.g(1)", "m.C.g(2)", "n.f")
MEANS = {
    "mean_speedup": "task_speedup",
    **{name: name for name in ADVANTAGES},
    "mean_success_rate": "success",
    "mean_cost_per_task": "task_cost_usd",
    "mean_trajectory_length": "trajectory_length",
}


class Run:
    """A random run: trials of up to four agents, with an end or without."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.finished = self.rng.random() < 0.5
        self.trials = {f"t{n}": self._trial() for n in range(self.rng.choice([1, 3, 6]))}

    def _trial(self) -> list[SubTrial]:
        taking_part = [index for index in range(1, 5) if self.rng.random() < 0.8] or [3]
        return [self._sub_trial(index) for index in taking_part]

    def _sub_trial(self, index: int) -> SubTrial:
        rng, metrics = self.rng, dict[str, Any]()
        crashed = rng.random() < 0.25
        if not crashed and rng.random() < 0.9:
            failed = rng.choice([0, 0, 0, 1, 2])
            metrics |= {"tests": "failed" if failed else "passed", "test_failed": failed, "test_error": 0}
        if not crashed and rng.random() < 0.7:
            metrics |= {"snapshot_failed": False, "snapshot_status": rng.choice(["passed"] * 4 + ["failed"])}
        if not crashed and rng.random() < 0.8:
            entries = {name: self._entry() for name in NAMES if rng.random() < 0.6}
            metrics["per_benchmark_speedups_by_agent"] = {KEYS[index - 1]: entries}
        if rng.random() < 0.7:
            metrics["trajectory_length"] = rng.choice([1, 5, 40])
        verdict = None if crashed else rng.choice([True, True, False])
        written = {"is_resolved": verdict, "total_cost": rng.choice([None, 0.0, 0.1, 2.5])}
        return SubTrial(index, KEYS[index - 1], KEYS, written, metrics)

    def _entry(self) -> Any:
        if self.rng.random() < 0.05:
            return 7
        return {side: self.rng.choice(VALUES) for side in ("agent/nop", "oracle/nop")}

    @property
    def events(self) -> list[Event]:
        plan = a_plan(agent_models=KEYS)
        subs = [an_event(task, sub) for task, trial in self.trials.items() for sub in trial]
        ends = [{"type": "run_finished", "run_id": "run-1"}] if self.finished else []
        events = [plan, *subs, *ends]
        self.rng.shuffle(events)
        return events

    @property
    def is_formulacode(self) -> bool:
        return any(sub.is_formulacode for trial in self.trials.values() for sub in trial)

    def missing(self, key: str) -> list[Json]:
        """What the rulings say of a planned agent in the trials that lack it; nop never fails (R21)."""
        if key == "nop:nop":
            return []
        lacking = [t for t in self.trials.values() if all(sub.key != key for sub in t)]
        return [absent(key, trial) for trial in lacking] if self.finished else []


def an_event(task: str, sub: SubTrial) -> Event:
    """The event that says the same as a sub-trial's metrics."""
    metrics, sections = sub.metrics, dict[str, Any]()
    if sub.has_tests:
        status = "failed" if sub.failures else "ok"
        sections["tests"] = {"status": status, "failed": sub.failures, "error": 0}
    if sub.has_snapshot:
        sections["snapshot"] = {"status": metrics["snapshot_status"]}
    crashed = sub.written["is_resolved"] is None
    return a_trial(
        task_id=task,
        agent=sub.agent,
        model=sub.model,
        agent_index=sub.index,
        resolved=sub.written["is_resolved"],
        failure_mode="agent_timeout" if crashed else "unset",
        cost_usd=sub.written["total_cost"],
        trajectory_length=sub.trajectory_length,
        benchmarks=sub.benchmarks,
        **sections,
    )


def absent(key: str, trial: list[SubTrial]) -> Json:
    """An agent that a trial lacks: it failed, at no cost that is known."""
    nobody = SubTrial(0, key, KEYS, {"is_resolved": None, "total_cost": None}, {})
    return ruled(nobody, trial)


@pytest.fixture(params=SEEDS, scope="module")
def run(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def test_every_sub_trial_is_scored_as_ruled(run: Run) -> None:
    stream = Published()
    for event in run.events:
        stream.fold(event)
    scored = {(s["task_id"], s["agent_model"]): s for s in stream.scored.values()}
    assert set(scored) == {(task, sub.key) for task, trial in run.trials.items() for sub in trial}
    for task, trial in run.trials.items():
        for sub in trial:
            ours, want = scored[task, sub.key], ruled(sub, trial)
            assert ours["success"] is want["success"]
            if ours["formulacode"] is None:
                assert not sub.is_formulacode
                assert sub.agent == "nop" or ours["success"] or not known_oracles(sub, trial)
            else:
                assert not differing_fields(ours["formulacode"], want), (task, sub.key)


def test_every_agents_summary_is_the_ruled_one(run: Run) -> None:
    found = {s["agent_model"]: s for s in summaries(Folding(piped(run.events)[0]), "agent_model")}
    for key in {sub.key for trial in run.trials.values() for sub in trial}:
        ours = found[key]["formulacode"]
        if not run.is_formulacode:
            assert ours is None
            continue
        rows = [ruled(sub, trial) for trial in run.trials.values() for sub in trial if sub.key == key]
        want = ruled_summary(rows, run.missing(key))
        assert {name: ours[name] for name in want} == {
            name: close_difference(value) if name in ADVANTAGES else close(value)
            for name, value in want.items()
        }, key


def ruled_summary(rows: list[Json], missing: list[Json]) -> Json:
    """An agent:model's numbers, with its missing sub-trials counted like failed ones (R21)."""
    every = [*rows, *missing]
    known = {n: [row[field] for row in every if row[field] is not None] for n, field in MEANS.items()}
    return {
        **{name: exact_mean(values) for name, values in known.items()},
        **{name: sum(row[name] for row in every) for name in ("num_benchmarks", "num_valid_benchmarks")},
        "cost_weighted_advantage": cost_weighted(
            [row["agent_advantage"] for row in every], [row["task_cost_usd"] for row in every]
        ),
        "fallbacks": sum(row["fallback_to_baseline"] for row in every),
        "missing": len(missing),
    }


def test_a_fallback_on_nothing_is_a_speedup_of_one_without_advantages() -> None:
    """The reimplementation's own corner: R21 beside R22."""
    held = fallen_back({})
    assert (held["task_speedup"], held["agent_advantage"], held["num_benchmarks"]) == (1.0, None, 0)
