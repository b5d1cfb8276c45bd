"""Every board as elements: one function draws the tables of the page, of reports and of saved files. Pure.

An element is a list of tag, attributes and children, each a text or an element. So an agent's text cannot
become markup. The page makes nodes of elements (`streamer/web/static/js/shared/dom.js`), and `html_of` writes
them as escaped HTML.

>>> html_of(h("b", {"title": '"'}, "a<b"))
'<b title="&quot;">a&lt;b</b>'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from html import escape
from typing import Any, NamedTuple
from urllib.parse import urlencode

from streamer.schemas.base import value_at
from streamer.schemas.summaries import NO_PLAN, plan_words
from streamer.text import UNSEEN, visible
from streamer.text import percent as plain_percent
from streamer.views import cells as plain
from streamer.views.columns import (
    AGENTS,
    BASES,
    BASIS,
    MARKS,
    OUTCOMES,
    PASS_RATE,
    RUNNING,
    RUNS,
    TIERS,
    TRIALS,
    Board,
    Column,
    basis,
    leading,
    marked_grade,
    unsorted,
    with_named,
    with_values_of,
)
from streamer.views.models import stated_mode

# -----------------------------------------------------------------------------
# Elements, and how they are written as HTML.


Element = list[Any]

Content = str | Element | Sequence[Any]
"""A text, an element, or a tuple of both; None in a tuple is left out."""

EMPTY_ELEMENTS = frozenset(("wbr", "br"))
_NAME_PARTS = re.compile(r"(?<=[:/])")


def h(tag: str, attributes: Mapping[str, Any] | None = None, *children: Content | None) -> Element:
    """An element. Attributes that are None are left out.

    >>> h("td", {"class": "number", "title": None}, "1", ("2", None))
    ['td', {'class': 'number'}, '1', '2']
    """
    kept = {name: value for name, value in (attributes or {}).items() if value is not None}
    return [tag, kept, *_flat(children)]


def _flat(children: Iterable[Content | None]) -> Iterable[str | Element]:
    for child in children:
        if isinstance(child, tuple):
            yield from _flat(child)
        elif child is not None:
            yield child  # type: ignore[misc]


def html_of(node: str | Element) -> str:
    """HTML of a text or an element, escaped.

    The page's policy allows no style attributes, so a script sets names with -- from `data-vars`.

    >>> html_of(h("i", {"--low": 0.5}))
    '<i data-vars="{&quot;--low&quot;: 0.5}"></i>'
    """
    if isinstance(node, str):
        return escape(node)
    tag, attributes, *children = node
    plain = {name: value for name, value in attributes.items() if not name.startswith("--")}
    if len(plain) < len(attributes):
        plain["data-vars"] = json.dumps({n: v for n, v in attributes.items() if n.startswith("--")})
    written = "".join(
        f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        for name, value in plain.items()
        if value is not False
    )
    end = "" if tag in EMPTY_ELEMENTS else f"{''.join(map(html_of, children))}</{tag}>"
    return f"<{tag}{written}>{end}"


def text_of(node: str | Element) -> str:
    return node if isinstance(node, str) else "".join(map(text_of, node[2:]))


def name(value: object) -> Content:
    """A name from outside, isolated in its text direction, with places to break it; a dash for None."""
    if value is None:
        return UNSEEN
    whole = visible(value)
    first, *others = _NAME_PARTS.split(whole)
    breaks = [part for other in others for part in (["wbr", {}], other)]
    return ["bdi", {"class": "name", "title": whole}, first, *breaks]


def badge(text: str, mood: str = "", title: str | None = None) -> Element:
    return h("span", {"class": f"badge {mood}".strip(), "title": title}, text)


# -----------------------------------------------------------------------------
# Numbers on the page and in files. Infinity and NaN are texts in JSON (R14).


_NOT_FINITE = {"Infinity": "∞", "-Infinity": "−∞", "NaN": "NaN"}


def _finite(write: Callable[[float], str]) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if value is None:
            return UNSEEN
        if isinstance(value, float) and not math.isfinite(value):
            value = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return visible(_NOT_FINITE.get(value, value)) if isinstance(value, str) else write(value)

    return written


_MOST_WRITTEN_OUT = 1e20


def _fixed(value: float, digits: int) -> str:
    """The value with fixed decimals, halves rounded up and thousands separated; above 1e20 as a
    power of ten.
    """
    if abs(value) >= _MOST_WRITTEN_OUT:
        return f"{value:g}"
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,}"


def _at_most(value: float, digits: int) -> str:
    """The value with so many decimals at most; below 0.1 with so many significant digits."""
    if 0 < abs(value) < 0.1:
        return f"{value:.{digits}g}"
    fixed = _fixed(value, digits)
    return fixed.rstrip("0").rstrip(".") if "." in fixed and "e" not in fixed else fixed


def _dollars(size: float) -> str:
    return f"{size:.2g}" if 0 < size < 0.0001 else _fixed(size, 4 if 0 < size < 1 else 2)


count = _finite(lambda value: f"{value:,}" if isinstance(value, int) else _at_most(value, 3))
ratio = _finite(lambda value: _at_most(value, 3))
share = _finite(lambda value: _fixed(value, 3))
times = _finite(lambda value: f"{_at_most(value, 3)}×")
percent = _finite(lambda value: _unbroken(plain_percent(value)))
usd = _finite(lambda value: f"{'-' * (value < 0)}${_dollars(abs(value))}")
duration = _finite(plain.span)


def _unbroken(text: str) -> str:
    return text.replace(" %", "\u00a0%")


def fine(text: str) -> str:
    """A difference as a terminal shows it, with the page's minus and space.

    >>> fine("-5.0 points"), fine("[-1.0, 2.0]")
    ('−5.0\\xa0points', '[−1.0, 2.0]')
    """
    return text.replace("-", "−").replace(" points", "\u00a0points")


def signed(by: float, write: Callable[[Any], str]) -> str:
    """A difference with its sign, in front of any currency sign.

    >>> signed(-0.25, usd), signed(0.05, percent), signed(0.0001, percent)
    ('−$0.2500', '+5.0\\xa0%', '<0.1\\xa0%')
    """
    size = write(abs(by))
    if size.startswith(("<", ">")):
        return write(by)
    return f"{'−' if by < 0 else '+' if by > 0 else ''}{size}"


# -----------------------------------------------------------------------------
# Cells: the formats of columns, drawn.


_GRADE_MOODS = {"S": "good", "A": "good", "B": "accent", "C": "accent", "D": "warn", "F": "bad"}
_OUTCOME_MOODS = {"passed": "good", "failed": "bad", "fell_back": "warn"}
_METERS = ("composite_score",)


def grade_badge(letter: str | None, marks: str = "", title: str = "") -> Content:
    if not letter:
        return UNSEEN
    return badge(f"{letter}{marks}", f"grade {_GRADE_MOODS.get(letter, '')}".strip(), title or None)


def outcome_badge(word: str) -> Element:
    return badge(OUTCOMES.get(word, word), _OUTCOME_MOODS.get(word, ""))


def state_badge(word: str, status: str | None) -> Element:
    """The state of a run; its title is the harness's word for the end."""
    return badge(word, f"state-{word}", None if status is None else f"the harness says: {visible(status)}")


