"""Which runs of an agent:model a leaderboard pools, and the interval that a run's summary has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from math import comb, inf
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from streamer.client.queries import MOST_BOARD_RUNS, BoardRun, ranked
from streamer.client.readers import StateReader
from streamer.schemas.events import BOARD_METRICS, named_metric
from streamer.statistics.exact import sign_test
from streamer.terminal import cli
from streamer.views.decide import leaderboard
from streamer.views.decide.leaderboard import boards_of, entries_of
from streamer.views.models import Ends
from streamer.views.tables import Table
from streamer.web.pages import one_file
from tests.support.board_runs import a_night, board_runs
from tests.support.builders import by_head, present
from tests.support.data import shared_data
from tests.support.events import Event, a_plan, a_start, a_trial
from tests.support.rows import read_rows, terminal_bench_row_to_event

PASS_RATE = BOARD_METRICS["pass_rate"]


def test_a_run_in_quarantine_and_an_agent_without_published_tasks_are_not_pooled() -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+" * 6}))
    broken = replace(run, run=run.run.model_copy(update={"degraded": "a bug"}))
    entries = entries_of([run, broken, replace(run, tasks={})], PASS_RATE, pooled=True)
    assert [entry.left_out for entry in entries] == [None, "unfinished", "not_compared"]
    assert entries[-1].value == 1.0


def test_the_interval_of_a_run_is_that_of_its_summary_if_the_metric_has_an_error() -> None:
    [run] = board_runs(a_night("n", 1, {"a": "+-" * 6}))
    [agent] = run.agents
    ability, reward = present(present(agent.uncertainty).ability), agent.metrics["reward"]
    [of_passes] = entries_of([run], PASS_RATE, pooled=True)
    assert of_passes.interval == Ends(low=ability.low, high=ability.high)
    [of_reward] = entries_of([run], named_metric("reward", {}), pooled=True)
    assert of_reward.interval == Ends(low=float(reward.low or 0), high=float(reward.high or 0))
    assert of_reward.value == reward.mean
    for metric in ("accuracy", "cost_of_pass"):
        intervals = [e.interval for e in entries_of([run], BOARD_METRICS[metric], pooled=True)]
        assert intervals in ([], [None])


@pytest.mark.parametrize(
    ("metric", "rests_on"),
    [("pass_rate", 6), ("accuracy", 6), ("mean_cost", 3), ("cost_of_pass", 3), ("metrics/x", 9)],
)
def test_r31_a_row_counts_the_trials_that_its_value_rests_on(metric: str, rests_on: int) -> None:
    """Each said 12 trials: of six with a verdict, of three with a known cost (R1), of nine with a number."""
    plan = a_plan(run_id="n", tasks=12, attempts=1, benchmark="tb", metrics={"x": {}})
    priced = {"cost_usd": 1.0, "metrics": {"x": 2.0}}
    verdicts = [{"task_id": f"t{n}", "resolved": n > 1} | (priced if n < 3 else {}) for n in range(6)]
    numbers = [{"task_id": f"u{n}", "resolved": None, "metrics": {"x": 1.0}} for n in range(6)]
    trials = [a_trial(run_id="n", **fields) for fields in verdicts + numbers]
    [run] = board_runs([plan, *trials, {"type": "run_finished", "run_id": "n"}])
    [row], [alone] = the_board([run], metric).rows, ranked(metric, run.agents, {"n": "complete"})
    assert (row.trials, row.tasks, alone.trials) == (rests_on, rests_on, rests_on)


def test_r21_a_row_of_a_speedup_counts_the_trials_that_have_one() -> None:
    """Both said two trials, of which one measured nothing."""
    measured = {"benchmarks": {"b": {"agent/nop": 2.0, "oracle/nop": 1.5}}}
    trials = [
        a_trial(run_id="n", task_id=f"t{n}", **of) for n, of in enumerate([measured, {"benchmarks": {}}])
    ]
    [run] = board_runs(trials)
    for metric in ("mean_speedup", "agent_advantage"):
        assert [row.trials for row in ranked(metric, run.agents, {"n": "complete"})] == [1]


def test_r19_trials_without_a_final_value_are_explained_beside_pass_rates_alone() -> None:
    """Beside a mean cost, too, it said that the value counts them as not passed."""
    trials = [
        a_trial(run_id="n", task_id=f"t{n}", resolved=[True, None][n > 4], cost_usd=1.0) for n in range(6)
    ]
    plan = a_plan(run_id="n", benchmark="tb", judged=True)
    runs = board_runs([plan, *trials, {"type": "run_finished", "run_id": "n"}])
    said = [
        leaderboard.UNKNOWN in leaderboard.notes_of(the_board(runs, of)) for of in ("pass_rate", "mean_cost")
    ]
    assert said == [True, False]


def test_an_infinite_cost_of_pass_rests_on_all_verdicts() -> None:
    [run] = board_runs([a_trial(run_id="n", task_id=f"t{n}", resolved=False) for n in range(3)])
    [row] = ranked("cost_of_pass", run.agents, {"n": "complete"})
    assert (row.value, row.trials) == (inf, 3)


NOW = datetime(2026, 2, 1, tzinfo=UTC)


Passed = Mapping[str, Mapping[str, list[bool]]]
"""Agent to task to whether each trial passed."""


def the_board(
    runs: Iterable[BoardRun], metric: str = "pass_rate", **options: bool
) -> leaderboard.BenchmarkBoard:
    [board] = boards_of(runs, metric, NOW, **options)
    return leaderboard.BenchmarkBoard.model_validate_json(board.model_dump_json())


def place(row: leaderboard.BoardRow) -> tuple[int, int] | None:
    return row.rank and (row.rank.best, row.rank.worst)


def of_nights(*nights: Iterable[Event]) -> list[BoardRun]:
    return board_runs(event for night in nights for event in night)


def two_nights() -> list[BoardRun]:
    """Ten tasks; `best` passes nine or ten, `other` one, and `mid` grows from two to eight."""
    other = "+" + "-" * 9
    return of_nights(
        a_night("n1", 1, {"best": "+" * 10, "other": other, "mid": "++" + "-" * 8}),
        a_night("n2", 2, {"best": "+" * 9 + "-", "other": other, "mid": "++++++++--"}),
    )


def test_pass_rates_of_all_finished_runs_are_pooled_with_an_interval_by_task() -> None:
    board = the_board(two_nights())
    assert [(row.order, row.agent_model, row.value, row.trials, row.tasks) for row in board.rows] == [
        (1, "best:m", 0.95, 20, 10),
        (2, "mid:m", 0.5, 20, 10),
        (3, "other:m", 0.1, 20, 10),
    ]
    assert [row.runs for row in board.rows] == [["n2", "n1"]] * 3
    for row in board.rows:
        interval = present(row.interval)
        assert interval.low < float(row.value) < interval.high
    assert (board.benchmark, board.below, board.rank_missing) == ("tb", [], None)


def test_true_places_come_from_one_sided_sign_tests_by_holms_method() -> None:
    """`best` passes 9 tasks more often than `other`: p = 2^-9 < .025/6. `mid` differs on 8 and on 7 tasks.

    p = 2^-8 is below .025/5. Of the 7 tasks that `mid` passes more often than `other` p = 2^-7 is above
    .025/4, though below .05/4: the ranks of the run while it went on have the other half.
    """
    places = {row.agent_model: place(row) for row in the_board(two_nights()).rows}
    assert places == {"best:m": (1, 1), "mid:m": (2, 3), "other:m": (2, 3)}
    close = board_runs(a_night("n", 1, {"a": "+" * 10, "b": "+" * 6 + "-" * 4}))
    assert [place(row) for row in the_board(close).rows] == [(1, 2), (1, 2)]


def test_a_change_from_night_to_night_says_whether_it_is_real_and_a_trend_begins_with_the_oldest() -> None:
    rows = {row.agent_model: row for row in the_board(two_nights()).rows}
    mid, best = present(rows["mid:m"].change), present(rows["best:m"].change)
    assert (mid.before, mid.after, mid.difference) == ("n1", "n2", pytest.approx(0.6))
    assert (mid.p_value, mid.certain) == (2 / 2**6, True)
    assert mid.words[0] == "mid:m of n2 ahead on tasks like these: sign test p = 0.0312"
    assert (best.difference, best.p_value, best.certain) == (pytest.approx(-0.1), 1.0, False)
    trend = rows["mid:m"].trend
    assert [(point.run, point.value, point.trials, point.at) for point in trend] == [
        ("n1", 0.2, 10, datetime(2026, 1, 1, 3, tzinfo=UTC)),
        ("n2", 0.8, 10, datetime(2026, 1, 2, 3, tzinfo=UTC)),
    ]
    assert all(point.interval for point in trend)


def test_equal_agents_that_ran_on_unequally_many_nights_are_not_told_apart() -> None:
    """89 tasks at 20 %: `new` ran on the last night alone, `old` on all five."""
    agents = [{"old": "+" * 5}] * 4 + [{"old": "+" * 5, "new": "+" * 5}]
    stored = of_nights(*(a_night(f"n{day}", day, outcomes) for day, outcomes in enumerate(agents, 1)))
    random, wrong = Random(11), 0
    for _ in range(40):
        drawn = []
        for one in stored:
            names = [agent.agent_model for agent in one.agents]
            tasks = {f"t{n}": {name: (1, int(random.random() < 0.2), 0) for name in names} for n in range(89)}
            drawn.append(replace(one, tasks=tasks))
        wrong += any(place(row) != (1, 2) for row in the_board(drawn).rows)
    assert wrong <= 2


def test_a_change_compares_runs_of_the_same_benchmark() -> None:
    """The tasks of `swe` are called like those of `tb`, and are others."""
    runs = of_nights(
        a_night("one", 1, {"a": "+" * 8, "b": "+" * 8}),
        a_night("two", 2, {"a": "-" * 8, "b": "-" * 8}, benchmark="swe"),
        a_night("three", 3, {"a": "+" * 7 + "-"}),
        a_night("unnamed", 1, {"c": "-" * 8}, benchmark=None),
        a_night("nameless", 2, {"c": "+" * 8}, benchmark=None),
    )
    changes = {row.agent_model: row.change for row in the_board(runs, together=True).rows}
    change = present(changes.pop("a:m"))
    assert (change.before, change.after, change.certain) == ("one", "three", False)
    assert changes == {"b:m": None, "c:m": None}


def test_unfinished_and_tiny_runs_stand_below_and_are_marked() -> None:
    runs = of_nights(
        a_night("whole", 1, {"a": "+-" * 6}),
        a_night("going on", 2, {"b": "+" * 12}, ended=False, tasks=20, attempts=1),
        a_night("short", 2, {"c": "+" * 12}, tasks=20, attempts=1),
        a_night("half", 3, {"a": "+" * 5}),
        a_night("few", 3, {"d": "+" * 4}),
    )
    board = the_board(runs)
    assert [(row.agent_model, row.value) for row in board.rows] == [("a:m", 0.5)]
    assert board.rank_missing == "one_agent"
    below = {row.runs[0]: (row.left_out, row.why, row.order, row.rank) for row in board.below}
    assert below == {
        "going on": ("unfinished", "stalled", None, None),
        "short": ("unfinished", "short of its plan", None, None),
        "half": ("tiny", "tiny", None, None),
        "few": ("tiny", "tiny", None, None),
    }
    assert [row.interval for row in board.below if row.left_out == "unfinished"] == [None, None]


def test_benchmarks_are_never_mixed_unless_asked() -> None:
    runs = of_nights(
        a_night("one", 1, {"a": "+" * 6, "b": "-" * 6}),
        a_night("two", 2, {"a": "-" * 6}, benchmark="swe"),
        a_night("unnamed", 3, {"a": "+" * 6}, benchmark=None),
    )
    boards = boards_of(runs, "pass_rate", NOW)
    assert [(board.benchmark, [(row.agent_model, row.value) for row in board.rows]) for board in boards] == [
        ("swe", [("a:m", 0.0)]),
        ("tb", [("a:m", 1.0), ("b:m", 0.0)]),
        (None, []),
    ]
    assert [row.left_out for row in boards[2].below] == ["no_benchmark"]
    mixed = the_board(runs, together=True)
    assert mixed.mixed
    assert [(row.agent_model, row.tasks) for row in mixed.rows] == [("a:m", 18), ("b:m", 6)]
    assert mixed.rows[0].value == pytest.approx(2 / 3)
    unnamed = board_runs(a_night("x", 1, {"a": "+" * 8, "b": "-" * 8}, benchmark=None))
    alone = the_board(unnamed, together=True)
    assert (alone.mixed, alone.benchmark, [place(row) for row in alone.rows]) == (
        False,
        None,
        [(1, 1), (2, 2)],
    )


def test_a_named_metric_is_that_of_the_newest_finished_run_with_its_interval_and_without_ranks() -> None:
    board = the_board(two_nights(), "metrics/reward")
    assert [(row.agent_model, row.value, row.runs) for row in board.rows] == [
        ("best:m", 0.925, ["n2"]),
        ("mid:m", 0.85, ["n2"]),
        ("other:m", 0.325, ["n2"]),
    ]
    assert all(row.interval and row.rank is None and row.change is None for row in board.rows)
    assert (board.rank_missing, board.higher_is_better) == ("metric", True)
    assert boards_of(two_nights(), "metrics/unheard-of", NOW) == []
    plan = {"metrics": {"reward": {"direction": "lower", "unit": "points", "label": "Cost"}}}
    least = the_board(board_runs(a_night("n", 1, {"a": "+" * 6, "b": "-" * 6}, **plan)), "metrics/reward")
    assert [row.agent_model for row in least.rows] == ["b:m", "a:m"]
    assert (least.label, least.unit, least.higher_is_better) == ("Cost", "points", False)


def test_equal_values_share_a_place_and_baselines_have_none() -> None:
    runs = board_runs(a_night("n", 1, {"a": "+-" * 5, "b": "-+" * 5, "c": "-" * 10, "nop": "+" * 10}))
    orders = [(row.agent_model, row.order) for row in the_board(runs).rows]
    assert orders == [("a:m", 1), ("b:m", 1), ("c:m", 3)]


def test_public_submissions_of_terminal_bench_pool_to_what_a_count_of_their_trials_gives() -> None:
    """Every run that has all 80 tasks. The oracle counts rows; one without a verdict has not passed (R19)."""
    of_run = defaultdict(dict)
    for row in read_rows(shared_data() / "terminal_bench" / "trials.jsonl.gz"):
        of_run[row["run_path"]][row["task_id"]] = row
    whole = {path: stored for path, stored in of_run.items() if len(stored) == 80}
    events: list[Event] = []
    verdicts: dict[str, list[bool | None]] = defaultdict(list)
    for path, stored in whole.items():
        events.append(a_plan(run_id=path, benchmark="terminal-bench-core", benchmark_version="0.1.1"))
        events += [terminal_bench_row_to_event(row, path) for row in stored.values()]
        events.append({"type": "run_finished", "run_id": path})
        for row in stored.values():
            label = f"{row['agent'] or 'unknown'}:{row['model'] or 'unknown'}"
            verdicts[label].append(row["is_resolved"])
    board = the_board(board_runs(events))
    rates = {label: of_one.count(True) / len(of_one) for label, of_one in verdicts.items()}
    assert {row.agent_model: row.value for row in board.rows} == pytest.approx(rates)
    assert (board.below, board.versions, len(board.rows) >= 5) == ([], ["0.1.1"], True)
    assert max(len(row.runs) for row in board.rows) == 7
    newest_first: Passed = {
        row.agent_model: {
            task: [whole[run][task]["is_resolved"] is True for run in row.runs] for task in whole[row.newest]
        }
        for row in board.rows
    }
    assert {row.agent_model: place(row) for row in board.rows} == holm(newest_first)
    assert sum(of_one.count(None) for of_one in verdicts.values()) > 10
    assert {row.unknown for row in board.rows} == {0}


def holm(passed: Passed) -> dict[str, tuple[int, int]]:
    """Places by Holm's method over one-sided sign tests, step by step.

    Each run has one trial of a task, the newest first: the newest ones that both have are compared.
    """

    def p_worse(one: str, other: str) -> float:
        common = passed[one].keys() & passed[other].keys()
        both = [list(zip(passed[one][task], passed[other][task], strict=False)) for task in common]
        moved = [sum(a for a, _ in trials) - sum(b for _, b in trials) for trials in both]
        losses, n = sum(by < 0 for by in moved), sum(by != 0 for by in moved)
        return sum(comb(n, k) for k in range(losses, n + 1)) / 2**n

    p_values = {(one, other): p_worse(one, other) for one in passed for other in passed if one != other}
    worse, better = list[str](), list[str]()
    for done, ((one, other), p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p > 0.05 / (len(p_values) - done):
            break
        worse.append(one)
        better.append(other)
    return {agent: (1 + worse.count(agent), len(passed) - better.count(agent)) for agent in passed}


def tables(runs: list[BoardRun], metric: str = "pass_rate", limit: int | None = None) -> list[Table]:
    return leaderboard.leaderboard_tables(boards_of(runs, metric, NOW), limit)


def nights(*more: Iterable[Event]) -> list[BoardRun]:
    b = "+" + "-" * 9
    return of_nights(
        a_night("n1", 1, {"a": "++" + "-" * 8, "b": b}),
        a_night("n2", 2, {"a": "++++++++--", "b": b}),
        a_night("n3", 3, {"a": "+" * 5}, ended=False, tasks=10, attempts=1, benchmark_version="2"),
        *more,
    )


def test_boards_that_stand_together_say_once_what_their_columns_mean() -> None:
    other = a_night("n4", 4, {"a": "+-", "b": "--"}, benchmark="other")
    every, [alone] = tables(nights(other)), tables(nights())
    said = [line for table in every for line in table.note.split("\n") if line]
    assert len(every) == 2
    assert sorted(said) == sorted(set(said))
    assert set(alone.note.split("\n")) <= set(said)


def test_a_row_has_place_interval_trend_and_change_and_what_is_left_out_says_why() -> None:
    [table] = tables(nights())
    first, second, below = by_head(table)
    assert table.title == "tb: pass rate, highest first"
    assert (first["agent:model"], first["order"], first["place"]) == ("a:m", "1", "1")
    assert (second["agent:model"], second["order"], second["place"]) == ("b:m", "2", "2")
    assert (first["pass rate"], first["runs"], first["newest run"]) == ("50.0 %", "2", "n2")
    assert first["run by run"] == "20.0 %, 80.0 %"
    assert first["95 %"].startswith("[2")
    assert first["change"].startswith("+60.0 points [")
    assert first["change"].endswith("], real")
    assert second["change"] == "+0.0 points [-34.7, 34.7], may be chance"
    assert (below["left out"], below["order"], below["95 %"]) == ("stalled", "–", "–")
    for said in ("all agents at once", "not for the best of many nights", "equal attempts at a task"):
        assert said in table.note
    assert "pooled" not in table.note.split("\n")[0]


def test_agents_with_numbers_alone_stand_on_the_board_of_their_metric() -> None:
    """R31: their tasks are not published, and no pass rate needs them; few tasks are few here, too."""
    [*large, _] = a_night("n1", 1, {"a": "+-" * 3, "b": "+" * 6})
    [*small, _] = a_night("n2", 2, {"a": "+" * 4})
    numbers = [one | {"resolved": None} if "task_id" in one else one for one in (*large, *small)]
    ends = [{"type": "run_finished", "run_id": run} for run in ("n1", "n2")]
    [board] = boards_of(board_runs([*numbers, *ends]), "metrics/reward", NOW)
    rows = [(row.agent_model, row.value, row.tasks, row.runs) for row in board.rows]
    assert rows == [("b:m", 1.0, 6, ["n1"]), ("a:m", 0.625, 6, ["n1"])]
    assert [(row.runs, row.left_out) for row in board.below] == [(["n2"], "tiny")]


def test_r31_without_verdicts_the_primary_metric_leads_a_leaderboard() -> None:
    """There was no board."""
    numbers = [a_trial(run_id="n", task_id=f"t{n}", resolved=None, metrics={"x": 1.0}) for n in range(6)]
    ends = [a_plan(run_id="n", metrics={"x": {}}), {"type": "run_finished", "run_id": "n"}]
    [board] = boards_of(board_runs([*numbers, *ends]), "pass_rate", NOW)
    assert board.metric == "metrics/x"


def test_a_limit_keeps_the_best_and_a_named_metric_is_neither_ranked_nor_pooled() -> None:
    [limited], [named] = tables(nights(), limit=1), tables(nights(), "metrics/reward")
    assert [row["agent:model"] for row in by_head(limited)] == ["a:m"]
    assert leaderboard.NOT_RANKED["metric"] in named.note
    assert "newest finished run" in named.note
    assert "place" not in named.heads


def test_runs_are_counted_beside_the_newest_and_versions_are_named() -> None:
    several = (a_night(f"n{n}", n, {"a": "+" * 6}, benchmark_version=str(n % 2)) for n in range(1, 6))
    [table] = tables(of_nights(*several))
    [row] = by_head(table)
    assert (row["runs"], row["newest run"]) == ("5", "n5")
    assert "Runs of several versions of the benchmark: 0, 1." in table.note
    assert table.title.startswith("tb: ")


@pytest.mark.parametrize(("without", "says"), [(1, "1 run names no"), (2, "2 runs name no")])
def test_a_run_that_names_no_version_does_not_stand_under_one(without: int, says: str) -> None:
    versions = [{} if n < without else {"benchmark_version": "7"} for n in range(3)]
    runs = [list(a_night(f"n{n}", n + 1, {"a": "+" * 6}, **plan)) for n, plan in enumerate(versions)]
    [table], [alone] = tables(of_nights(*runs)), tables(of_nights(*runs[without:]))
    assert table.title.startswith("tb: ")
    assert f"{says} version of the benchmark." in table.note
    assert alone.title.startswith("tb 7: ")
    assert "no version" not in alone.note


def test_boards_of_as_many_runs_as_are_read_say_that_earlier_ones_do_not_count() -> None:
    boards = boards_of(board_runs(a_night("n", 1, {"a": "+" * 6})), "pass_rate", NOW)
    documents = [
        leaderboard.leaderboard_document(leaderboard.with_words(boards, runs), []) for runs in (399, 400)
    ]
    assert [leaderboard.LATEST in document.tables[0].note for document in documents] == [False, True]


def test_the_command_says_so_in_every_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The servers are replaced. HTML and JSON did not say it."""
    [run] = board_runs(a_night("n", 1, {"a": "+" * 6}))
    monkeypatch.setattr(StateReader, "__enter__", lambda reader: reader)
    monkeypatch.setattr(StateReader, "board_runs", lambda *_, **__: [run] * MOST_BOARD_RUNS)
    file = tmp_path / "board.html"
    said = [
        CliRunner().invoke(cli, ["query", "leaderboard", *form]).stdout
        for form in ([], ["--json"], ["--html", str(file)])
    ]
    for one in (*said[:2], file.read_text()):
        assert leaderboard.LATEST in " ".join(one.split())


