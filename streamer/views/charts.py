"""Charts of a run: the choices for lines, and a drawing of cost against quality. Pure."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, product
from typing import Any, NamedTuple

from streamer.schemas.base import value_at
from streamer.text import visible
from streamer.views.columns import AGENTS, Column, best_first, named_of
from streamer.views.drawing import NUMBERS, Element, h, ratio, title_of

Json = dict[str, Any]

COSTS = ("mean_cost", "cost_of_pass", "total_cost")
QUALITIES = ("pass_rate", "composite_score", "accuracy", "mean_speedup", "agent_advantage")
_SOMETIMES = ("composite_score", "mean_speedup", "agent_advantage")
"""Metrics that only some runs have; tiers have no FormulaCode metrics."""
_LINES = (*QUALITIES, "cost_of_pass", "total_cost", "trials")
_CHARTED = {column.name: column for column in AGENTS.shown_on("page")}


def charts_of(agents: Sequence[Json], tiers: Sequence[Json], primary: str) -> Json:
    qualities = _known([*(_CHARTED[name] for name in QUALITIES), *named_of(agents)], agents)
    pooled = sorted(tier["tier"] for tier in tiers if tier["agent_model"] is None)
    return {
        "primary": primary,
        "order": {
            "agent_model": [agent["agent_model"] for agent in sorted(agents, key=best_first(primary))],
            "tier": pooled,
        },
        "lines": {"agent_model": _lines(agents), "tier": _lines(tiers)},
        "costs": [(name, title_of(_CHARTED[name])) for name in COSTS],
        "qualities": [(column.name, title_of(column)) for column in qualities],
    }


def _lines(groups: Sequence[Json]) -> list[Json]:
    """Metrics for the lines of these groups. The history keeps only planned named metrics."""
    planned = named_of(groups, planned=True)
    offered = [_CHARTED[name] for name in _LINES if name not in _SOMETIMES]
    known = _known([*(_CHARTED[name] for name in _SOMETIMES), *planned], groups)
    own = [column for column in _CHARTED.values() if column in offered or column in known]
    columns = [
        *sorted(own, key=lambda column: _LINES.index(column.name)),
        *(c for c in planned if c in known),
    ]
    return [
        {"name": column.name, "title": title_of(column), "format": column.format, "share": _is_share(column)}
        for column in columns
    ]


def _is_share(column: Column) -> bool:
    return column.format in ("pass_rate", "percent", "score")


def _known(columns: Iterable[Column], groups: Sequence[Json]) -> list[Column]:
    return [column for column in columns if any(_number_at(group, column) is not None for group in groups)]


def _number_at(group: Json, column: Column) -> float | None:
    value = value_at(group, column.path)
    return None if value is None or value == "NaN" else float(value)


# -----------------------------------------------------------------------------
# Cost against quality, with the Pareto frontier: agents that no other beats in both.


@dataclass(frozen=True)
class Sheet:
    width: int = 560
    height: int = 330
    left: int = 58
    right: int = 24
    top: int = 14
    bottom: int = 44

    @property
    def floor(self) -> int:
        return self.height - self.bottom

    @property
    def end(self) -> int:
        return self.width - self.right


WIDE, NARROW = Sheet(), Sheet(width=360, height=300)
LONGEST_LABEL = 26
_LOG_FROM = 20
"""Ratio between the highest and the lowest cost at which the axis becomes logarithmic."""
_LETTER = 6.8
MOST_LABELS = 60
MOST_LEADS = 40
"""The most names of the frontier that are drawn away from their points, with a line."""
MOST_PLACES = 800
"""The most places tried for such a name, because drawing blocks all viewers of the server."""
_LINE = 14
_EXTREME = 1e300
_OFFSETS = (4, -10, 18, 32, -24, 46, -38)


class _Point(NamedTuple):
    agent: str
    x: float
    y: float
    place: int = 0


def _within(value: float) -> float:
    return min(max(value, -_EXTREME), _EXTREME)


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float, *, log: bool, limited: bool) -> _Axis:
        """The axis of these values. Costs begin at 0; shares stay within 0 and 1."""
        low, high = _within(min(values)), _within(max(values))
        if log:
            low, high = math.log10(low), math.log10(high)
        elif not limited and low > 0:
            low = 0.0
        room = max(0.35 * (high - low), 0.04) if limited else (high - low or abs(high) or 1.0) * 0.08
        high += room
        if log or limited or low < 0:
            low -= room
        if limited:
            low, high = max(low, -0.02), min(high, 1.02)
        if high - low < 1 / _EXTREME:
            high = low + 1.0
        return cls(low, high, start, end, log)

    def at(self, value: float) -> float:
        place = math.log10(value) if self.log else _within(value)
        return round(self.start + (place - self.low) / (self.high - self.low) * (self.end - self.start), 2)

    @property
    def ticks(self) -> list[float]:
        if self.log:
            first, last = max(math.floor(self.low), -300), min(math.floor(self.high), 300)
            powers = range(first, last + 1, 1 + max(0, last - first) // 8)
            factors = (1, 3) if powers.step == 1 else (1,)
            decades = [factor * 10.0**power for power in powers for factor in factors]
            return [tick for tick in decades if self.low <= math.log10(tick) <= self.high]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        stride = next(f * step for f in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (f * step) <= 5)
        first = math.ceil(self.low / stride)
        return [float(f"{n * stride:.12g}") for n in range(first, math.floor(self.high / stride) + 1)]


def frontier(points: Iterable[_Point], *, high: bool = True) -> list[_Point]:
    """The points that no other point beats in cost and quality, cheapest first.

    >>> [point.agent for point in frontier([_Point("a", 2, 0.5), _Point("b", 1, 0.4), _Point("c", 3, 0.5)])]
    ['b', 'a']
    """
    sign, found = (1 if high else -1), list[_Point]()
    for point in sorted(points, key=lambda point: (point.x, -sign * point.y)):
        if not found or sign * point.y > sign * found[-1].y:
            found.append(point)
    return found


def draw_frontier(
    agents: Sequence[Json], cost: str = "", quality: str = "", *, primary: str, sheet: Sheet = WIDE
) -> Element:
    """Cost against quality of all agents except baselines; the page colours the points.

    `cost` is one of COSTS. A `quality` that these agents lack is replaced by the primary metric.
    """
    columns = {**_CHARTED, **{column.name: column for column in named_of(agents)}}
    across = columns[cost if cost in COSTS else COSTS[0]]
    offered = [name for name, _ in charts_of(agents, [], primary)["qualities"]]
    wanted = [name for name in (quality, primary, *offered, "pass_rate") if name in (*offered, "pass_rate")]
    up = columns[wanted[0]]
    ranked = sorted((agent for agent in agents if not agent["baseline"]), key=best_first(primary))
    read = [(str(one["agent_model"]), _number_at(one, across), _number_at(one, up)) for one in ranked]
    points = [
        _Point(agent, x, y, place)
        for place, (agent, x, y) in enumerate(read)
        if x is not None and y is not None and math.isfinite(x) and math.isfinite(y)
    ]
    if not points:
        return h("p", {"class": "empty"}, "No agent has both a known cost and this score.")
    return _scatter(points, across, up, sheet)


def _scatter(points: Sequence[_Point], across: Column, up: Column, sheet: Sheet) -> Element:
    best = frontier(points, high=up.sort == "greatest")
    costs = [point.x for point in points]
    log = min(costs) > 0 and max(costs) / min(costs) > _LOG_FROM
    x = _Axis.of(costs, sheet.left, sheet.end, log=log, limited=False)
    y = _Axis.of([p.y for p in points], sheet.floor, sheet.top, log=False, limited=_is_share(up))
    names = ", ".join(visible(point.agent) for point in best)
    title = f"{title_of(up)} against {title_of(across).lower()}. On the frontier, cheapest first: {names}"
    path = [f"M {x.at(best[0].x)} {sheet.floor}", *(f"H {x.at(one.x)} V {y.at(one.y)}" for one in best)]
    labels = _labels(points, best, x, y, sheet)
    front = {point.agent for point in best}
    dots = [_dot(point, labels[point.agent], x, y, point.agent in front, across, up) for point in points]
    return h(
        "svg",
        {
            "class": "scatter",
            "viewBox": f"0 0 {sheet.width} {sheet.height}",
            "role": "group",
            "aria-label": title,
        },
        *_grid(x, y, across, up, sheet),
        h("path", {"class": "front", "d": f"{' '.join(path)} H {sheet.end}"}),
        *_leads(best, labels, x, y),
        *reversed(dots),
    )


def _grid(x: _Axis, y: _Axis, across: Column, up: Column, sheet: Sheet) -> Iterable[Element]:
    hidden = {"aria-hidden": "true"}
    for tick in y.ticks:
        at = y.at(tick)
        said = f"{ratio(100 * tick)} %" if up.format in ("pass_rate", "percent") else ratio(tick)
        yield h("line", {"class": "grid", "x1": sheet.left, "x2": sheet.end, "y1": at, "y2": at})
        yield h("text", {"x": sheet.left - 8, "y": at + 4, "text-anchor": "end", **hidden}, said)
    for tick in x.ticks:
        place = {"x": x.at(tick), "y": sheet.floor + 18, "text-anchor": "middle"}
        yield h("text", {**place, **hidden}, f"${float(f'{tick:.3g}'):.10g}")
    floor = {"x1": sheet.left, "x2": sheet.end, "y1": sheet.floor, "y2": sheet.floor}
    yield h("line", {"class": "axis", **floor})
    middle = {"x": (sheet.left + sheet.end) / 2, "y": sheet.height - 6, "text-anchor": "middle"}
    yield h("text", middle, f"{title_of(across)} (USD) →")


class _Label(NamedTuple):
    text: str
    left: float
    top: float
    width: float
    anchor: str = "start"
    kind: str = ""
    """Mode of the label: "far" has a line to the point, "aside" lacks room and shows only at the pointer."""

    def is_free(self, taken: Mapping[int, Sequence[_Label]]) -> bool:
        """Whether the place is free. Labels are kept by row, since there may be 5,000 points."""
        right, row = self.left + self.width, self.row
        near = chain.from_iterable(taken.get(number, ()) for number in (row - 1, row, row + 1))
        return not any(
            abs(one.top - self.top) < _LINE and self.left < one.left + one.width and one.left < right
            for one in near
        )

    @property
    def row(self) -> int:
        return int(self.top // _LINE)

    @property
    def x(self) -> float:
        return round(self.left if self.anchor == "start" else self.left + self.width, 2)


def _labels(
    points: Sequence[_Point], best: Sequence[_Point], x: _Axis, y: _Axis, sheet: Sheet
) -> dict[str, _Label]:
    """Places of names: the frontier first, then the others from the best.

    A name is to the right of its point, or to the left if there is no room, at the first free height.
    Otherwise the first names of the frontier go to the nearest free place.
    """
    taken = defaultdict[int, list[_Label]](list)
    dots = (_Label("", x.at(point.x) - 7, y.at(point.y) + 4, 14.0) for point in points)
    for one in chain(dots, (_Label("", 0.0, y.at(tick) + 4, sheet.left - 8.0) for tick in y.ticks)):
        taken[one.row].append(one)
    found: dict[str, _Label] = {}
    frontier = {one.agent for one in best}
    others = (one for one in points if one.agent not in frontier)
    for number, point in enumerate(chain(best, others)):
        near = _beside(point, x.at(point.x), y.at(point.y), sheet)
        first = next(near)
        around = _around(first, sheet) if number < MOST_LEADS and point.agent in frontier else ()
        places = chain([first], near, around) if number < MOST_LABELS else ()
        label = next((one for one in places if _fits(one, sheet) and one.is_free(taken)), None)
        if label is not None:
            taken[label.row].append(label)
        found[point.agent] = label or first._replace(kind="aside")
    return found


def _beside(point: _Point, at: float, height: float, sheet: Sheet) -> Iterator[_Label]:
    text = _short(visible(point.agent))
    width = len(text) * _LETTER
    sides = [(at + 9, "start"), (at - 9 - width, "end")]
    if at + 9 + width >= sheet.width:
        sides.reverse()
    for (left, anchor), offset in product(sides, _OFFSETS):
        kind = "" if offset == _OFFSETS[0] else "far"  # another point may be nearer
        yield _Label(text, left, round(height + offset, 2), width, anchor, kind)


def _around(label: _Label, sheet: Sheet) -> Iterable[_Label]:
    lefts = range(sheet.left, int(sheet.width - label.width), 12)
    tops = range(10, sheet.floor, _LINE // 2)

    def distance(at: tuple[int, int]) -> float:
        return math.hypot(at[0] - label.left, 2 * (at[1] - label.top))

    for left, top in nsmallest(MOST_PLACES, product(lefts, tops), key=distance):
        yield label._replace(left=left, top=top, anchor="start", kind="far")


def _fits(label: _Label, sheet: Sheet) -> bool:
    within = label.left >= 0 and label.left + label.width <= sheet.width + 10
    return within and 10 <= label.top <= sheet.floor + 4


def _leads(points: Iterable[_Point], labels: dict[str, _Label], x: _Axis, y: _Axis) -> Iterable[Element]:
    for point in points:
        label, at = labels[point.agent], x.at(point.x)
        if label.kind == "far":
            end = min(max(at, label.left), round(label.left + label.width, 2))
            yield h("line", {"class": "lead", "x1": at, "y1": y.at(point.y), "x2": end, "y2": label.top - 4})


def _short(text: str) -> str:
    plain = re.sub(r":[^:/]*/", ":", text, count=1)
    return f"{plain[: LONGEST_LABEL - 1]}…" if len(plain) > LONGEST_LABEL else plain


def _dot(point: _Point, label: _Label, x: _Axis, y: _Axis, best: bool, across: Column, up: Column) -> Element:
    score, cost = NUMBERS[up.format](point.y), NUMBERS[across.format](point.x)
    facts = f"{title_of(up).lower()} {score}, {title_of(across).lower()} {cost}"
    told = f"{visible(point.agent)}: {facts}{', on the frontier' if best else ''}"
    where = {"x": label.x, "y": label.top, "text-anchor": label.anchor}
    return h(
        "g",
        {
            "class": "point" if best else "point dominated",
            "tabindex": "0",
            "role": "button",
            "data-place": point.place,
        },
        h("title", {}, told),
        h("circle", {"cx": x.at(point.x), "cy": y.at(point.y), "r": 5}),
        h("text", {"class": label.kind or None, **where, "aria-hidden": "true"}, label.text),
    )
