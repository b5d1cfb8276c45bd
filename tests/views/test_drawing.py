"""Boards, failures and matrices as elements: texts stay texts, and what is alike stands together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.schemas.summaries import TrialInFlight
from streamer.views import drawing, models
from streamer.views.charts import MOST_LABELS, NARROW, WIDE, Sheet, charts_of, draw_frontier
from streamer.views.columns import AGENTS, Column
from streamer.views.drawing import Element, draw_agents, html_of, text_of
from streamer.views.models import kind_of, matrix_of
from tests.support.builders import a_row, a_run_change
from tests.support.events import a_plan, a_trial, folded, summarised

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def agents(*trials: dict[str, Any]) -> list[dict[str, Any]]:
    return of_kind(summarised(trials), "agent_model ", place=None, over=True, graded=False)


def titles(rows: list[dict[str, Any]]) -> list[str]:
    return [text_of(head) for head in draw_agents(rows, "pass_rate").heads]


def test_a_text_cannot_become_markup_nor_act_wherever_it_stands() -> None:
    look = drawing.Look(HOSTILE, key=lambda row: row["name"], empty=HOSTILE)
    columns = [Column("name", HOSTILE, "name", ("name",), sort="least", hint=HOSTILE, outside=True)]
    for rows in ([{"name": HOSTILE}], []):
        written = html_of(drawing.table(drawing.draw(columns, rows, look)))
        assert "<img" not in written
        assert "&lt;img src=x onerror=alert(1)&gt;" in written
        if rows:
            assert "\u202e" not in html_of(
                drawing.table(drawing.draw(columns, rows, drawing.Look("Names", key=look.key)))
            )
    assert html_of(drawing.h("a", {"title": '" onclick="x'})) == '<a title="&quot; onclick=&quot;x"></a>'


def test_accuracy_and_pass_at_1_fold_into_the_pass_rate_while_all_agents_agree() -> None:
    alike = [a_trial(agent=agent, task_id=f"t{n}", resolved=n == 0) for agent in "ab" for n in range(2)]
    rows = agents(*alike)
    assert {"Accuracy", "Pass@1"}.isdisjoint(titles(rows))
    [head] = [head for head in draw_agents(rows, "pass_rate").heads if head[1]["data-id"] == "pass_rate"]
    assert head[1]["title"].endswith("The same here: accuracy and pass@1")
    other = [row | {"accuracy": 0.25} if at else row for at, row in enumerate(rows)]
    assert "Accuracy" in titles(other)


def test_every_column_of_a_board_has_a_head_and_a_cell_or_neither() -> None:
    """A head that cannot be sorted by has no button."""
    two = agents(a_trial(), a_trial(agent="z"))
    drawn = drawing.draw(AGENTS, two, drawing.Look("Agents", key=lambda row: row["agent_model"]))
    assert {len(row) - 2 for _, row in drawn.rows} == {len(drawn.heads)}
    for link in (str, None):
        written = "".join(map(html_of, drawing.draw_trials([], [], link=link).heads))
        assert ">Cost" in written
        assert ("<button" in written, "data-first" in written) == (bool(link), bool(link))


def shown(drawn: drawing.Drawn) -> dict[str, dict[str, str]]:
    """First cell -> title of each other column -> its text; a space that does not break is a space."""
    titles = [text_of(head) for head in drawn.heads]
    rows = [[text_of(cell).replace("\u00a0", " ") for cell in cells] for _, (_, _, *cells) in drawn.rows]
    return {first: dict(zip(titles[1:], others, strict=True)) for first, *others in rows}


def of_kind(found: Mapping[str, Any], kind: str, **more: Any) -> list[dict[str, Any]]:
    fields = {"over": False, "graded": True} | more
    return [one | fields for key, one in found.items() if key.startswith(kind)]


TWICE = {"cost_usd": 0.25, "duration_seconds": 100.0}, {"cost_usd": 0.5, "duration_seconds": 200.0}


def test_the_cells_of_agents_say_costs_grades_places_and_pass_at_k() -> None:
    tasks = ["t0", "t1", "t2", "t3"]
    results = {("a", 1): tasks, ("a", 2): tasks[:2], ("b", 1): (), ("b", 2): ()}
    trials = [
        a_trial(agent=agent, task_id=task, attempt=n, resolved=task in passed, **TWICE[n - 1])
        for (agent, n), passed in results.items()
        for task in tasks
    ]
    rows = of_kind(summarised([a_plan(tasks=tasks, attempts=2), *trials]), "agent_model ")
    rows = [row | {"place": place} for row, place in zip(rows, ("1", "1-2"), strict=True)]
    same = {"Trials": "8 / 8", "Cost": "$3.00", "Mean cost": "$0.3750", "Duration": "2.5 min"}
    a = {"Pass rate": "75.0 %", "Place tasks like these": "1", "Grade": "C"}
    b = {"Pass rate": "0.0 %", "Place tasks like these": "1-2", "Grade": "F"}
    assert shown(draw_agents(rows, "pass_rate")) == {
        "a:gpt-5": same | a | {"Pass@k": "2: 100.0 %", "Cost/pass": "$0.5000"},
        "b:gpt-5": same | b | {"Pass@k": "2: 0.0 %", "Cost/pass": "∞"},
    }


def test_the_cells_of_an_agent_half_done_have_the_interval_and_marks() -> None:
    tasks = [f"t{n}" for n in range(20)]
    plan = a_plan(tasks=tasks, attempts=1, order=tasks, order_kind="shuffled")
    found = summarised([plan, *(a_trial(task_id=f"t{n}", resolved=n % 5 < 3) for n in range(10))])
    [cells] = shown(draw_agents(of_kind(found, "agent_model ", place=None), "pass_rate")).values()
    marked = {"Pass rate this run, final": "60.0 % [40, 80]", "Grade": "F*", "Trials": "10 / 20"}
    assert cells == marked | {"Pass@1": "60.0 %*"}


def test_what_grades_rest_on_is_one_note_where_it_is_the_same_and_a_column_where_it_differs() -> None:
    plain, judged = (
        [a_trial(agent=agent, task_id=f"t{n}", tier="T0", **score) for n in range(4)]
        for agent, score in (("a", {}), ("b", {"score": 0.5}))
    )
    for trials, notes, column in (
        (plain, ["grade: by pass rate."], [None]),
        (judged, ["grade: by composite."], [None]),
        (plain + judged, [], ["pass rate", "composite"]),
    ):
        drawn = draw_agents(of_kind(summarised(trials), "agent_model ", place=None), "pass_rate")
        assert [note for note in drawn.notes if note.startswith("grade:")] == notes
        assert [cells.get("Rests on") for cells in shown(drawn).values()] == column


def test_the_cells_of_tiers_say_uplift_spread_and_costs() -> None:
    trials = [
        a_trial(tier=tier, task_id=f"t{n}", resolved=n < passes, cost_usd=cost)
        for tier, passes, cost in (("T0", 1, 0.5), ("T1", 4, 2.0))
        for n in range(4)
    ]
    tiers = of_kind(summarised([a_plan(tasks=4, attempts=1), *trials]), "tier ")
    rows = [tier for tier in tiers if tier["agent_model"] is None]
    same = {"Trials": "4 / 4", "Cost/pass": "$2.00"}
    t0 = {"Grade": "F", "Pass rate": "25.0 %", "Uplift": "–", "Delta": "–", "Std dev": "0.433"}
    t1 = {"Grade": "A", "Pass rate": "100.0 %", "Uplift": "+300.0 %", "Delta": "+0.750", "Std dev": "0.000"}
    t0 |= {"Spread": "from 0 to 1, median 0, mean 0.25, standard deviation 0.433", "Mean cost": "$0.5000"}
    t1 |= {"Spread": "from 1 to 1, median 1, mean 1, standard deviation 0", "Mean cost": "$2.00"}
    assert shown(drawing.draw_tiers(rows, "pass_rate")) == {"T0 baseline": same | t0, "T1": same | t1}


def largest(value: Any) -> Any:
    """The same with every fraction as large as the schemas allow."""
    if isinstance(value, float):
        return sys.float_info.max
    if isinstance(value, dict):
        return {key: largest(one) for key, one in value.items()}
    return [largest(one) for one in value] if isinstance(value, list) else value


def test_amounts_as_large_as_the_schema_allows_are_drawn() -> None:
    found = largest(summarised([a_trial(tier="T0", cost_usd=0.5, duration_seconds=1.5)]))
    [agent] = of_kind(found, "agent_model ", place=None)
    tiers, runs = of_kind(found, "tier "), [found["run run-1"] | {"state": "running"}]
    drawn = shown(draw_agents([agent], "pass_rate"))["terminus:gpt-5"]
    assert (drawn["Cost"], drawn["Mean cost"]) == ("$1.79769e+308", "$1.79769e+308")
    assert shown(drawing.draw_runs(runs, lambda run: run))["run-1"]["Cost"] == "$1.79769e+308"
    for spread in drawing.SPREADS:
        assert shown(drawing.draw_tiers(tiers, spread))["T0 baseline"]["Mean cost"] == "$1.79769e+308"


def a_drawn_run(**labels: str) -> str:
    run = {**(a_run_change(labels=labels).summary or {}), "state": "running"}
    [(_, row)] = drawing.draw_runs([run], lambda run: run).rows
    return html_of(row)


def test_each_label_of_a_listed_run_leads_to_the_runs_that_have_it() -> None:
    """Some of many are drawn, and none that cannot be asked for is a link."""
    written = a_drawn_run(**{"a&b": "c=d %", "x": HOSTILE})
    assert '<a class="chip" href="#/?label=a%26b%3Dc%3Dd+%25">' in written
    for absent in ("more", "<img", "\u202e"):
        assert absent not in written
    many = a_drawn_run(**{"a=b": "c"} | {f"k{number}": "v" for number in range(20)})
    assert many.count('<a class="chip"') == drawing.MOST_CHIPS - 1
    assert '<span class="chip">' in many
    assert "13 more" in many


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, "50.0 %"),
        ({"agent_models": 2}, "50.0 %<a>:m"),
        ({"primary_metric": "mean_cost", "agent_models": 2}, "$0.5000mean cost<a>:m"),
        ({"primary_metric": "metrics/x<y"}, "0.5x<y"),
        ({"leader": None}, None),
    ],
)
def test_a_listed_run_shows_what_its_best_agent_has_of_its_primary_metric(
    fields: dict[str, Any], written: str | None
) -> None:
    leads = {"state": "running", "leader": {"agent_model": "<a>:m", "value": 0.5}}
    run = {**(a_run_change().summary or {}), **leads, **fields}
    drawn = drawing.draw_runs([run], lambda run: run)
    assert shown(drawn)["r1"].get("Best") == written
    assert "<a>" not in "".join(html_of(row) for _, row in drawn.rows)


def test_amounts_and_differences_are_written_as_people_can_read_them_and_only_nothing_is_0() -> None:
    amounts = (99_999_999_999_999_983_222_784.0, 1e19, -1e26, 0.0)
    written = ["$1e+23", "$10,000,000,000,000,000,000.00", "-$1e+26", "$0.00"]
    assert [drawing.usd(amount) for amount in amounts] == written
    small = a_trial(cost_usd=0.00002, metrics={"mse": 0.00032})
    [row] = html_of(drawing.table(draw_agents(agents(small), "metrics/mse"))).split("</tr>")[1:2]
    assert ">0.00032<" in row
    assert ">$2e-05<" in row
    assert (drawing.ratio(0.0), drawing.ratio(-0.0123)) == ("0", "-0.0123")
    said = ["+3.3 points", "-50.0 points", ">-0.1 points"]
    assert list(map(drawing.fine, said)) == ["+3.3\u00a0points", "−50.0\u00a0points", ">−0.1\u00a0points"]
    moved = [drawing.signed(by, drawing.percent) for by in (0.0003, -0.9997, 0.05, -0.05)]
    assert moved == ["<0.1\u00a0%", "<-99.9\u00a0%", "+5.0\u00a0%", "−5.0\u00a0%"]


def costly_agents(count: int) -> list[dict[str, Any]]:
    """So many agents, which cost more and pass more from one to the next."""
    events = [
        a_trial(agent=f"agent-{at:02}", task_id=f"t{task}", resolved=task <= at, cost_usd=0.1 + at)
        for at in range(count)
        for task in range(count)
    ]
    return of_kind(summarised(events), "agent_model ")


def parts(element: Element, tag: str) -> list[Element]:
    inside = [part for child in element[2:] if isinstance(child, list) for part in parts(child, tag)]
    return [element] * (element[0] == tag) + inside


def points_of(drawn: Element, *, best: bool = False) -> list[Element]:
    """The agents that are drawn, or those on the frontier."""
    points = [part for part in parts(drawn, "g") if part[1]["class"].startswith("point")]
    return [point for point in points if point[1]["class"] == "point"] if best else points


def named(point: Element) -> list[Element]:
    """The name of a point; none if it shows only at the pointer."""
    return [label for label in parts(point, "text") if label[1].get("class") != "aside"]


@pytest.mark.parametrize("sheet", [WIDE, NARROW])
@pytest.mark.parametrize("count", [2, 12, 40])
def test_names_in_the_drawing_overlap_no_other_and_stand_on_the_sheet(count: int, sheet: Sheet) -> None:
    points = points_of(draw_frontier(costly_agents(count), primary="pass_rate", sheet=sheet))
    assert len(points) == count
    boxes = []
    for label in (label for point in points for label in named(point)):
        x, width = label[1]["x"], len(text_of(label)) * 6.8
        left = x if label[1]["text-anchor"] == "start" else x - width
        boxes.append((left, left + width, label[1]["y"]))
    assert boxes
    assert all(left >= 0 and right <= sheet.width + 10 and 0 < y < sheet.height for left, right, y in boxes)
    for one, other in combinations(boxes, 2):
        assert one[1] <= other[0] or other[1] <= one[0] or abs(one[2] - other[2]) >= 14


def test_every_point_says_its_name_and_the_frontier_is_named_cheapest_first() -> None:
    cheap, dear = costly_agents(2)
    worse = dear | {"agent_model": "worse:m", "mean_cost": 9.0}
    three = [dear, worse, cheap]
    drawn = draw_frontier(three, primary="pass_rate")
    assert drawn[1]["aria-label"].endswith("cheapest first: agent-00:gpt-5, agent-01:gpt-5")
    titles = {text_of(title) for title in parts(drawn, "title")}
    assert {title.partition(": ")[0] for title in titles} == {"agent-00:gpt-5", "agent-01:gpt-5", "worse:m"}
    assert sum("on the frontier" in title for title in titles) == 2
    known = [name for name, _ in charts_of(three, [], "pass_rate")["qualities"]]
    assert known == ["pass_rate", "accuracy"], "what no agent knows is not offered, and not drawn"
    assert draw_frontier(three, quality="composite_score", primary="pass_rate") == drawn


@pytest.mark.parametrize("values", [[1.7e308], [-1.7e308, 1.7e308], [5e-324], [5e-324, 1.7e308], [0.0]])
@pytest.mark.parametrize("path", ["mean_cost", "composite_score"])
def test_extreme_values_are_drawn_on_the_sheet(values: list[float], path: str) -> None:
    pairs = zip(costly_agents(2), values, strict=False)
    agents = [agent | {"composite_score": 0.5, path: value} for agent, value in pairs]
    circles = parts(draw_frontier(agents, quality="composite_score", primary="pass_rate"), "circle")
    assert len(circles) == len(values)
    assert all(0 <= one[1]["cx"] <= WIDE.width and 0 <= one[1]["cy"] <= WIDE.height for one in circles)


def test_of_very_many_agents_every_point_has_a_name_and_some_show_only_at_the_pointer() -> None:
    [one] = costly_agents(1)
    agents = [one | {"agent_model": f"a{n}:m", "mean_cost": 1.0 + n, "pass_rate": 0.5} for n in range(300)]
    points = parts(draw_frontier(agents, primary="pass_rate"), "g")
    assert [len(parts(point, "text")) for point in points] == [1] * 300
    assert 0 < sum(len(named(point)) for point in points) <= MOST_LABELS


@pytest.mark.parametrize("sheet", [WIDE, NARROW])
@pytest.mark.parametrize("crowd", [0.001, 0.4])
def test_every_agent_of_a_crowded_frontier_is_named_and_a_line_leads_to_a_distant_name(
    sheet: Sheet, crowd: float
) -> None:
    agents = [agent | {"mean_cost": 1 + crowd * at} for at, agent in enumerate(costly_agents(12))]
    drawn = draw_frontier(agents, primary="pass_rate", sheet=sheet)
    labels = [named(point) for point in points_of(drawn, best=True)]
    assert [len(of_one) for of_one in labels] == [1] * 12
    far = [label for [label] in labels if label[1].get("class") == "far"]
    assert len(far) == sum(line[1].get("class") == "lead" for line in parts(drawn, "line"))


def test_a_line_leads_to_a_name_that_does_not_stand_at_the_height_of_its_point() -> None:
    [one] = costly_agents(1)
    spots = (("best:model", 1.0, 0.6), ("next:model", 1.3, 0.59), ("last:model", 4.0, 0.3))
    agents = [one | {"agent_model": name, "mean_cost": cost, "pass_rate": rate} for name, cost, rate in spots]
    drawn = draw_frontier(agents, primary="pass_rate")
    [best] = points_of(drawn, best=True)
    [circle], [label] = parts(best, "circle"), named(best)
    assert abs(label[1]["y"] - circle[1]["cy"]) > 5
    [lead] = [line for line in parts(drawn, "line") if line[1].get("class") == "lead"]
    assert (lead[1]["x1"], lead[1]["y1"]) == (circle[1]["cx"], circle[1]["cy"])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("exit code 1", "exit code 137", True),
        ("no file /app/a/b.py", "no file /srv/x/c.txt", True),
        ("container 4f5a6b7c8d9e is gone", "container 0011aabbccdd is gone", True),
        ("run 123e4567-e89b-12d3-a456-426614174000", "run 00000000-0000-0000-0000-000000000001", True),
        ("at 0xdeadbeef", "at 0x1", True),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example failed", True),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError: 'a'", True),
        ("\n\n  first line \nsecond", "first line\nother", True),
        ("failed tests: test_a", "failed tests: test_b", False),
        ("decade", "facade", False),
        ("a", "", False),
    ],
)
def test_messages_of_one_kind_differ_in_such_parts_alone(one: str, other: str, alike: bool) -> None:
    assert (kind_of(one) == kind_of(other)) is alike


def test_hostile_messages_end_soon() -> None:
    for message in ("/" * 4096, "a" * 4096, "0x" * 2048, "1." * 2048, "\n" * 4096, ""):
        assert len(kind_of(message)) <= 160
        assert len(models.telling_line(message)) <= 300


def test_groups_have_counts_shares_and_agents_the_largest_first() -> None:
    failures = [("a", "unset", "x 1"), ("b", "none", "x 2"), ("a", None, "x 3"), ("a", "timeout", "")]
    groups, _ = models.failure_groups(
        models.FailedTrial(agent, mode, kind_of(message) if message else "", message or None)
        for agent, mode, message in failures
    )
    said = [(group.failure_mode, group.kind, group.count, group.share, group.example) for group in groups]
    assert said == [(None, "x N", 3, 0.75, "x 1"), ("timeout", "", 1, 0.25, None)]
    assert groups[0].agents == {"a": 2, "b": 1}
    assert models.failure_groups([]) == ([], 0)


def test_of_many_groups_it_is_said_how_many_are_not_shown() -> None:
    failed = (models.FailedTrial("a:m", None, f"kind {chr(at)}", "x") for at in range(0x4E00, 0x4E00 + 250))
    groups, total = models.failure_groups(failed)
    assert (len(groups), total) == (200, 250)
    rows = [group.model_dump() for group in groups]
    assert drawing.draw_failures(rows, lambda *_: "", total).notes == ["The largest 200 of 250 groups."]
    assert drawing.draw_failures(rows, lambda *_: "", 200).notes == []


def row(task: str, agent: str, passed: bool, **fields: object) -> models.TrialRow:
    outcome = "passed" if passed else "failed"
    return a_row(task_id=task, agent_model=agent, success=passed, outcome=outcome, **fields)


def test_the_hardest_task_and_the_best_agent_come_first() -> None:
    rows = [row("easy", agent, True) for agent in "ab"] + [row("hard", agent, False) for agent in "ab"]
    rows += [row("split", "a", True), row("split", "b", False)]
    result = matrix_of(rows, ())
    assert result.agents == ["a", "b"]
    rates = [("hard", 0), ("split", 0.5), ("easy", 1)]
    assert [(task.task_id, task.pass_rate) for task in result.tasks] == rates
    assert matrix_of(rows, (), sort="disagreement").tasks[0].task_id == "split"
    assert [task.task_id for task in matrix_of(rows, (), sort="task").tasks] == ["easy", "hard", "split"]


def test_tiers_of_a_task_are_rows_of_their_own_and_a_trial_in_flight_is_a_cell() -> None:
    result = matrix_of([row("t", "a", True, tier="T1"), row("t", "a", False, tier="T0")], ())
    cells = [("T0", [(1, 0, 0, 0, None)]), ("T1", [(1, 1, 0, 0, None)])]
    assert [(task.tier, task.cells) for task in result.tasks] == cells
    slot = {"shard": "", "task_id": "t", "attempt": 1, "agent": "a", "model": "m"}
    running = TrialInFlight.model_validate(dict.fromkeys(TrialInFlight.model_fields) | slot)
    [task] = matrix_of([], [running]).tasks
    assert (task.cells, task.pass_rate) == ([(0, 0, 0, 1, None)], None)
    assert matrix_of([], [running]).agents == ["a:m"]


def test_a_number_in_place_of_a_verdict_is_in_no_pass_rate() -> None:
    """R31; a trial that crashed has failed (R19)."""
    unknown = {"resolved": None, "outcome": "no_verdict"}
    rows = [a_row(task_id="t", agent_model="a", success=None, **unknown), row("t", "b", True)]
    rows += [a_row(task_id="u", agent_model="a", success=None, **unknown)]
    rows += [a_row(task_id="v", agent_model="b", success=False, **unknown)]
    result = matrix_of(rows, ())
    assert [(task.task_id, task.pass_rate) for task in result.tasks] == [("v", 0), ("t", 1), ("u", None)]
    assert result.tasks[1].cells == [(1, 1, 0, 0, None), (1, 0, 1, 0, None)]
    assert (result.agents, result.tasks[1].disagreement) == (["b", "a"], 0)


def test_a_metric_is_the_mean_of_what_is_known() -> None:
    rows = [row("t", "a", True, cost_usd=cost) for cost in (1.0, 3.0, None)]
    result = matrix_of(rows, (), metric="cost_usd")
    assert (result.tasks[0].cells, result.low, result.high) == ([(3, 3, 0, 0, 2.0)], 2.0, 2.0)
    assert matrix_of([], (), metric="cost_usd").low is None
    huge = [row("t", "a", True, cost_usd=1.5e308) for _ in range(2)]
    assert models.whole_matrix(huge).means["cost_usd"].cells == [[1.5e308]], "no float holds their sum"


def test_a_matrix_of_too_many_cells_is_refused_however_few_trials_there_are() -> None:
    side = 708
    rows = [row(f"task-{number}", f"agent-{number}", True) for number in range(side)]
    assert side**2 > models.MAX_CELLS
    with pytest.raises(models.TooManyCells, match="708 tasks and 708 agents has over 500,000 cells"):
        matrix_of(rows, ())


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abc"), st.booleans()), max_size=30))
def test_the_cells_add_up_to_the_trials(trials: list[tuple[str, str, bool]]) -> None:
    result = matrix_of([row(*trial) for trial in trials], ())
    cells = [cell for task in result.tasks for cell in task.cells if cell is not None]
    assert sum(cell[0] for cell in cells) == len(trials)
    assert sum(cell[1] for cell in cells) == sum(passed for *_, passed in trials)
    assert all(len(task.cells) == len(result.agents) for task in result.tasks)
    assert all(0 <= task.disagreement <= 0.5 for task in result.tasks)


def as_asked(whole: models.WholeMatrix, metric: str, sort: str) -> models.Matrix:
    """What a file shows: the means of a metric put into the cells, the tasks in an order."""
    means = whole.means.get(metric)
    tasks = []
    for at, task in enumerate(whole.matrix.tasks):
        values = [None] * len(task.cells) if means is None else means.cells[at]
        cells = [cell and (*cell[:4], value) for cell, value in zip(task.cells, values, strict=True)]
        tasks.append(task.model_copy(update={"cells": cells}))
    ends = {"low": means and means.low, "high": means and means.high, "metric": metric}
    return whole.matrix.model_copy(update={"tasks": [tasks[at] for at in whole.orders[sort]], **ends})


@pytest.mark.parametrize("sort", ["difficulty", "disagreement", "task"])
@pytest.mark.parametrize("metric", ["outcome", "cost_usd", "duration_seconds", "task_speedup"])
def test_a_file_has_each_matrix_that_the_page_may_ask_for(metric: str, sort: str) -> None:
    rows = [row("a", "x", True, cost_usd=1.0), row("a", "y", False, cost_usd=3.0, tier="T0")]
    rows += [row("b", "y", False, duration_seconds=0.0), row("c", "x", False), row("c", "y", True)]
    whole = models.whole_matrix(rows)
    assert as_asked(whole, metric, sort) == matrix_of(rows, (), metric, sort)
    assert set(whole.means) == {"cost_usd", "duration_seconds"}


@pytest.mark.parametrize(
    ("resolved", "success", "formulacode", "outcome"),
    [
        (True, True, None, "passed"),
        (False, False, None, "failed"),
        (None, False, None, "no_verdict"),
        (None, False, {"task_speedup": 1.0}, "failed"),
        (True, True, {"fallback_to_baseline": True}, "fell_back"),
    ],
)
def test_each_outcome_follows_from_verdict_success_and_fallback(
    resolved: bool | None, success: bool, formulacode: dict[str, Any] | None, outcome: str
) -> None:
    trial = {"success": success, "resolved": resolved, "formulacode": formulacode}
    assert models.outcome_of(trial) == outcome


def test_a_stored_row_says_what_a_row_says_of_every_outcome() -> None:
    ratios = {"m.f": {"agent/nop": 2.0, "oracle/nop": 1.0}}
    events = [
        a_trial(tier="T0", subtest="01", cost_usd=0.5, metrics={"reward": 0.5}, score=0.7),
        a_trial(task_id="t2", resolved=None, duration_seconds=3),
        a_trial(task_id="t3", resolved=False, failure_mode="agent_timeout", shard="s"),
        a_trial(task_id="t4", benchmarks=ratios),
        a_trial(task_id="t5", benchmarks=ratios, tests={"status": "failed", "failed": 1}, attempt=2),
    ]
    rows = {}
    for change in folded(events)[0].run("run-1").take_scored():
        stored = models.StoredRow.of(change.value or b"")
        stored.id = "0" * 24
        row = rows[stored.task_id] = models.TrialRow.of(stored.id, json.loads(change.value or b""))
        assert {name: getattr(stored, name) for name in models.TrialRow.model_fields} == dict(row)
    assert {row.outcome for row in rows.values()} == {"passed", "no_verdict", "failed", "fell_back"}
    first = rows["task-1"]
    assert (first.agent_model, first.tier, first.cost_usd) == ("terminus:gpt-5", "T0", 0.5)
    assert (first.outcome, first.task_speedup, first.metrics) == ("passed", None, {"reward": 0.5})
