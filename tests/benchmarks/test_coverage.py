"""The coverage study at a small size: it prints a table, repeats itself, and separates the intervals."""

from __future__ import annotations

import re
import sys
from collections import Counter
from math import inf, isfinite
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from benchmarks.coverage import CONCURRENCIES, coverage, main
from benchmarks.gate_replay import FIGURE, comparisons, figure, gated, table
from benchmarks.replay import HEAD, Past, missing_of, moments, past, public_runs, replayed
from benchmarks.simulated_runs import PASSES, PLANNED, SCENARIOS, Scenario, events, outcomes_of
from benchmarks.trace_event import STEPS, report, step_of, trace, trace_worker
from benchmarks.two_agents import MEAN_CHANCE, PLANS, WAYS, Plan, Sides, Way, order_of, shifted, two_runs
from streamer.statistics.final import FinalMissing
from streamer.statistics.pairs import GateVerdict
from tests.benchmarks.generated import cells, percents
from tests.house.repository import ROOT


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [cells(line) for line in capsys.readouterr().out.splitlines() if line.endswith("% |")]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[tuple[str, str], list[float]]:
    """Scenario and concurrency to the three shares of its row, in percent."""
    main(["--seed", "1", *arguments])
    return {(name, at): percents(shares) for name, at, *shares in rows_of(capsys)}


def named(*, shuffled: bool) -> list[tuple[str, str]]:
    return [
        (scenario.name, str(concurrency))
        for scenario in SCENARIOS
        if scenario.is_shuffled is shuffled
        for concurrency in scenario.at_once or CONCURRENCIES
    ]


def test_every_scenario_is_printed_with_its_misses(capsys: pytest.CaptureFixture[str]) -> None:
    rows = printed(capsys, "--runs", "20")
    assert list(rows) == named(shuffled=True)
    final, finished, wilson = (sum(column) / len(rows) for column in zip(*rows.values(), strict=True))
    assert final <= 5.0 < 20.0 < finished < wilson


def test_two_equal_agents_are_told_apart_by_the_order_of_results_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 attempts at once (inference 7): fast ones are passes, so the n-th result is no number of a pair."""
    rows = printed_pairs(capsys, 0)
    assert list(rows) == ["200 at once, the other has finished", "200 of each at once"]
    assert max(share for final, wrong, _ in rows.values() for share in (final, wrong)) <= 5.0
    assert rows["200 at once, the other has finished"][2] > 30.0
    monkeypatch.setattr("benchmarks.coverage.ALLOWED", -0.1)
    assert printed_pairs(capsys, 1) == rows


def printed_pairs(capsys: pytest.CaptureFixture[str], code: int) -> dict[str, list[float]]:
    """Each row of the table of pairs with its three shares, in percent."""
    assert main(["--pairs", "--runs", "60", "--seed", "1"]) == code
    return {name: percents(shares) for name, *shares in rows_of(capsys)}


def test_hard_bounds_of_true_runs_never_miss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash that is sent as a failure breaks them: the run passes more often than they allow."""
    main(["--runs", "2"])  # so few runs say nothing of `final`
    assert f"Hard bounds missed in 0 of {2 * len(named(shuffled=True))} runs." in capsys.readouterr().out
    monkeypatch.setattr("benchmarks.coverage.SCENARIOS", [one for one in SCENARIOS if one.crash_is_false])
    assert main(["--runs", "5", "--broken"]) == 0
    assert "Hard bounds missed in 0 " not in capsys.readouterr().out


def test_runs_that_break_an_assumption_are_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """Longest first was 3.5 and 2.4 % when outcomes were looked up in another order than the queue's."""
    rows = printed(capsys, "--runs", "30", "--broken")
    assert list(rows) == named(shuffled=False)
    for name in ("longest first", "easy tasks first"):
        assert min(rows[name, "8"][0], rows[name, "32"][0]) > 90.0
    for name, _ in rows:
        assert max(rows[name, "8"][0], rows[name, "32"][0]) > 5.0, name


def test_the_simulator_knows_nothing_of_the_intervals_that_are_tried_on_it() -> None:
    source = (ROOT / "benchmarks" / "simulated_runs.py").read_text("utf-8")
    imported = re.findall(r"^ *(?:from|import) ([a-z_]+)", source, re.MULTILINE)
    assert set(imported) <= {"__future__", *sys.stdlib_module_names}