def _group_grade(_: Any, __: Any, row: Any) -> Content:
    written = marked_grade(row)
    if written == UNSEEN:
        return UNSEEN
    rests = BASES.get(value_at(row, ("grade_basis",)))
    said = [f"by {rests}"] if rests else []
    return grade_badge(written[0], written[1:], "; ".join([*said, *(MARKS[mark] for mark in written[1:])]))


def _pass_rate(rate: Any, _: Any, row: Any) -> Content:
    """A rate as `61.7 % [55, 68]` over a thin bar with the interval, and the rate so far in it."""
    if rate is None:
        return UNSEEN
    lies, said, why = plain.final_ends(row), plain.interval(row), plain.reason(row)
    word = plain.missing_word(row)
    explained = [plain.EXPLAINED["interval" if said.startswith("[") else "bounds"]] if said else []
    title = " ".join([*explained, *([f"No interval: {why}."] if why else [])])
    beside = f" {word}" if word and not said else None
    ends = h("span", {"class": "ends"}, f" {said}") if said else None
    low, high, _ = lies or (0.0, rate, False)
    reach = {"--low": low, "--high": max(high, low + 0.01), "--at": rate}
    bar = h(
        "span",
        {"class": "bar" if lies else "bar plain", "aria-hidden": "true", **reach},
        h("i"),
        h("b") if lies else None,
    )
    return h(
        "span",
        {"class": "uncertain", "title": title or None},
        h("span", {"class": "rate"}, percent(rate), beside, ends),
        bar,
    )


