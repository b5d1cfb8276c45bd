"""Charts of a run: what can be chosen, and cost against quality without names that overlap."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from streamer.views.charts import NARROW, WIDE, Sheet, charts_of, draw_frontier
from streamer.views.drawing import Element, text_of
from tests.support.events import a_trial, summarised

Json = dict[str, Any]


def agents(count: int) -> list[Json]:
    """So many agents, which cost more and pass more from one to the next."""
    events = [
        a_trial(agent=f"agent-{at:02}", task_id=f"t{task}", resolved=task <= at, cost_usd=0.1 + at)
        for at in range(count)
        for task in range(count)
    ]
    return [summary for key, summary in summarised(events).items() if key.startswith("agent_model ")]


def parts(element: Element, tag: str) -> list[Element]:
    inside = [part for child in element[2:] if isinstance(child, list) for part in parts(child, tag)]
    return [element] * (element[0] == tag) + inside


@pytest.mark.parametrize("sheet", [WIDE, NARROW])
@pytest.mark.parametrize("count", [2, 12, 40])
def test_names_in_the_drawing_overlap_no_other_and_stand_on_the_sheet(count: int, sheet: Sheet) -> None:
    drawn = draw_frontier(agents(count), primary="pass_rate", sheet=sheet)
    points = [part for part in parts(drawn, "g") if part[1]["class"].startswith("point")]
    assert len(points) == count
    boxes = []
    for point in points:
        for label in parts(point, "text"):
            x, width = label[1]["x"], len(text_of(label)) * 6.8
            left = x if label[1]["text-anchor"] == "start" else x - width
            boxes.append((left, left + width, label[1]["y"]))
    assert boxes
    for left, right, y in boxes:
        assert left >= 0
        assert right <= sheet.width + 10
        assert 0 < y < sheet.height
    for one, other in combinations(boxes, 2):
        assert one[1] <= other[0] or other[1] <= one[0] or abs(one[2] - other[2]) >= 14


def test_every_point_says_its_name_and_the_frontier_is_named_cheapest_first() -> None:
    cheap, dear = agents(2)
    worse = dear | {"agent_model": "worse:m", "mean_cost": 9.0}
    drawn = draw_frontier([dear, worse, cheap], primary="pass_rate")
    assert drawn[1]["aria-label"].endswith("cheapest first: agent-00:gpt-5, agent-01:gpt-5")
    titles = {text_of(title) for title in parts(drawn, "title")}
    assert {title.partition(": ")[0] for title in titles} == {"agent-00:gpt-5", "agent-01:gpt-5", "worse:m"}
    assert sum("on the frontier" in title for title in titles) == 2


def test_a_quality_that_no_agent_knows_is_not_offered_and_not_drawn() -> None:
    some = agents(2)
    assert [name for name, _ in charts_of(some, [], "pass_rate")["qualities"]] == ["pass_rate", "accuracy"]
    assert draw_frontier(some, quality="composite_score", primary="pass_rate") == draw_frontier(
        some, primary="pass_rate"
    )