def test_the_page_has_a_row_for_each_scenario() -> None:
    for name, concurrency in (*named(shuffled=True), *named(shuffled=False)):
        assert re.search(rf"^\| {name} \| {concurrency} \| [\d.]+% ", PAGE, re.MULTILINE), name


def test_an_exit_code_says_that_a_row_missed_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Scenario("longest first, taken for a shuffle", longest_first=True)
    monkeypatch.setattr("benchmarks.coverage.SCENARIOS", [broken])
    assert main(["--runs", "2"]) == 0  # its row is shown, and not held to the limit
    monkeypatch.setattr("benchmarks.coverage.ALLOWED", -1.0)
    monkeypatch.setattr("benchmarks.coverage.SCENARIOS", SCENARIOS[:1])
    assert main(["--runs", "2"]) == 1


def test_a_picture_shows_one_run_from_its_tenth_result_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--picture", "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == [*range(10, 89, 10), 89]
    assert len({line.index("|") for line in lines[1:]}) == 1
    assert lines[-1].endswith("[0.427, 0.427]")


def test_a_seed_repeats_its_shares() -> None:
    assert coverage(SCENARIOS[0], 20, seed=3) == coverage(SCENARIOS[0], 20, seed=3)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_becomes_known_is_true_and_complete_where_nothing_is_held_back(scenario: Scenario) -> None:
    choice = Random(4)
    outcomes = outcomes_of(scenario, choice)
    known: dict[int, bool | None] = {}
    for trial, outcome in events(scenario, outcomes, choice):
        may_differ = scenario.longest_first or scenario.crash_is_false or scenario.outage
        assert outcome in (None, outcomes[trial]) or may_differ
        known[trial] = outcome
    if not scenario.outage and len(known) == len(outcomes):
        assert sum(value is True for value in known.values()) == sum(outcomes)
    held_back = any((*scenario.cancel, *scenario.judge, scenario.budget < 1))
    assert None not in known.values()
    assert (len(known) < len(outcomes)) == held_back
    if scenario.rounds == 1 and scenario.order == "shuffled" and not scenario.subset:
        assert (len(outcomes), sum(outcomes)) == (PLANNED, PASSES)


# -----------------------------------------------------------------------------
# Public runs against each other: what would have been saved, by hand, and that the page has the table.


PAGE = (ROOT / "docs" / "inference.md").read_text("utf-8")


def test_the_candidate_stops_with_the_first_loss_if_the_baseline_passed_everything() -> None:
    """Ten trials of 60 s start every 20 s. The first fails at 60 s; two others run, and one starts then."""
    ours = [Past(f"t{n}", n > 0, started=20.0 * n, ended=20.0 * n + 60) for n in range(10)]
    theirs = [Past(f"t{n}", passed=True, started=0, ended=1) for n in range(10)]
    result = gated("x, 1", ours, "y, 1", theirs)
    assert (result.verdict, result.truth, result.difference) == (GateVerdict.FAIL, GateVerdict.FAIL, -0.1)
    assert (result.share, result.unstarted) == (0.1, 6)
    assert (result.saved_seconds, result.seconds) == (20 + 40 + 60 + 6 * 60, 600)
    assert not result.same_agent
    assert gated("x, 1", ours, "x, 2", theirs).same_agent


def test_only_common_tasks_are_compared() -> None:
    ours = [Past(task, passed=True, started=n, ended=n + 5) for n, task in enumerate("abc")]
    theirs = [Past(task, passed=False, started=n, ended=n + 5) for n, task in enumerate("cbd")]
    result = gated("x, 1", ours, "y, 1", theirs)
    assert (result.difference, result.verdict, result.seconds) == (1.0, GateVerdict.PASS, 10)