def _meter(value: Any, write: Callable[[Any], str]) -> Content:
    if value is None or value == "NaN":
        return UNSEEN
    filled = max(0.0, min(1.0, float(value)))
    bar = h("span", {"aria-hidden": "true"}, h("i", {"--share": filled}))
    return h("span", {"class": "meter"}, bar, write(value))


def progress(done: int, planned: int) -> Element:
    """Both counts over a bar."""
    filled = max(0.0, min(1.0, done / planned)) if planned else 0
    bar = h("div", {"class": "progress", "aria-hidden": "true"}, h("i", {"--share": filled}))
    return h("span", {}, f"{count(done)} / {count(planned)}", bar)


def _progress(done: int, planned: int | None, run: Any) -> Content:
    if planned is None:
        words = plan_words(run)
        return f"{count(done)} ({words})" if words not in ("", NO_PLAN) else count(done)
    return progress(done, planned)


def better(by: float, words: str, *, high: bool = True) -> Element:
    """A difference, coloured as an improvement or a loss."""
    mood = None if by == 0 else "better" if (by > 0) == high else "worse"
    return h("span", {"class": mood}, words)


def _moved(write: Callable[[Any], str]) -> Callable[[Any], Content]:
    def drawn(value: Any) -> Content:
        by = None if value is None else float(value)
        if by is None or not math.isfinite(by):
            return write(value)
        return better(by, signed(by, write))

    return drawn


def time(at: datetime | str | None) -> Content:
    if at is None:
        return UNSEEN
    text = at if isinstance(at, str) else at.isoformat()
    return h("time", {"datetime": text, "title": text}, plain.minute(at))


def ago(at: datetime | str | None) -> Content:
    """A time that the page shows as an age, by the visitor's clock."""
    if at is None:
        return UNSEEN
    text = at if isinstance(at, str) else at.isoformat()
    return h("time", {"datetime": text, "title": plain.minute(at), "class": "age"}, plain.minute(at))


def _agent(label: str | None, _: Any, row: Any) -> Content:
    if label is None:
        return UNSEEN
    return (name(label), badge("baseline") if value_at(row, ("baseline",)) else None)


def _leader(leader: Any, _: Any, run: Any) -> Content:
    if leader is None:
        return UNSEEN
    column, title = leading(run)
    words = [title, leader["agent_model"] if run["agent_models"] > 1 else ""]
    below = (h("div", {"class": "note"}, name(word)) for word in words if word)
    return h("div", {}, NUMBERS[column.format](value_at(run, column.path)), *below)


def _failure(mode: str | None, _: Any, __: Any) -> Content:
    return name(stated_mode(mode))


Draw = Callable[[Any, Any, Any], Content]


def _value(write: Callable[[Any], Content]) -> Draw:
    return lambda value, _, __: write(value)


NUMBERS: dict[str, Callable[[Any], str]] = {
    "pass_rate": percent,
    "count": count,
    "dollars": usd,
    "number": ratio,
    "percent": percent,
    "ratio": ratio,
    "score": share,
    "span": duration,
    "times": times,
}

