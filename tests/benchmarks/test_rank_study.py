"""The study of ranks at a small size: its places are the worker's, and two looks see what all looks see."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from benchmarks import rank_study as study
from benchmarks.simulated_runs import Scenario
from benchmarks.two_agents import PLANS, Plan
from streamer.statistics.final import ALPHA
from streamer.statistics.pairs import Direction, Pair, Place, evidence_worse, is_behind, places
from tests.benchmarks.generated import cells, table

SMALL = [Plan("small", 40), Plan("small, 3 attempts", 20, 3)]


def test_equal_agents_share_their_places() -> None:
    assert study.Field(3, equal=True).places() == [(1, 3)] * 3
    assert study.Field(3, equal=False).places() == [(1, 2), (1, 2), (3, 3)]
    assert study.Field(2, equal=False).places() == [(1, 1), (2, 2)]


@pytest.mark.parametrize("plan", SMALL, ids=lambda plan: plan.name)
def test_the_places_are_those_of_the_pure_functions(plan: Plan) -> None:
    """While a run goes on: the evidence of every two agents, pair by pair, and who may be called behind."""
    choice = Random(8)
    tasks = [task for _ in range(plan.attempts) for task in range(plan.tasks)]
    outcomes = np.array([choice.random() < (0.9, 0.5, 0.1)[agent] for _ in tasks for agent in range(3)])
    known = np.array([pair < 35 or choice.random() < 0.9 for pair in range(len(tasks)) for _ in range(3)])
    of = np.where(known, outcomes.astype(object), None).reshape(len(tasks), 3)
    pairs = {
        (str(a), str(b)): [Pair(*one) for one in of[:, [a, b]].tolist()] for a, b in permutations(range(3), 2)
    }
    evidence = {
        names: evidence_worse(listed, len(tasks)) if is_behind(listed, listed, len(tasks)) else 0.0
        for names, listed in pairs.items()
    }
    result = study.ranked(plan, 3, study.Run(tasks, outcomes, []), known)
    assert result == list(places("012", shown_by(evidence), ALPHA / 2).values())
    assert result != [(1, 3)] * 3


def shown_by(evidence: dict[Direction, float]) -> Callable[[Fraction], list[Direction]]:
    return lambda level: [pair for pair, e in evidence.items() if Fraction(e) * level >= 1]


@pytest.mark.parametrize("scenario", study.SCENARIOS, ids=lambda scenario: scenario.name)
def test_two_looks_see_every_miss_of_all_looks(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that differ, taken for equal: then there are misses enough."""
    monkeypatch.setattr(study.Field, "places", lambda field: [Place(1, field.agents)] * field.agents)
    monkeypatch.setattr("benchmarks.rank_study.WORSE", -0.6)
    field, plan, wrong = study.Field(3, equal=False), Plan("small", 80), 0
    for seed in range(12):
        run = study.simulated(plan, scenario, field, Random(seed))
        complete = len(run.changes) == len(run.outcomes)
        looks = [study.misses(plan, field, run, results) for results in range(len(run.changes) + 1)]
        going_on = any(looks[:-1] if complete else looks)
        assert study.one_run(plan, field, run) == (going_on, complete and looks[-1], any(looks))
        wrong += going_on
    assert wrong


def test_every_row_is_printed_and_misses_decide_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.rank_study.PLANS", SMALL[:1])
    monkeypatch.setattr("benchmarks.rank_study.ALLOWED", 1.0)
    assert study.main(["--runs", "2", "--seed", "1"]) == 0
    rows = [cells(line)[1:3] for line in capsys.readouterr().out.splitlines() if "| small |" in line]
    assert rows == [[scenario.name, field.name] for scenario, field in product(study.SCENARIOS, study.FIELDS)]
    monkeypatch.setattr("benchmarks.rank_study.ALLOWED", -1.0)
    assert study.main(["--runs", "1"]) == 1


def test_the_page_has_a_row_for_each_cell_and_one_is_what_the_command_prints() -> None:
    """The same seed repeats its shares."""
    rows = table("rank-misses")
    assert [one[:3] for one in rows] == [
        [p.name, s.name, f.name] for p, s, f in product(PLANS, study.SCENARIOS, study.FIELDS)
    ]
    cell = PLANS[0], study.SCENARIOS[0], study.FIELDS[0]
    assert cells(study.row(*cell, study.missed(*cell, runs=500, seed=20))) in rows