def test_the_page_has_the_table_and_the_figure_of_the_command(tmp_path: Path) -> None:
    result = comparisons()
    assert len(result) == 14 * 13
    assert sum(one.same_agent for one in result) == 20
    assert all(one.verdict is one.truth for one in result)
    assert "\n".join(table(result)) in PAGE
    figure(result, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes().startswith(b"\x89PNG")
    assert FIGURE.is_file()
    assert f"]({FIGURE.relative_to(ROOT / 'docs')})" in PAGE


# -----------------------------------------------------------------------------
# Public runs replayed: what becomes known when, which looks miss, and that the page has the table.


RUNS = dict(public_runs())
REPLAYED = {run: trials for run, rows in RUNS.items() if (trials := past(rows))}


def one_by_one(outcomes: list[bool]) -> list[Past]:
    return [Past(f"t{n}", outcome, started=n, ended=n + 0.5) for n, outcome in enumerate(outcomes)]


def test_a_result_counts_at_the_place_of_its_start() -> None:
    trials = [Past("slow", True, started=0, ended=9), Past("quick", False, started=1, ended=2)]
    known = [(None, None), (None, None), (None, False), (True, False)]
    assert [tuple(one) for one in moments(trials)] == known
    result = replayed("r", trials)
    assert (result.looks, result.at_once, result.rate) == (4, 2, 0.5)


def test_an_order_that_follows_the_outcomes_misses_and_is_caught() -> None:
    """20 passes, then 20 failures: 15 of 15 do not agree with the half that passes in the end."""
    result = replayed("r", one_by_one([True] * 20 + [False] * 20))
    assert result.misses > 0 < result.wilson_misses
    assert result.missing is FinalMissing.EMPTY
    in_blocks = replayed("r", one_by_one(([True] * 10 + [False] * 10) * 4))
    assert in_blocks.missing is FinalMissing.ORDER_FOLLOWS_OUTCOME
    fair = replayed("r", one_by_one([True, False] * 20))
    assert (fair.misses, fair.missing) == (0, None)


def test_the_width_of_wilson_is_the_one_of_the_textbook() -> None:
    """10 of 20 passed: [0.299, 0.701]."""
    assert replayed("r", one_by_one([True, False] * 20)).wilson_width == pytest.approx(0.4014, abs=1e-4)


def test_the_page_has_a_row_for_each_run_with_times() -> None:
    assert len(REPLAYED) == 14
    _, found, after = PAGE.partition(HEAD)
    assert found
    rows = after.strip().splitlines()[: len(REPLAYED) + 1]
    assert [row.split(" | ")[0] for row in rows] == [*(f"| {run}" for run in REPLAYED), ""]


@pytest.mark.parametrize(
    "run", ["swe-agent-mini_claude-4-sonnet, 2025-08-14__19-39-35", "droid_gpt-5, tb_rc2_g5_5"]
)
def test_two_of_its_rows_are_what_the_command_prints(run: str) -> None:
    assert replayed(run, REPLAYED[run]).line() in PAGE


def test_the_run_without_times_has_the_reason_that_the_page_says() -> None:
    [run] = RUNS.keys() - REPLAYED
    assert missing_of(run, RUNS[run]) is FinalMissing.ORDER_UNKNOWN_IN_PART
    by_task = sorted(RUNS[run], key=lambda row: (row["task_id"], row["attempt"]))
    assert len(by_task) == 391
    assert {row["n_attempts"] for row in by_task} == {5}


# -----------------------------------------------------------------------------
# The trace of one event names what the event really touches, and that does not grow.


MOST_FILES = 17
"""Of the core. Lower it when an event touches fewer."""

MOST_FILES_OF_SUMMARIES, MOST_MOVES_OF_SUMMARIES = 15, 552
"""Of the summaries of one event; Python before 3.12 counts a comprehension as a call."""

MOST_FILES_OF_A_WORKER = 25
"""From the fetched batch to the batch that is done."""


def test_one_event_touches_no_more_files_than_before() -> None:
    result = report(trace())
    assert [step["step"] for step in result["steps"]] == ["fold", *STEPS]
    assert all(step["calls"] and step["files"] for step in result["steps"])
    assert result["calls"] == sum(step["calls"] for step in result["steps"])
    assert "streamer/folding/fold.py" in result["files"]
    assert [file for file in result["files"] if not (ROOT / file).is_file()] == []
    assert len(result["files"]) <= MOST_FILES, result["files"]
    [summaries] = [step for step in result["steps"] if step["step"] == "summarise"]
    assert summaries["files"] <= MOST_FILES_OF_SUMMARIES
    assert summaries["moves"] <= MOST_MOVES_OF_SUMMARIES


def test_one_event_touches_no_more_files_of_a_worker_than_before() -> None:
    result = report(trace_worker())
    assert [step["step"] for step in result["steps"]] == ["fold", "save", "publish", "finish"]
    assert all(step["calls"] and step["files"] for step in result["steps"])
    core, worker, stores = (
        {file for file in result["files"] if file.startswith(f"streamer/{room}/")}
        for room in ("folding", "worker", "storage")
    )
    assert core >= {file for file in report(trace())["files"] if file.startswith("streamer/folding/")}
    assert {"streamer/worker/agents.py", "streamer/worker/partition.py"} <= worker
    assert "streamer/storage/redis.py" in stores
    assert [file for file in result["files"] if not (ROOT / file).is_file()] == []
    assert len(result["files"]) <= MOST_FILES_OF_A_WORKER, result["files"]


def test_a_step_that_was_renamed_is_named_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match="no method for 'save'"):
        step_of(Mock(spec=["run"], run=lambda _run: object()), "save")