DRAWN: dict[str, Draw] = {
    **{format: _value(write) for format, write in NUMBERS.items()},
    "age": _value(ago),
    "agent": _agent,
    "basis": lambda _, __, row: basis(row),
    "failure": _failure,
    "gain": _value(_moved(share)),
    "gain_percent": _value(_moved(percent)),
    "grade": _group_grade,
    "infrastructure": lambda without, n, _: f"{percent(without)} ({count(n)})" if n else UNSEEN,
    "leader": _leader,
    "letter": _value(lambda letter: grade_badge(letter)),
    "list": _value(name),
    "name": _value(name),
    "of": lambda part, whole, _: count(part) if whole is None else f"{count(part)} / {count(whole)}",
    "outcome": _value(outcome_badge),
    "pass_rate": _pass_rate,
    "pass_at_1": lambda found, _, __: _unbroken(plain.share_of_pass(found, "1")),
    "pass_at_most": lambda found, _, __: _unbroken(plain.share_of_most(found)),
    "place": _value(lambda places: places or UNSEEN),
    "progress": _progress,
    "run": lambda shown, run_id, _: name(shown or run_id),
    "some": _value(lambda value: count(value) if value else UNSEEN),
    "some_dollars": _value(lambda value: usd(value) if value else UNSEEN),
    "state": lambda word, _, row: state_badge(word, value_at(row, ("status",))),
    "task": lambda task, shard, _: name(f"{shard}: {task}" if shard else task),
    "tier": lambda tier, subtest, _: name(tier if tier is None or subtest is None else f"{tier}/{subtest}"),
}


def cell(column: Column, row: Any) -> Content:
    value = value_at(row, column.path)
    if column.name in _METERS:
        return _meter(value, NUMBERS[column.format])
    return DRAWN[column.format](value, value_at(row, column.beside) if column.beside else None, row)


# -----------------------------------------------------------------------------
# Tables.


MAJOR = 5


@dataclass(frozen=True)
class Look:
    """The look of a board in one place.

    Attributes:
        key: a row's own key, by which the page finds it again.
        primary: the column beside the name on a phone.
        sort: the first sort column, and whether descending; None keeps the rows' order.
        cells: column to the content of its cells, if this place draws more than the format.
        elsewhere: the rows come sorted, and sorting them again takes another request.
        keeps_order: the rows are in order of arrival.
        whole: keep empty columns and name the column in each cell, for rows from other tables of the board.
    """

    caption: str
    key: Callable[[Any], str]
    primary: str = ""
    sort: tuple[str, bool] | None = None
    row_class: Callable[[Any], str] = lambda row: ""
    cells: Mapping[str, Callable[[Any], Content]] = field(default_factory=dict)
    empty: str = "Nothing yet."
    elsewhere: bool = False
    keeps_order: bool = False
    whole: bool = False


class Drawn(NamedTuple):
    """A drawn table: its look, one `th` for each head, key and `tr` of each row, and notes below."""

    look: Look
    heads: list[Element]
    rows: list[tuple[str, Element]]
    notes: list[str]

    def parts(self) -> dict[str, Any]:
        """The page's form: the rows by key; "" has the rest of the table and the order of keys."""
        order = [key for key, _ in self.rows]
        besides = {"heads": self.heads, "order": order, "notes": self.notes, "empty": self.look.empty}
        return {"": besides, **dict(self.rows)}


def draw(
    board: Board | Sequence[Column], rows: Sequence[Any], look: Look, notes: Iterable[str] = ()
) -> Drawn:
    """Draw the rows of a board in their order; columns without any value are left out."""
    columns, said = _one_basis(board.shown_on("page") if isinstance(board, Board) else board, rows)
    contents = [[_content(column, row, look) for column in columns] for row in rows]
    kept = [at for at, column in enumerate(columns) if _is_filled(at, column, contents, look)]
    shown = [columns[at] for at in kept]
    heads = [_head(column, plain.question(column, rows), look) for column in shown]
    drawn = [
        (look.key(row), _row(shown, [of[at] for at in kept], row, look))
        for row, of in zip(rows, contents, strict=True)
    ]
    return Drawn(look, heads, drawn, [visible(note) for note in (*said, *notes)])