def test_each_note_is_a_line_of_its_own_in_a_file() -> None:
    """HTML had all of them on one line, with a visible escape between them."""
    boards = leaderboard.with_words(boards_of(two_nights(), "pass_rate", NOW))
    body = unescape(one_file(leaderboard.leaderboard_document(boards, [])).decode())
    assert [f"<p>{note}</p>" in body for note in leaderboard.notes_of(boards[0])] == [True] * 3


def test_hostile_names_are_visible_and_an_empty_document_says_so() -> None:
    [table] = tables(board_runs(a_night("n\u202e", 1, {"evil\u2066": "+" * 6})))
    assert not any("\u202e" in cell or "\u2066" in cell for row in table.rows for cell in row)
    document = leaderboard.leaderboard_document([], ["tb"])
    assert (document.lines, document.tables) == (["No agent is on this board."], [])


def change(before: Iterable[Event] | str, after: Iterable[Event] | str) -> leaderboard.Change:
    """What agent `a` has of night n2 against n1."""
    sides = zip(("n1", "n2"), (1, 2), (before, after), strict=True)
    nights = (a_night(run, day, {"a": of}) if isinstance(of, str) else of for run, day, of in sides)
    newer, older = of_nights(*nights)
    return leaderboard.change_between(older, newer, "a:m")


