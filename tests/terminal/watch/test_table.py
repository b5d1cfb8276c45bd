"""The lines above the tables, their columns and rows, and what an update changes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.client.readers import StateUpdate
from streamer.folding.slots import SummaryChange
from streamer.schemas.summaries import SUMMARY, AgentModelSummary, Leader, RunSummary, TierSummary
from streamer.settings import Settings
from streamer.terminal import boards
from streamer.terminal.boards import DrawnColumn, Sort
from streamer.terminal.watch import table
from streamer.terminal.watch.following import OneRun, Runs
from streamer.views.columns import AGENTS, RUNS
from streamer.views.decide.outlook import Estimate, Eta
from streamer.views.models import ListedRun
from streamer.views.tables import runs_table, trials_table
from tests.support.builders import (
    a_formulacode_summary,
    a_run_change,
    a_tier_change,
    an_agent_model_change,
    statistics_of,
)
from tests.support.events import a_trial
from tests.terminal.watch.driving import AT, LARGE, SMALL, a_board, watching
from tests.web.feeding import Feed

UNKNOWN = Eta(None, None, None, None)
NOW = datetime(2026, 1, 2, 3, 5, 5, tzinfo=UTC)
READING = {"done": 1, "planned": None, "plan_complete": False}
AT_THREE = datetime(2026, 1, 2, 3, tzinfo=UTC)


def a_run(**fields: Any) -> RunSummary:
    return RunSummary.model_validate(a_run_change(**fields).summary)


def test_a_run_is_called_by_its_name_with_its_id_beside_it() -> None:
    nightly = a_run(display_name="Nightly", benchmark="tb")
    assert table.title_of(nightly, "running").startswith("Nightly (r1) · tb")
    assert table.title_of(a_run(), "stalled") == "r1 · stalled"
    assert "\x1b" not in table.title_of(a_run(display_name="\x1b[31mred", harness="\x1b[1m"), "running")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "1 trial in, no plan known"),
        ({"progress": READING}, "1 trial in, plan not complete yet"),
        ({"progress": READING, "in_flight": 2}, "1 trial, 2 running, plan not complete yet"),
        ({"in_flight": 2, "status": "aborted"}, "1 trial, no plan known"),
    ],
)
def test_without_a_plan_there_is_no_bar(fields: dict[str, Any], said: str) -> None:
    assert table.progress_line(a_run(**fields), UNKNOWN, 80) == said


def test_the_bar_shrinks_to_its_least_and_the_text_stays() -> None:
    run = a_run(progress={"done": 1, "planned": 4})
    pace = Eta(0.25, Estimate(50.0, 60.0, 80.0), None, None)
    wide, narrow = (table.progress_line(run, pace, width) for width in (200, 1))
    text = narrow.split("  ", 1)[1]
    assert text == "25.0 %  1 of 4 trials"
    assert wide.endswith(text)
    assert (len(wide) - len(text) - 2, len(narrow) - len(text) - 2) == (60, 10)
    running = a_run(progress={"done": 1, "planned": 4}, in_flight=2)
    assert table.progress_line(running, pace, 80).endswith("1 of 4 trials, 2 running")


def test_the_end_and_the_budget_are_forecasts_and_none_lies_in_the_past() -> None:
    run = a_run(last_event_at=AT_THREE.isoformat(), total_cost=20.0)
    pace = Eta(0.5, Estimate(60.0, 240.0, 5400.0), None, Estimate(41.0, 44.0, 47.0))
    passed = "forecast: the budget of $32.00 is passed"
    for minute, end, budget in (
        (0, "forecast: ends about 03:04 UTC, 03:01 to 04:30", f"{passed} about 03:02 UTC"),
        (9, "forecast: ends about 03:09 UTC, 03:09 to 04:30", f"{passed} about 03:09 UTC"),
        (11, "", passed),
    ):
        now = AT_THREE.replace(minute=minute)
        assert (table.end_line(run, pace, now), table.budget_line(run, pace, 32.0, now)) == (end, budget)
    ended = Eta(1.0, Estimate(0.0, 0.0, 0.0), None, None)
    assert table.end_line(run, UNKNOWN, AT_THREE) == table.end_line(run, ended, AT_THREE) == ""
    assert table.budget_line(run, pace, None, AT_THREE) == ""


def test_the_outcome_loses_its_last_parts_first_and_never_the_accuracy() -> None:
    run = a_run(no_verdict=1)
    whole = table.outcome_line(run, 500)
    assert "pass@1" in whole
    assert "1 no verdict" in whole
    assert whole.endswith("1 task")
    assert "1 task" not in table.outcome_line(run, len(whole) - 1)
    assert table.outcome_line(run, 1) == whole.split(" · ")[0]
    assert "pass@k by agent only" in table.outcome_line(a_run(pass_at_k=None, agent_models=2), 500)


@pytest.mark.parametrize(
    ("cost", "pace", "line"),
    [
        (None, UNKNOWN, "cost unknown"),
        (1.5, UNKNOWN, "cost $1.5000"),
        (
            1.5,
            Eta(0.5, None, 3.0, Estimate(2.0, 3.0, 5.0)),
            "cost $1.5000 · $3.0000 per hour · forecast: about $3.00 in all, $2.00 to $5.00",
        ),
        (1.5, Eta(1.0, None, 3.0, Estimate(1.5, 1.5, 1.5)), "cost $1.5000 · $3.0000 per hour"),
    ],
)
def test_the_cost_says_as_much_as_is_known(cost: float | None, pace: Eta, line: str) -> None:
    assert table.cost_line(a_run(total_cost=cost), pace) == line


def an_agent(agent: str = "claude", **fields: Any) -> AgentModelSummary:
    return AgentModelSummary.model_validate(an_agent_model_change(agent=agent, **fields).summary)


def by_key(columns: list[DrawnColumn[Any]]) -> dict[str, DrawnColumn[Any]]:
    return {column.key: column for column in columns}


def style(column: DrawnColumn[Any], row: object) -> str:
    assert column.style
    return column.style(row)


def test_columns_have_heads_marks_colours_and_directions() -> None:
    heads = [column.head for column in boards.board_columns(AGENTS, NOW, boards.heading(AGENTS, 3))]
    assert heads[:2] == ["agents (3)", "pass rate"]
    assert boards.board_columns(AGENTS, NOW)[0].head == "agent:model"
    columns = by_key(boards.board_columns(AGENTS, NOW))
    waiting = an_agent(grade="B", provisional=True, grade_provisional=True)
    assert (columns["grade"].text(waiting), style(columns["grade"], waiting)) == ("B*?", "cyan")
    assert style(columns["grade"], an_agent(grade=None)) == ""
    assert [style(columns["agent"], an_agent(name)) for name in ("nop", "claude")] == ["dim", ""]
    assert (columns["total_cost"].descending, columns["pass_rate"].descending) == (False, True)
    assert columns["pass@1"].value is None


def test_the_last_event_is_an_age_and_the_state_has_its_colour() -> None:
    at = "2026-01-02T03:04:05Z"
    run = ListedRun.of(RunSummary.model_validate(a_run_change(last_event_at=at).summary), NOW)
    columns = by_key(boards.board_columns(RUNS, NOW))
    assert columns["last"].text(run) == "1 min ago"
    assert style(columns["state"], run) in ("cyan", "green")


def test_a_run_is_sorted_by_the_primary_metric_of_its_plan() -> None:
    latency = statistics_of(1.5) | {"direction": "lower", "unit": None, "label": None, "planned": True}
    agents = [an_agent(metrics={"latency": latency}, formulacode=a_formulacode_summary())]
    for metric, expected in (
        ("pass_rate", Sort("pass_rate", True)),
        ("metrics/latency", Sort("metrics/latency", False)),
        ("mean_cost", Sort("mean_cost", False)),
        ("metrics/unheard-of", Sort("pass_rate", True)),
    ):
        assert boards.first_sort(metric, agents) == expected


columns = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from([0, 0, 4, 16])), min_size=1, max_size=12
).map(lambda result: columns_of(*((str(n), rank, least) for n, (rank, least) in enumerate(result))))
widths = st.lists(st.integers(1, 60), min_size=12, max_size=12)


def columns_of(*expected: tuple[str, int, int]) -> list[DrawnColumn[int]]:
    return [DrawnColumn(key, key, str, rank, least=least) for key, rank, least in expected]


@given(columns, widths, st.integers(1, 200))
def test_what_was_chosen_fits(columns: list[DrawnColumn[int]], widths: list[int], width: int) -> None:
    widest = {column.key: widths[number] for number, column in enumerate(columns)}
    fitted = boards.fit(columns, widest, width)
    assert fitted
    assert sum(one.width for one in fitted) + boards.gap_of(width) * (len(fitted) - 1) <= width
    assert all(one.width <= widest[one.key] for one in fitted)
    assert [one.key for one in fitted] == [c.key for c in columns if c.key in {one.key for one in fitted}]


@pytest.mark.parametrize(
    ("rank", "name", "width", "kept", "expected"),
    [
        (2, 30, 20, [], {"name": 11, "cost": 8}),  # the less important column goes first
        (2, 30, 20, ["extra"], {"name": 11, "extra": 8}),  # the sorted one stays
        (12, 30, 45, [], {"name": 30, "cost": 8}),  # a dispensable one gets only what names leave
        (12, 30, 48, [], {"name": 30, "cost": 8, "extra": 8}),
        (12, 512, 90, [], {"name": 72, "cost": 8, "extra": 8}),  # very long names leave something
        (None, 30, 30, [], {"name": 21, "cost": 8}),  # a name gets what is left, and no more than it needs
        (None, 30, 90, [], {"name": 30, "cost": 8}),
    ],
)
def test_columns_give_way_by_their_rank(
    rank: int | None, name: int, width: int, kept: list[str], expected: dict[str, int]
) -> None:
    columns = columns_of(("name", 0, 8), ("cost", 1, 0), *([] if rank is None else [("extra", rank, 0)]))
    fitted = boards.fit(columns, {"name": name, "cost": 8, "extra": 8}, width, frozenset(kept))
    assert {one.key: one.width for one in fitted} == expected


def test_unknown_values_come_last_in_both_directions_and_baselines_after_them() -> None:
    column: DrawnColumn[Any] = DrawnColumn("value", "value", str, 0, value=lambda row: row[1])
    rows: list[Any] = [("a", 1.0), ("nop", 9.0), ("b", None), ("c", 3.0)]
    for descending, order in ((True, "c a b nop"), (False, "a c b nop")):
        result = boards.ordered(rows, [column], Sort("value", descending), lambda row: row[0] == "nop")
        assert " ".join(name for name, _ in result) == order


def test_sorting_goes_round_all_columns_that_can_be_sorted_by() -> None:
    columns = [
        DrawnColumn("a", "a", str, 0, value=str, descending=False),
        DrawnColumn("b", "b", str, 0),
        DrawnColumn("c", "c", str, 0, value=str),
    ]
    assert boards.next_sort(columns, Sort("a", True)) == Sort("c", True)
    assert boards.next_sort(columns, Sort("c", True)) == Sort("a", False)
    assert boards.next_sort(columns, Sort("gone", True)) == Sort("a", False)
    assert boards.next_sort(columns[1:2], Sort("gone", True)) == Sort("gone", True)


def test_runs_stand_in_the_given_order_with_their_progress(capsys: pytest.CaptureFixture[str]) -> None:
    progress = {
        "b": {"done": 3, "planned": 12},
        "a": {"done": 3, "planned": None, "plan_complete": False},
        "c": {"done": 4, "planned": None},
    }
    runs = [a_run_change(run, progress=of).summary or {} for run, of in progress.items()]
    boards.print_board(runs_table(runs, NOW))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert [run for run in lines if run in progress] == list(progress)
    assert "3 of 12" in lines["b"]
    assert "3 (plan not complete yet)" in lines["a"]
    assert "plan" not in lines["c"]


def test_columns_without_room_are_named_with_the_options_that_a_command_has() -> None:
    """`streamer live` has neither --wide nor --json."""
    board = runs_table([a_run_change().summary or {}], NOW)
    with click.Context(click.Command("live")) as context:
        plain = boards.left_out(board, 40)
        context.meta[boards.WIDE_OPTION] = False
        assert boards.left_out(board, 40) == f"{plain} --wide and --json show all."
    assert plain.startswith("No room for: ")
    assert "--" not in plain


def test_nothing_to_show_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    boards.print_board(runs_table([], NOW), empty="No runs yet.")
    assert capsys.readouterr().out == "No runs yet.\n"
    boards.print_board(trials_table([]), runs_table([a_run_change().summary or {}], NOW), empty="Nothing.")
    assert "Nothing." not in capsys.readouterr().out


def an_update(change: SummaryChange) -> StateUpdate:
    summary = None if change.value is None else SUMMARY.validate_json(change.value)
    assert summary is None or isinstance(summary, RunSummary | AgentModelSummary | TierSummary)
    return StateUpdate(change.run_id, change.kind, "", f"{change.kind} {change.key}", summary)


def test_what_was_read_at_first_does_not_replace_what_has_been_told_since() -> None:
    model = Runs()
    now, before = (Leader(agent_model="claude:opus", value=value) for value in (0.75, 0.5))
    told = replace(an_update(a_run_change(version=3, trials=2)), leader=now)
    model.take(told)
    runs = [a_run(), a_run(run="r2")]
    model.fill(runs, {"r1": before, "r2": before}, {})
    assert model.runs["r1"] is told.summary
    assert model.leaders == {"r1": now, "r2": before}
    model.take(an_update(a_run_change(version=4)))
    assert model.leaders == {"r2": before}
    assert set(model.runs) == {"r1", "r2"}
    seen = dict(model.runs)
    model.take(told)
    model.fill([], {}, seen | {"r3": a_run()})
    assert (set(model.runs), set(model.leaders)) == ({"r1"}, {"r1"})  # r2 was deleted unheard, r1 came since


def test_a_run_keeps_its_agents_and_its_pooled_tiers() -> None:
    model = OneRun()
    for change in (
        a_run_change(),
        an_agent_model_change(),
        a_tier_change(),
        a_tier_change(agent="claude", model="opus"),
    ):
        model.take(an_update(change))
    assert [agent.agent_model for agent in model.agents.values()] == ["claude:opus"]
    assert [tier.agent_model for tier in model.tiers.values()] == [None]
    for change in (an_agent_model_change(deleted=True), a_tier_change(deleted=True)):
        model.take(an_update(change))
    assert not model.agents
    assert not model.tiers


def test_a_deleted_run_is_told_from_one_that_was_never_there() -> None:
    model = OneRun()
    model.take(an_update(a_run_change(deleted=True)))
    assert not model.deleted
    model.take(an_update(a_run_change()))
    model.take(an_update(a_run_change(deleted=True)))
    assert (model.deleted, model.run) == (True, None)
    model.take(an_update(a_run_change()))
    assert (model.deleted, model.run is None) == (False, False)


async def test_every_sort_key_orders_the_board_and_r_turns_it_around(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    agents = ("best:m", "mid:m", "cheap:m", "nop:nop")
    async with watching(settings, "run-1", LARGE) as driver:
        await driver.shows(*agents, "pass rate▼")
        assert driver.order(*agents) == list(agents)
        await driver.press("r")
        await driver.shows("pass rate▲")
        assert driver.order(*agents) == ["cheap:m", "mid:m", "best:m", "nop:nop"]
        first_by = {"cost▲": "cheap:m", "cost/pass▲": "cheap:m", "agents (4)▲": "best:m"}
        seen = {}
        for _ in range(14):
            await driver.press("s")
            await driver.until(lambda: ("▼" in driver.text) != ("▲" in driver.text), "one column is marked")
            head = driver.line("agents")
            for mark in first_by:
                if mark in head and mark not in seen:
                    seen[mark] = driver.order(*agents)[0]
                    assert driver.order(*agents)[-1] == "nop:nop"
        assert seen == first_by


async def test_a_click_on_a_head_sorts_and_a_second_one_turns_around(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1", LARGE) as driver:
        await driver.shows("best:m", "place", "cost/pass")
        place = driver.line("agents").index("cost/pass")
        for mark in ("cost/pass▲", "cost/pass▼"):
            await driver.click("#agents", place, 0)
            await driver.shows(mark)


async def test_heads_name_open_questions(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1") as driver:
        await driver.shows("best:m", "this run, final", "tasks like these")
        head = driver.line("agents")
        above = driver.lines[driver.lines.index(head) - 1]
        assert above.index("this run, final") < head.index("pass rate") + len("pass rate▼")
        assert above.index("tasks like these") >= head.index("pass rate▼")
        assert driver.lines[driver.lines.index(head) + 1].split()[0] == "best:m"
        agents = [("best", "m"), ("mid", "m"), ("cheap", "m"), ("nop", "nop")]
        last = [(f"t{n}", *agent) for n in range(4) for agent in agents]
        keys = ("task_id", "agent", "model")
        await feed.take([a_trial(**dict(zip(keys, one, strict=True)), finished_at=AT) for one in last])
        await driver.until(lambda: "this run, final" not in driver.text, "every final pass rate is known")


@pytest.mark.parametrize("size", [SMALL, (100, 30), LARGE, (260, 70)])
async def test_nothing_important_is_cut(settings: Settings, feed: Feed, size: tuple[int, int]) -> None:
    await feed.take(a_board())
    async with watching(settings, size=size) as driver:
        await driver.shows("run-1", "running", "10 of 16", "62.5 %", "$12.3000", "1 min ago", "q Quit")
        await driver.press("enter")
        await driver.shows("10 of 16 trials", "$12.3000", "best:m", "cheap:m", "100.0 %", "newest trials")
        await driver.shows("rejections", "q Quit", "? Help", "cost/pass")
        assert max(map(len, driver.lines)) <= size[0]


async def test_a_resize_chooses_columns_anew(settings: Settings, feed: Feed) -> None:
    await feed.take(a_board())
    async with watching(settings, "run-1") as driver:
        await driver.shows("best:m", "pass rate▼")
        assert "mean cost" not in driver.text
        await driver.resize(*LARGE)
        await driver.shows("mean cost", "pass@1", "best:m")
        await driver.resize(60, 15)
        await driver.until(lambda: "mean cost" not in driver.text, "there is no room for it any more")
        await driver.shows("best:m", "place", "pass rate▼", "q Quit")


async def test_the_cursor_stays_where_it_is_moved(settings: Settings, feed: Feed) -> None:
    await feed.take([a_trial(run_id=f"run-{n}", finished_at=f"2026-01-31T11:0{n}:00Z") for n in range(3)])
    async with watching(settings) as driver:
        await driver.shows("run-0", "run-1", "run-2")
        board = driver.app.screen.query_one("#main", table.BoardTable)
        await feed.take([a_trial(run_id="newest", finished_at=AT)])
        await driver.until(lambda: board.chosen == "newest", "the cursor is at the top")
        await driver.press("down", "down")
        assert board.chosen == "run-1"
        await feed.take([a_trial(run_id="run-0", task_id="another", finished_at="2026-01-31T11:59:30Z")])
        await driver.until(lambda: driver.order("run-0", "newest")[0] == "run-0", "run-0 is the latest")
        assert board.chosen == "run-1"