def _one_basis(columns: Sequence[Column], rows: Sequence[Any]) -> tuple[Sequence[Column], list[str]]:
    """Without the column of bases, and with a note in its place, if all grades have the same basis."""
    bases = {basis(row) for row in rows} - {UNSEEN} if BASIS in columns else set()
    if len(bases) != 1:
        return columns, []
    return [column for column in columns if column != BASIS], [f"grade: by {bases.pop()}."]


def _content(column: Column, row: Any, look: Look) -> Content:
    own = look.cells.get(column.name)
    return own(row) if own else cell(column, row)


def _is_filled(at: int, column: Column, contents: list[list[Content]], look: Look) -> bool:
    return at == 0 or not contents or look.whole or any(of[at] != column.empty for of in contents)


def _head(column: Column, about: str, look: Look) -> Element:
    content = name(column.title) if column.outside else title_of(column)
    by, descending = look.sort or ("", False)
    text = column.format == "age" or (column.left and column.format != "grade")
    sorting = {
        "data-first": "descending" if column.sort == "greatest" else "ascending",
        "data-text": "" if text else None,
        "aria-sort": ("descending" if descending else "ascending") if by == column.name else None,
    }
    return h(
        "th",
        {
            "scope": "col",
            "role": "columnheader",
            "class": None if column.left else "number",
            "title": visible(column.hint) if column.hint else None,
            "data-id": visible(column.name),
            **(sorting if column.sort else {}),
        },
        h("button", {"type": "button"}, content) if column.sort else content,
        (" ", h("span", {"class": "about"}, about)) if about else None,
    )


def title_of(column: Column) -> str:
    """A capitalised title; symbols such as p stay unchanged, and so do titles from outside."""
    if column.outside:
        return column.title
    return column.title[:1].upper() + column.title[1:] if len(column.title) > 1 else column.title


def _row(columns: Sequence[Column], contents: Sequence[Content], row: Any, look: Look) -> Element:
    cells = [
        _td(at, column, content, row, look)
        for at, (column, content) in enumerate(zip(columns, contents, strict=True))
    ]
    return h("tr", {"role": "row", "class": look.row_class(row) or None}, *cells)


def _td(at: int, column: Column, content: Content, row: Any, look: Look) -> Element:
    classes = [
        "" if column.left else "number",
        "primary" if column.name == look.primary else "",
        "minor" if at > MAJOR else "",
        "unknown" if content == UNSEEN else "",
    ]
    attributes = {
        "class": " ".join(filter(None, classes)) or None,
        "scope": None if at else "row",
        "role": "cell" if at else "rowheader",
        "data-label": visible(title_of(column)),
        "data-sort": None if look.keeps_order else _sorted_by(column, row),
        "data-id": visible(column.name) if look.whole else None,
    }
    return h("td" if at else "th", attributes, content)


def _sorted_by(column: Column, row: Any) -> str | None:
    value = plain.sort_value(column, row) if column.sort else None
    if isinstance(value, float):
        return str(value).replace("inf", "Infinity")
    return None if value is None else visible(value)


def table(drawn: Drawn) -> Element:
    look = drawn.look
    none = h("tr", {"role": "row"}, h("td", {"class": "empty", "role": "cell"}, look.empty))
    body = [row for _, row in drawn.rows] or [none]
    return h(
        "div",
        {"class": "scroll", "role": "region", "aria-label": look.caption, "tabindex": "0"},
        h(
            "table",
            {"role": "table"},
            h("caption", {"class": "unseen"}, look.caption),
            h("thead", {"role": "rowgroup"}, h("tr", {"role": "row"}, *drawn.heads)),
            h("tbody", {"role": "rowgroup"}, *body),
        ),
    )


# -----------------------------------------------------------------------------
# The boards of a run.