@pytest.mark.parametrize(
    ("before", "after", "p", "certain"),
    [
        ("-" * 6, "+" * 6, 2 / 64, True),
        ("+" * 6, "-" * 6, 2 / 64, True),
        ("-" * 5, "+" * 5, 2 / 32, False),
        ("+-" * 5, "+-" * 5, 1.0, False),
    ],
)
def test_a_change_is_real_if_the_sign_test_shows_it_at_five_percent(
    before: str, after: str, p: float, certain: bool
) -> None:
    result = change(before, after)
    assert (result.p_value, result.certain) == (p, certain)
    assert result.said.endswith("real" if certain else "may be chance")


def test_only_common_tasks_count_and_with_unequal_attempts_nothing_is_tested() -> None:
    result = change("++++++  ", "++++  --")
    assert (result.difference, result.p_value) == (0.0, 1.0)
    nothing = change("++++    ", "    ++++")
    assert (nothing.difference, nothing.said, nothing.certain) == (None, "–", False)
    newer = list(a_night("n2", 2, {"a": "+" * 8}))
    again = [event | {"attempt": 2} for event in newer if "task_id" in event]
    uneven = change("-" * 8, [*newer, *again])
    assert (uneven.p_value, uneven.certain, uneven.difference) == (None, False, 1.0)
    assert uneven.said == "+100.0 points [41.8, 100.0], attempts differ"
    assert uneven.words[-1] == "8 of 8 tasks have unequal attempts: no test uses them"
    assert not any("sign test" in words for words in uneven.words)


@pytest.mark.parametrize(("differing", "certain"), [(10, True), (5, False)])
def test_an_unknown_trial_counts_both_ways_in_interval_and_p_value(differing: int, certain: bool) -> None:
    """Of ten sure losses and one task that may yet be a win p is at most that of ten losses of eleven."""
    open_task = a_start(run_id="n2", task_id=f"t{differing:02}", agent="a", model="m")
    stopped = {"type": "run_finished", "run_id": "n2", "revision": 99, "status": "cancelled"}  # (R19)
    after = [*a_night("n2", 2, {"a": "-" * differing}), open_task, stopped]
    result = change("+" * (differing + 1), after)
    assert (result.p_value, result.certain) == (sign_test(differing, 1), certain)
    assert result.interval is not None
