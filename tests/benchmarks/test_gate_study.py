"""The study of gates at a small size: its shortcuts change nothing, and the page has what it prints."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from benchmarks import gate_study as study
from benchmarks.simulated_runs import Scenario
from benchmarks.two_agents import PLANS, WAYS, Plan, TwoRuns, Way, two_runs
from streamer.statistics.pairs import GateVerdict, Pair, evidence_worse, final_difference, no_further_behind
from tests.benchmarks.generated import cells, percents, table

SMALL = [Plan("small", 30), Plan("small, 3 attempts", 12, 3)]


def runs_in_order(ours: list[bool], theirs: list[bool]) -> TwoRuns:
    """One result after the other, against a finished side."""
    known = [float(number) for number in range(1, len(ours) + 1)]
    return TwoRuns(list(range(len(ours))), ours, theirs, known, [0.0] * len(ours), len(ours), len(ours))


@pytest.mark.parametrize(("plan", "way"), list(product(SMALL, WAYS)), ids=lambda one: one.name)
def test_halving_finds_the_first_verdict_of_all_looks(plan: Plan, way: Way) -> None:
    for seed in range(6):
        runs = two_runs(plan, way, -0.1, Random(seed))
        looks = range(runs.results + 1)
        pairs = [[Pair(*pair) for pair in zip(*runs.at(look), strict=True)] for look in looks]
        result = [final_difference(known, plan.pairs) for known in pairs]
        assert result == [study.difference_at(runs, look) for look in looks]
        settled = [
            one.empty or no_further_behind(one.ends(), study.MARGIN) is not GateVerdict.UNDECIDED
            for one in result
        ]
        assert study.first_decided(runs) == (settled.index(True) if any(settled) else runs.results + 1)
        assert settled == sorted(settled)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_look_has_more_evidence_than_the_last(way: Way) -> None:
    runs = two_runs(SMALL[0], way, -0.4, Random(5))
    looks = [zip(*runs.at(look), strict=True) for look in range(runs.results + 1)]
    evidence = [evidence_worse([Pair(*pair) for pair in pairs], 30) for pairs in looks]
    assert evidence == sorted(evidence)
    assert evidence[-1] == evidence_worse(study.task_pairs(SMALL[0], runs), 30) > evidence[0]


def test_the_first_loss_fails_a_candidate_whose_baseline_passed_everything() -> None:
    """It can win no pair any more, and one pair of 20 is more than 2 points."""
    result = study.judged(Plan("p", 20), runs_in_order([False] * 20, [True] * 20))
    assert result == (GateVerdict.FAIL, GateVerdict.FAIL, 1 / 20, True, False, True)


def test_two_sides_that_do_the_same_pass_and_show_nothing() -> None:
    """Twenty tasks are too few for a margin of 2 points on tasks like these."""
    result = study.judged(Plan("p", 20), runs_in_order([True, False] * 10, [True, False] * 10))
    assert result.verdict is GateVerdict.PASS
    assert (result.fails, result.passes, result.behind) == (False, False, False)


def test_an_order_that_follows_the_outcomes_may_leave_no_verdict() -> None:
    """30 ties, then ten wins and ten losses: if all of it comes at once, no difference is possible."""
    at_once = [1.0] * 50
    ours, theirs = [True] * 40 + [False] * 10, [True] * 30 + [False] * 10 + [True] * 10
    result = study.judged(Plan("p", 50), TwoRuns(list(range(50)), ours, theirs, at_once, [0.0] * 50, 1, 50))
    assert (result.verdict, result.truth, result.share) == (GateVerdict.UNDECIDED, GateVerdict.PASS, 1.0)


def in_the_order_of_results(runs: TwoRuns) -> TwoRuns:
    order = sorted(range(len(runs.ours)), key=lambda pair: runs.ours_known[pair])
    lists = (runs.tasks, runs.ours, runs.theirs, runs.ours_known, runs.theirs_known)
    return TwoRuns(*([stored[pair] for pair in order] for stored in lists), runs.results, runs.planned)


def test_the_study_finds_a_gate_that_takes_the_order_of_results_for_the_order_of_the_plan() -> None:
    """Most failures crash and run again at the end, so that the results begin with passes."""
    plan, way = Plan("500", 500), Way("crashes", Scenario("crashes", crash=(0.8, 0.0)))
    wrong = [0, 0]
    for seed in range(12):
        runs = two_runs(plan, way, -0.05, Random(seed))
        for place, one in enumerate((runs, in_the_order_of_results(runs))):
            result = study.judged(plan, one)
            wrong[place] += result.verdict not in (result.truth, GateVerdict.UNDECIDED)
    assert wrong[0] == 0
    assert wrong[1] >= 6


def test_every_cell_is_printed_and_misses_decide_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.gate_study.PLANS", SMALL[:1])
    assert study.main(["--runs", "5", "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("5 comparisons for each cell, seed 1\n")
    assert [line.split(" | ")[1] for line in printed.splitlines() if line.startswith("| small |")] == [
        *(way.name for way in WAYS),
        *(way.name for way in WAYS),
        *("equal", "+2", "+10", "-2", "-5", "-10", "-20"),
    ]
    monkeypatch.setattr("benchmarks.gate_study.ALLOWED", -1.0)
    assert study.main(["--runs", "1"]) == 1


@pytest.mark.parametrize("name", ["gate-misses", "gate-halves"])
def test_the_page_has_a_row_for_each_plan_and_way(name: str) -> None:
    assert [tuple(row[:2]) for row in table(name)] == [(p.name, w.name) for p, w in product(PLANS, WAYS)]


def test_no_cell_of_the_page_is_wrong_in_more_than_five_percent() -> None:
    shares = [share for row in table("gate-misses") for share in percents(row[2:])]
    assert len(shares) == len(PLANS) * len(WAYS) * len(study.BETTER)
    assert 0.0 < max(shares) <= 5.0


def test_one_cell_of_the_page_is_what_the_command_prints() -> None:
    plan, better = PLANS[0], 0.0
    result = study.cell(plan, study.SHOWN, better, 2_000, seed=20)
    every = {(plan.name, study.SHOWN.name, other): result for other in study.BETTER}
    [printed] = [cells(line) for line in list(study.power(every))[2:] if " equal " in line]
    assert printed in table("gate-power")
    place = 2 + study.BETTER.index(better)
    for name, shown in (("gate-misses", study.misses), ("gate-halves", study.halves)):
        [row] = [row for row in table(name) if row[:2] == [plan.name, study.SHOWN.name]]
        assert cells(list(study.by_way(every, shown))[2])[place] == row[place]


def test_a_table_goes_between_its_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("a <!-- x: generated --> old <!-- end of x --> z", "utf-8")
    monkeypatch.setattr("benchmarks.gate_study.PAGE", page)
    study.into_page({"x": "new"})
    assert page.read_text("utf-8") == "a <!-- x: generated -->\nnew\n<!-- end of x --> z"