def _folded(board: Board, agents: Sequence[Mapping[str, Any]]) -> Board:
    """The board without accuracy and pass@1, if these equal the pass rate of every agent."""

    def same(column: Column) -> bool:
        told = [(cell(column, one), percent(value_at(one, PASS_RATE.path))) for one in agents]
        return bool(told) and all(shown == rate != UNSEEN for shown, rate in told)

    equal = [column for column in board.columns if column.name in ("accuracy", "pass@1") and same(column)]
    if not equal:
        return board
    hint = f"{PASS_RATE.hint}. The same here: {' and '.join(column.title for column in equal)}"
    kept = [column for column in board.columns if column not in equal]
    at = kept.index(PASS_RATE)
    return replace(board, columns=(*kept[:at], replace(PASS_RATE, hint=hint), *kept[at + 1 :]))


Link = Callable[[str], str]


def swatched(label: str, link: Link | None, row: Any) -> Element:
    """An agent's name with a swatch of its colour in the charts."""
    shown = h("a", {"href": link(label)}, name(label)) if link else name(label)
    baseline = badge("baseline") if value_at(row, ("baseline",)) else None
    return h("span", {"class": "who"}, h("span", {"class": "swatch", "aria-hidden": "true"}), shown, baseline)


def draw_agents(
    agents: Sequence[Mapping[str, Any]], primary: str, *, notes: Iterable[str] = (), link: Link | None = None
) -> Drawn:
    """The agents of a run, by its primary METRIC; summaries need the fields of `AgentNow`."""
    board = _folded(with_named(AGENTS, agents), agents)
    by = next((one for one in board.columns if one.name == primary and one.sort), PASS_RATE)
    look = Look(
        "Agents of this run",
        key=lambda row: str(row["agent_model"]),
        primary=by.name,
        sort=(by.name, by.sort == "greatest"),
        row_class=lambda row: "baseline" if row["baseline"] else "",
        cells={"agent": lambda row: swatched(row["agent_model"], link, row)},
        empty="No trial has been counted yet.",
    )
    ranked = any(agent["place"] is not None for agent in agents)
    return draw(board, agents, look, [*plain.footnotes(agents, short=True), *[plain.PLACES] * ranked, *notes])


# -----------------------------------------------------------------------------
# Tiers: the spread of a metric that the visitor chooses.


SPREADS = {
    "pass_rate": "Pass rate",
    "composite_score": "Composite score",
    "impl_rate": "Judge's score",
    "cost_usd": "Cost per trial",
    "duration_seconds": "Duration",
}
_UNLIMITED = ("cost_usd", "duration_seconds")