# -----------------------------------------------------------------------------
# Simulated comparisons: abilities differ by what was asked, and what becomes known is complete.


SMALL = Plan("small", tasks=40, attempts=3)


@pytest.mark.parametrize("better", [0.0, 0.02, 0.1, -0.02, -0.2])
def test_the_mean_over_all_tasks_differs_by_what_was_asked(better: float) -> None:
    """The shift is linear in a task's chance, so it is enough to look at the mean and at both ends."""
    assert shifted(MEAN_CHANCE, better) == pytest.approx(MEAN_CHANCE + better)
    assert shifted(0.25, better) + shifted(0.75, better) == pytest.approx(2 * shifted(0.5, better))
    assert 0 <= shifted(0.0, better) <= shifted(1.0, better) <= 1


def test_with_several_attempts_each_round_has_every_task_once() -> None:
    tasks = order_of(SMALL, Random(1))
    rounds = [tasks[start : start + 40] for start in (0, 40, 80)]
    assert [sorted(one) for one in rounds] == [list(range(40))] * 3
    assert rounds[0] != rounds[1] != rounds[2] != sorted(rounds[2])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_each_result_is_known_from_its_own_number_on(way: Way) -> None:
    runs = two_runs(SMALL, way, -0.1, Random(2))
    numbers = [known for known in runs.ours_known + runs.theirs_known if known and isfinite(known)]
    assert sorted(numbers) == list(range(1, runs.results + 1))
    alone = way.sides is Sides.FINISHED
    assert (runs.theirs_known == [0] * 120, runs.planned) == (alone, 120 if alone else 240)
    ours, theirs = runs.at(0)
    assert (ours, theirs) == ([None] * 120, runs.theirs if alone else [None] * 120)
    ours, theirs = runs.at(runs.results)
    assert theirs == runs.theirs
    assert [now for now in ours if now is not None] == [
        outcome for outcome, known in zip(runs.ours, runs.ours_known, strict=True) if known < inf
    ]
    assert (None in ours) == any(way.scenario.cancel)


def test_a_tenth_stays_unknown_and_mostly_failures() -> None:
    [way] = [way for way in WAYS if any(way.scenario.cancel)]
    lost: Counter[bool] = Counter()
    for seed in range(40):
        runs = two_runs(PLANS[2], way, 0.0, Random(seed))
        lost += Counter(o for o, known in zip(runs.ours, runs.ours_known, strict=True) if known == inf)
    assert lost.total() / (40 * 500) == pytest.approx(0.1, abs=0.01)
    assert lost[False] > 3 * lost[True]


def test_a_pair_is_the_same_attempt_at_the_same_task_whatever_the_order_of_the_other_side() -> None:
    """All pairs of a task that always passes are passed on both sides."""
    [way] = [way for way in WAYS if way.sides is Sides.APART]
    runs = two_runs(SMALL, way, 0.0, Random(3))
    order = sorted(range(120), key=lambda pair: runs.theirs_known[pair])
    first_of_task: dict[int, list[int]] = {}
    for pair in order:
        first_of_task.setdefault(runs.tasks[pair], []).append(pair)
    assert {len(pairs) for pairs in first_of_task.values()} == {3}
    assert runs.ours_known != runs.theirs_known
