"""What the page costs a reader in Chromium: first paint, weight and memory of a large run, and its views.

The browser is headless and draws without a graphics card. Without Playwright or Chromium the rows say so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common import Scale
from benchmarks.rows import Measured, Row, Sites
from streamer.client.readers import StateReader
from tests.web.page_sets import (
    MATRIX_AGENTS,
    MATRIX_TASKS,
    THIRTY,
    TRIALS_OF_THIRTY,
    large_matrix,
    lines_of,
    thirty_agents,
)

PAINT_SECONDS = 0.3
WEIGHT_KILOBYTES = 70.0
VIEW_SECONDS = 1.0
HEAP_MEGABYTES = 60.0
FRAME_MILLISECONDS = 16.7
STEPS = 200
"""Frames in which the matrix is scrolled, 97 pixels each."""

RUN = f"a run of {TRIALS_OF_THIRTY:,} trials"
MATRIX = f"a matrix of {MATRIX_AGENTS} agents and {MATRIX_TASKS} tasks"
ASKED: dict[str, tuple[str, str, float | None]] = {
    "painted": (f"first paint of {RUN}", "s", PAINT_SECONDS),
    "weight": ("files of the page as they travel, compressed", "kB", WEIGHT_KILOBYTES),
    "board": (f"board and curves of {RUN} are drawn", "s", None),
    "trials": (f"trials of {RUN} are drawn", "s", VIEW_SECONDS),
    "matrix": (f"matrix of {RUN} is drawn", "s", VIEW_SECONDS),
    "heap": (f"memory of the page's scripts with {RUN}", "MB", HEAP_MEGABYTES),
    "frame": (f"{MATRIX} scrolls: processor time of the page for a frame", "ms", FRAME_MILLISECONDS),
    "longest": (f"{MATRIX} scrolls: longest time between two frames", "ms", None),
}
"""Figure -> what it is, its unit, and what it may be at most; None: nothing is asked."""

VIEWS = {"trials": "tbody tr", "tasks": "[data-cells]:not([data-cells='0'])"}
"""Part of the run's page -> what is there once it is drawn."""

WEIGHT = """() => ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
  .filter((entry) => entry.entryType === "navigation" || entry.name.includes("/static/"))
  .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
MADE = """async (matrix) => {
  const { MatrixGrid } = await import("/static/js/shared.js");
  window.grid = new MatrixGrid(null);
  document.getElementById("main").replaceChildren(grid.element);
  grid.update(matrix);
  await new Promise(requestAnimationFrame);
}"""
SCROLLED = """async (steps) => {
  const frame = () => new Promise(requestAnimationFrame);
  const frames = [];
  let drawn = 0;
  const draw = grid.draw.bind(grid);
  grid.draw = () => draw((drawn += 1));
  let last = await frame();
  for (let step = 1; step <= steps; step += 1) {
    grid.box.scrollTop = (step * 97) % 9000;
    const now = await frame();
    frames.push(now - last);
    last = now;
  }
  return { longest: Math.max(...frames), drawn };
}"""


def page(scale: Scale, sites: Sites) -> Measured:
    """Rows: first paint, weight, views of a large run, memory, frames of the matrix. A turn: one visitor."""
    missing = _missing()
    if missing:
        return Measured([_row(name, (), f", not measured: {missing}") for name in ASKED])
    turns = _turns(scale)
    return Measured([_row(name, [turn[name] for turn in turns]) for name in ASKED], {"turns": turns})


def _row(name: str, values: Sequence[float], why: str = "") -> Row:
    what, unit, most = ASKED[name]
    return Row(what + why, values, unit, None if most is None else "<=", most)


def _missing() -> str:
    """What is not there to look at the page with; "" if nothing is missing."""
    if find_spec("playwright") is None:
        return "Playwright is not installed"
    from tests.web.browsing import find_chromium

    return "" if find_chromium() else "there is no Chromium on PATH or in CHROMIUM"


def _turns(scale: Scale) -> list[dict[str, float]]:
    from tests.web.browsing import WebProcess, a_browser, a_stack, publish

    with (
        tempfile.TemporaryDirectory(prefix="bench-page-") as folder,
        a_browser() as browser,
        a_stack(Path(folder)) as stack,
        WebProcess(stack, Path(folder)) as web,
    ):
        publish(stack, lines_of(thirty_agents(datetime.now(UTC))))
        with StateReader(stack) as reader:
            reader.wait_for(THIRTY, lambda run: run.progress.done == TRIALS_OF_THIRTY, timeout_seconds=120)
        turns = [_visit(browser, web.url) for _ in range(scale.warm_up + scale.repeats)]
    return turns[scale.warm_up :]


def _visit(browser: Any, url: str) -> dict[str, float]:
    """Figures of one visitor, who has nothing of the page yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    seen = context.new_page()
    seen.goto(f"{url}/#/run/{THIRTY}")
    seen.locator(".plot:not([data-points='0'])[data-points]").wait_for()
    board = seen.evaluate("() => performance.now()")
    painted = seen.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    weight = seen.evaluate(WEIGHT)
    session = context.new_cdp_session(seen)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"]
    seen.evaluate(MADE, large_matrix())
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _thread_seconds(session)
    scrolled = seen.evaluate(SCROLLED, STEPS)
    frame = 1000 * (_thread_seconds(session) - before) / STEPS
    context.close()
    assert scrolled["drawn"] > STEPS / 2, "the matrix was not drawn as it scrolled"
    trials, matrix = (
        _view_seconds(browser, f"{url}/#/run/{THIRTY}/{view}", there) for view, there in VIEWS.items()
    )
    times = {"painted": painted / 1000, "board": board / 1000, "trials": trials, "matrix": matrix}
    sizes = {"weight": weight / 1000, "heap": heap / 1e6}
    return times | sizes | {"frame": frame, "longest": scrolled["longest"]}


def _view_seconds(browser: Any, address: str, there: str) -> float:
    """Time until a view is drawn for a visitor who has nothing of the page yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    seen = context.new_page()
    seen.goto(address)
    seen.locator(there).first.wait_for()
    seconds = float(seen.evaluate("() => performance.now() / 1000"))
    context.close()
    return seconds


def _thread_seconds(session: Any) -> float:
    """Processor time of the thread that runs the page's scripts and lays it out."""
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])