def spreads_of(tiers: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    known = {name for tier in tiers for name, of in tier["statistics"].items() if of and of["count"]}
    return {name: title for name, title in SPREADS.items() if name in known}


def draw_tiers(tiers: Sequence[Mapping[str, Any]], spread: str) -> Drawn:
    """The tiers of a run, pooled or by agent, with one of SPREADS; summaries need `over` and `graded`."""
    found = [_statistics(tier, spread) for tier in tiers]
    most = [value for of in found if (value := _number(of.get("max"))) is not None]
    top = (max(filter(math.isfinite, most), default=0.0) or 1.0) if spread in _UNLIMITED else 1.0
    look = Look(
        "Tiers of this run",
        key=lambda tier: f"{tier['tier']}\n{tier['agent_model'] or ''}",
        primary="pass_rate",
        sort=("tier", False),
        cells={
            "tier": _tier,
            "spread": lambda tier: _spread(_statistics(tier, spread), top),
            "deviation": lambda tier: share(_statistics(tier, spread).get("std_dev")),
        },
        empty="This run has no tiers.",
    )
    return draw(with_named(TIERS, tiers), tiers, look, plain.footnotes(tiers, short=True))


def _statistics(tier: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    return tier["statistics"].get(metric) or {}


def _number(value: Any) -> float | None:
    return None if value is None or value == "NaN" else float(value)


def _tier(tier: Any) -> Content:
    baseline = tier["tier"] == tier["baseline_tier"]
    return (name(tier["tier"]), h("span", {"class": "note"}, " baseline") if baseline else None)


def _spread(found: Mapping[str, Any], top: float) -> Content:
    low, high, mean, median, deviation = (
        _number(found.get(name)) for name in ("min", "max", "mean", "median", "std_dev")
    )
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return UNSEEN

    def x(value: float) -> float:
        return round(4 + 162 * max(0.0, min(1.0, value / top)), 2)

    def line(kind: str, x1: float, x2: float, y1: int, y2: int) -> Element:
        return h("line", {"class": kind, "x1": x1, "x2": x2, "y1": y1, "y2": y2})

    words = (
        f"from {ratio(low)} to {ratio(high)}, median {ratio(median)}, mean {ratio(mean)}, "
        f"standard deviation {ratio(deviation)}"
    )
    band = dot = None
    if mean is not None and math.isfinite(mean):
        dot = h("circle", {"class": "mean", "cx": x(mean), "cy": 11, "r": 3})
        if deviation is not None:
            start, end = x(mean - deviation), x(mean + deviation)
            place = {"x": start, "width": max(1, round(end - start, 2)), "y": 5, "height": 12, "rx": 2}
            band = h("rect", {"class": "band", **place})
    return h(
        "svg",
        {"class": "spread", "viewBox": "0 0 170 22", "role": "img", "aria-label": words},
        h("title", {}, words),
        line("floor", 4, 166, 21, 21),
        line("range", x(low), x(high), 11, 11),
        line("range", x(low), x(low), 7, 15),
        line("range", x(high), x(high), 7, 15),
        band,
        None if median is None else line("median", x(median), x(median), 3, 19),
        dot,
    )


def across_tiers(cross: Mapping[str, Any] | None) -> list[Element]:
    """Values across the tiers of a run, as pairs of term and value; [] without tiers."""
    if not cross:
        return []
    variance = _number(cross["cost_variance"])
    small = variance is not None and 0 < variance < 0.001
    frontier = usd(cross["frontier_cost_of_pass"])
    tier = cross["frontier_tier"]
    facts: dict[str, Content] = {
        "Variance of median pass rates": ratio(cross["pass_rate_variance"]),
        "Variance of median judge's scores": ratio(cross["impl_rate_variance"]),
        "Variance of median costs": f"{variance:.2e}" if small else ratio(cross["cost_variance"]),
        "Highest − lowest median cost": usd(cross["cost_delta"]),
        "Lowest cost of pass": frontier if tier is None else (frontier, " in ", name(tier)),
    }
    return [h("div", {}, h("dt", {}, term), h("dd", {}, value)) for term, value in facts.items()]


# -----------------------------------------------------------------------------
# Trials, and why they failed.


def draw_trials(
    trials: Sequence[Mapping[str, Any]],
    agents: Sequence[Mapping[str, Any]],
    *,
    sort: tuple[str, bool] | None = None,
    caption: str = "Trials of this run",
    empty: str = "No trial fits.",
    link: Link | None = None,
) -> Drawn:
    """A page of trials, or the trials of a cell of the matrix.

    `link` gives a trial's address by its id; without it, the table cannot be sorted.
    """
    look = Look(
        caption,
        key=lambda trial: str(trial["id"]),
        primary="outcome",
        sort=sort,
        cells={"task": partial(_linked_task, link)} if link else {},
        empty=empty,
        elsewhere=link is not None,
        keeps_order=link is not None,
    )
    board = with_values_of(TRIALS, agents)
    return draw(board if link else unsorted(board.shown_on("page")), trials, look)


def _linked_task(link: Link, trial: Any) -> Content:
    whole = f"{trial['shard']}: {trial['task_id']}" if trial["shard"] else trial["task_id"]
    opening = {"class": "link", "aria-haspopup": "dialog", "href": link(str(trial["id"]))}
    return (h("a", opening, name(whole)), _apart(trial))


def _apart(trial: Any) -> Element | None:
    attempt = f"attempt {count(trial['attempt'])}" if trial["attempt"] > 1 else None
    repeat = name(trial["trial_name"]) if trial.get("trial_name") else attempt
    ended = time(trial["finished_at"]) if trial.get("finished_at") else None
    facts = [fact for fact in (repeat, ended) if fact is not None]
    parts = [part for at, fact in enumerate(facts) for part in ((" · ", fact) if at else (fact,))]
    when = h("div", {"class": "note repeat"}, *parts) if facts else None
    if not trial.get("reason"):
        return when
    return h("div", {}, when, h("div", {"class": "note reason"}, name(trial["reason"])))


FAILURE_GROUPS = (
    Column("count", "trials", "count", ("count",)),
    Column("share", "share", "percent", ("share",), hint="Share of all unsuccessful trials"),
    Column("mode", "failure", "name", ("failure_mode",), empty=""),
    Column("kind", "message", "name", ("kind",), empty=""),
    Column("agents", "agents", "name", ("agents",), empty=""),
)


def draw_failures(groups: Sequence[Mapping[str, Any]], link: Callable[[str, str], str], total: int) -> Drawn:
    """The largest of `total` groups of failures; `link` has the address of a mode and kind."""

    def kind(group: Any) -> Content:
        if not group["kind"]:
            return h("span", {"class": "note"}, "no message")
        return name(group["kind"] if group["count"] > 1 else group["example"])

    def agents(group: Any) -> Content:
        first, *others = group["agents"]
        return h("span", {}, name(first), f" and {count(len(others))} more" if others else None)

    def trials(group: Any) -> Content:
        leads = link(group["failure_mode"] or "", group["kind"])
        return h("a", {"class": "link", "href": leads}, count(group["count"]))

    look = Look(
        "Why trials failed",
        key=lambda group: json.dumps([group["failure_mode"], group["kind"]]),
        cells={"count": trials, "kind": kind, "agents": agents},
        empty="No trial has failed.",
    )
    left = total - len(groups)
    return draw(
        FAILURE_GROUPS, groups, look, [f"The largest {len(groups):,} of {total:,} groups."] if left else []
    )


# -----------------------------------------------------------------------------
# Runs, and the trials that are running.


MOST_CHIPS = 8


def _chip(key: str, value: str) -> Element:
    """A label, linked to the runs that have it, unless its key holds a `=`."""
    said = f"{key}={value}"
    if "=" in key:
        return h("span", {"class": "chip"}, name(said))
    return h("a", {"class": "chip", "href": f"#/?{urlencode({'label': said})}"}, name(said))


def draw_runs(
    runs: Sequence[Mapping[str, Any]],
    link: Link,
    sort: tuple[str, bool] | None = None,
    *,
    whole: bool = False,
) -> Drawn:
    """A page of runs, each a `ListedRun`, in the given order; for `whole` see `Look`."""

    def run_cell(run: Any) -> Content:
        shown = h("a", {"href": link(run["run_id"])}, name(run["display_name"] or run["run_id"]))
        own = h("div", {"class": "note"}, name(run["run_id"])) if run["display_name"] else None
        labels = list(run["labels"].items())
        chips = [_chip(*label) for label in labels[:MOST_CHIPS]]
        if more := len(labels) - len(chips):
            chips.append(h("span", {"class": "note"}, f"{more} more"))
        return h("div", {}, shown, own, h("div", {"class": "chips"}, *chips) if chips else None)

    look = Look(
        "Runs",
        key=lambda run: str(run["run_id"]),
        primary="state",
        sort=sort,
        cells={"run": run_cell},
        empty="No run fits.",
        elsewhere=True,
        whole=whole,
    )
    return draw(RUNS, runs, look)


_SLOT = ("agent_model", "task", "attempt", "tier", "subtest")


def draw_running(running: Sequence[Mapping[str, Any]]) -> Drawn:
    look = Look(
        "Trials running now", key=lambda one: json.dumps([one[part] for part in _SLOT]), primary="age"
    )
    return draw(RUNNING, running, look)
