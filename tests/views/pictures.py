"""The pictures of docs/decide.md, one for each question: `python -m tests.views.pictures FOLDER`.

The functions that decide draw them, from simulated agents of a fixed seed. So a picture says what the code
says, and a test draws each again and compares the bytes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import permutations
from pathlib import Path
from random import Random

from streamer.statistics.ability import ErrorParts
from streamer.statistics.final import shuffled_rounds
from streamer.statistics.ledger import drops, evidence_better, judged
from streamer.statistics.pairs import Pair, evidence_worse, is_behind
from streamer.views.decide.history import PastRun, PastTrial, TaskHistory, plans_of, tasks_of

WIDTH, HEIGHT = 720, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 46
TASKS, ATTEMPTS = 89, 5
INK, SOFT, GRID = "#1f2937", "#5b6472", "#dfe3e8"
BLUE, RED, GREEN, GREY = "#1d5fbf", "#b3261e", "#117a43", "#9aa3af"

Point = tuple[float, float]


class Chart:
    """A chart with two axes as SVG text; y may be logarithmic.

    Args:
        title: stands above it.
        x, y: what the axes show, with their ends.
        log: whether y is logarithmic; both of its ends are above 0 then.
    """

    def __init__(
        self, title: str, x: tuple[str, float, float], y: tuple[str, float, float], *, log: bool = False
    ) -> None:
        self._x, self._y, self._log = x[1:], y[1:], log
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>',
        ]
        self._text(LEFT, 24, title, INK, size=15)
        self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x[0], SOFT, "middle")
        self._text(LEFT, TOP - 4, y[0], SOFT)

    def ticks(self, x: Iterable[float], y: Iterable[float], write: str = "{:,g}") -> None:
        """Values at the axes; those of y have lines across."""
        for value in x:
            self._text(self._at((value, self._y[0]))[0], HEIGHT - BOTTOM + 16, f"{value:,g}", SOFT, "middle")
        for value in y:
            _, height = self._at((self._x[0], value))
            self._line([(LEFT, height), (WIDTH - RIGHT, height)], GRID)
            self._text(LEFT - 8, height + 4, write.format(value), SOFT, "end")

    def line(self, points: Sequence[Point], colour: str, label: str = "", dash: str = "") -> None:
        """A line, and its name at its end."""
        places = [self._at(point) for point in points]
        self._line(places, colour, 2, dash)
        if label:
            self._text(places[-1][0] + 8, places[-1][1] + 4, label, colour)

    def dot(self, point: Point, colour: str, label: str = "") -> None:
        x, y = self._at(point)
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
        if label:
            self._text(x, y - 9, label, colour, "middle")

    def bar(self, left: float, right: float, height: float, colour: str) -> None:
        (x, y), (end, base) = self._at((left, height)), self._at((right, self._y[0]))
        tall = max(1.5, base - y)
        self._parts.append(
            f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{end - x - 1:.1f}" height="{tall:.1f}" '
            f'fill="{colour}"/>'
        )

    def note(self, point: Point, text: str, colour: str, anchor: str = "start") -> None:
        self._text(*self._at(point), text, colour, anchor)

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])

    def _at(self, point: Point) -> Point:
        x, y = point
        low, high = self._y
        if self._log:
            low, high, y = math.log10(low), math.log10(high), math.log10(max(low, y))
        share = min(1.0, max(0.0, (y - low) / (high - low)))
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def _line(self, places: Iterable[Point], colour: str, width: float = 1, dash: str = "") -> None:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )

    def _text(
        self, x: float, y: float, text: str, colour: str, anchor: str = "start", size: int = 12
    ) -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">'
            f"{escape(text)}</text>"
        )


def chances(random: Random, mean: float = 0.45) -> list[float]:
    return [random.betavariate(2 * mean, 2 * (1 - mean)) for _ in range(TASKS)]


def outcomes(random: Random, of: Sequence[float], better_by: float = 0.0) -> list[bool]:
    """All trials in order; the agent passes each task with a share more or less of what is left."""
    share = better_by / (1 - sum(of) / len(of)) if better_by > 0 else better_by / (sum(of) / len(of))
    moved = [one + share * (1 - one if better_by > 0 else one) for one in of]
    order = shuffled_rounds([str(task) for task in range(len(of))], ATTEMPTS, "order")
    return [random.random() < moved[int(task)] for task, _ in order]


def ledger() -> str:
    """Fourteen candidates against one baseline; two of them are really 15 points better."""
    random = Random(11)
    tasks = chances(random)
    better = {4, 9}
    evidence = []
    for place in range(1, 15):
        theirs, ours = outcomes(random, tasks), outcomes(random, tasks, 0.15 if place in better else 0.0)
        pairs = [Pair(base, candidate) for base, candidate in zip(theirs, ours, strict=True)]
        ahead = sum(ours) > sum(theirs)
        evidence.append(evidence_better(pairs, pairs, len(pairs)) if ahead else 0.0)
    verdicts = judged(evidence)
    title = "14 candidates, 2 of them really 15 points better, 89 tasks x 5 each"
    across = ("candidate, in the order of its declaration", 0.5, 14.5)
    chart = Chart(title, across, ("evidence that it is better", 0.1, 1e5), log=True)
    chart.ticks(range(1, 15), (0.1, 1, 10, 100, 1e3, 1e4, 1e5))
    steps = [(place + half, one.needed) for place, one in enumerate(verdicts, 1) for half in (-0.5, 0.5)]
    chart.line(steps, RED, "needed at this place")
    chart.line([(0.5, 20), (14.5, 20)], GREY, "a single candidate", "4 4")
    for place, (value, verdict) in enumerate(zip(evidence, verdicts, strict=True), 1):
        real = " (really better)" if place in better else ""
        chart.dot(
            (place, value), GREEN if verdict.better else SOFT, f"better{real}" if verdict.better else ""
        )
    chart.note((14.7, 0.2), "not shown better", SOFT)
    return chart.svg()


def race() -> str:
    """Four candidates of one run; which may be dropped, and when."""
    random = Random(5)
    tasks = chances(random, 0.5)
    gaps = {"v1": 0.0, "v2": -0.03, "v3": -0.12, "v4": -0.25}
    results = {name: outcomes(random, tasks, gap) for name, gap in gaps.items()}
    trials = len(results["v1"])
    needed, racing, hypotheses = 20 * 12, set(gaps), 12
    title = "4 candidates: v3 is 12 points behind v1, v4 25 points, v2 3 points"
    across, up = ("trials of each candidate", 0, trials), ("largest evidence that it is worse", 0.5, 1e4)
    chart = Chart(title, across, up, log=True)
    chart.ticks(range(0, trials + 1, 89), (1, 10, 100, 1e3, 1e4))
    chart.line([(0, needed), (trials, needed)], RED, "first drop", "4 4")
    curves: dict[str, list[Point]] = {name: [] for name in gaps}
    dropped: dict[str, Point] = {}
    for known in range(5, trials + 1, 5):
        evidence = {}
        for one, other in permutations(gaps, 2):
            pairs = [Pair(*both) for both in zip(results[one], results[other], strict=True)][:known]
            behind = is_behind(pairs, pairs, trials)
            evidence[one, other] = evidence_worse(pairs, trials) if behind else 0.0
        for name in racing:
            worst = max(value for (one, _), value in evidence.items() if one == name)
            curves[name].append((known, max(0.5, worst)))
        for name, _ in drops(evidence, racing, hypotheses):
            racing.discard(name)
            dropped[name] = curves[name][-1]
    for name, colour in zip(gaps, (BLUE, INK, RED, SOFT), strict=True):
        chart.line(curves[name], colour, "" if name in dropped else f"{name} stays")
        if name in dropped:
            chart.dot(dropped[name], colour, f"{name} dropped after {dropped[name][0]:.0f}")
    return chart.svg()


def past(run: str, agent: str, outcomes: dict[str, list[bool]], started: int = 1) -> PastRun:
    """A run of one agent; a cost of one dollar and 60 seconds for each trial."""
    trials = [
        PastTrial(run, agent, task, task, passed, 1.0, 60.0)
        for task, attempts in outcomes.items()
        for passed in attempts
    ]
    return PastRun(run, datetime(2026, 1, started, tzinfo=UTC), trials)


def history() -> list[TaskHistory]:
    """Eighty tasks that nine agents tried once each."""
    random = Random(2)
    tasks = [random.betavariate(0.5, 0.6) for _ in range(80)]
    return tasks_of(
        past(f"r{agent}", f"a{agent}:m", {f"t{at:02}": [random.random() < p] for at, p in enumerate(tasks)})
        for agent in range(9)
    )


def plan() -> str:
    """The chance to detect a drop, by the attempts at each of eighty tasks."""
    title = "Estimate: 80 tasks, and how often a drop is found before the run is over"
    chart = Chart(title, ("attempts at each task", 1, 5), ("chance", 0, 1))
    chart.ticks(range(1, 6), (0, 0.25, 0.5, 0.75, 1), "{:.0%}")
    for detect, colour in ((0.2, GREEN), (0.1, BLUE), (0.05, SOFT)):
        plans = plans_of(history(), detect, range(1, 6), Random("plan"), simulated=120)
        for order, dash in (("shuffled", ""), ("history", "3 4")):
            points = [(one.attempts, one.chance) for one in plans if one.order == order]
            chart.line(points, colour, f"{100 * detect:g} points" if order == "shuffled" else "", dash)
    chart.note((2.6, 0.35), "solid: shuffled; dotted: live tasks first", SOFT)
    return chart.svg()


def half() -> str:
    """The past share of each task: those at the ends tell no agents apart."""
    tasks = sorted(history(), key=lambda task: task.share)
    dead = sum(task.dead is not None for task in tasks)
    title = f"80 tasks by the share of nine agents that passed: {dead} are dead"
    chart = Chart(title, ("tasks, the hardest first", 0, len(tasks)), ("passed", 0, 1))
    chart.ticks((), (0, 0.5, 1), "{:.0%}")
    for place, task in enumerate(tasks):
        chart.bar(place, place + 1, task.share, BLUE if task.is_live else GREY)
    chart.note((len(tasks) + 1, 0.6), "live: run first", BLUE)
    chart.note((len(tasks) + 1, 0.5), "dead: run last", SOFT)
    plans = plans_of(history(), 0.2, [2], Random("plan"), simulated=120)
    pairs = {one.order: one.pairs for one in plans}
    chart.note((2, 0.9), f"a drop of 20 points: {pairs['history']} pairs by history,", INK)
    chart.note((2, 0.82), f"{pairs['shuffled']} shuffled (estimate)", INK)
    return chart.svg()


def errors() -> str:
    """What more attempts and more tasks make of a standard error, by what they cost."""
    error, share, trials, each = 0.041, 0.85, TASKS * ATTEMPTS, 0.25
    parts = ErrorParts(error**2 * share, error**2 * (1 - share))
    title = "Standard error 4.1 points: 85 % of its variance is from the choice of 89 tasks"
    chart = Chart(title, ("more dollars", 0, 150), ("standard error, points", 2.6, 4.2))
    chart.ticks(range(0, 151, 25), (2.6, 2.8, 3, 3.2, 3.4, 3.6, 3.8, 4, 4.2), "{:.1f}")
    more = range(0, 121, 4)
    attempts = [(n * TASKS * each, 100 * parts.error_with(TASKS, trials, attempts=n)) for n in range(7)]
    tasks = [(n * ATTEMPTS * each, 100 * parts.error_with(TASKS, trials, more_tasks=n)) for n in more]
    chart.line(attempts, SOFT, "more attempts")
    chart.line(tasks, BLUE, "more tasks")
    return chart.svg()


PICTURES: dict[str, Callable[[], str]] = {
    f"decide-{draw.__name__}": draw for draw in (ledger, race, errors, plan, half)
}
"""Name of the file in docs/screenshots, without its ending, to what draws it."""


def main() -> None:
    for name, draw in PICTURES.items():
        file = Path(sys.argv[1]) / f"{name}.svg"
        file.write_text(draw(), encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
