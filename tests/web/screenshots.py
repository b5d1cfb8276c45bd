"""Pictures of the page, of the same run at the same moment: `python -m tests.web.screenshots FOLDER`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from streamer.client.readers import StateReader
from streamer.folding.fold import Pipeline
from streamer.schemas.summaries import RunSummary
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from tests.support.events import records, summaries
from tests.support.simulated import TIERED_RUN, simulate
from tests.web.browsing import WebProcess, a_browser, a_page, a_stack, counted, live, publish
from tests.web.page_sets import HOSTILE, ONE, SETS, SIX, THIRTY, TRIALS_OF_THIRTY

NOW = datetime.now(UTC).replace(second=0, microsecond=0)
START = NOW - timedelta(hours=3, minutes=2)
"""The server knows the time, too: a run of another day would have stalled."""

UNTIL = START + timedelta(hours=3)
"""Later results are left out: the run is still going."""

BATCH = 4
"""Events between two looks of the worker, so that the charts in the documents have steps to show."""

VIEWS = {
    "runs": "",
    "board": f"#/run/{TIERED_RUN}",
    "tiers": f"#/run/{TIERED_RUN}/tiers",
    "trials": f"#/run/{TIERED_RUN}/trials",
    "compare": f"#/run/{TIERED_RUN}/compare",
    "leaders": "#/leaders",
    "one": f"#/run/{ONE}",
    "six": f"#/run/{SIX}",
    "thirty": f"#/run/{THIRTY}",
    "hostile": f"#/run/{HOSTILE}",
    "unknown": "#/run/unknown",
}
LOOKS = {"light": ("light", 1280, 860), "dark": ("dark", 1280, 860), "phone": ("light", 360, 740)}
FOR_DOCS = (
    *("board-light", "board-dark", "board-phone", "tiers-light", "trial-light"),
    *("six-light", "six-dark", "six-phone", "thirty-light", "thirty-phone", "hostile-phone", "one-light"),
)


def feed(settings: Settings, batch: int = BATCH) -> None:
    """Publish most of a simulated benchmark, so many events at a time; each time the worker counts them."""
    lines = [line for line in simulate(seed=5, start=START) if _is_in_time(line)]
    expected = Pipeline()
    with ThreadedPublisher(settings) as publisher, StateReader(settings) as reader:
        for start in range(0, len(lines), batch):
            for line in lines[start : start + batch]:
                publisher.send(Outgoing.of(decode(line), line))
            publisher.flush()
            expected.fold(records(lines[start : start + batch]))
            for name, summary in summaries(expected).items():
                if name.startswith("run "):
                    done = summary["progress"]["done"]
                    reader.wait_for(summary["run_id"], partial(_has_done, done), timeout_seconds=30)


def _has_done(trials: int, run: RunSummary) -> bool:
    return run.progress.done >= trials


def feed_sets(settings: Settings) -> None:
    """The sets of runs that the page is tried with, as of the moment of the pictures."""
    for events in SETS:
        publish(settings, events(NOW))
    counted(settings, TRIALS_OF_THIRTY, THIRTY)


def _is_in_time(line: bytes) -> bool:
    event = decode(line)
    if isinstance(event, Reason) or event.type == "run_finished":
        return False
    return event.type != "trial_result" or (event.finished_at is not None and event.finished_at < UNTIL)


def take(browser: Browser, url: str, out: Path, expected: Sequence[str] | None = None) -> list[Path]:
    """Screenshots `VIEW-LOOK.png` into a folder; `expected`: only these names."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for look, (scheme, width, height) in LOOKS.items():
        size, place = {"width": width, "height": height}, {"timezone_id": "UTC", "locale": "en-GB"}
        with a_page(browser, "", color_scheme=scheme, viewport=size, **place) as page:
            page.clock.set_fixed_time(NOW)
            for view in (*VIEWS, "trial"):
                file = out / f"{view}-{look}.png"
                if expected is None or file.stem in expected:
                    page.goto("about:blank")
                    _show(page, url, view)
                    page.screenshot(path=file, full_page=view not in ("trial", "trials", "compare"))
                    written.append(file)
    return written


def _show(page: Page, url: str, view: str) -> None:
    page.goto(f"{url}/{VIEWS.get(view, VIEWS['trials'])}")
    live(page)
    if view == "unknown":
        expect(page.get_by_role("alert").first).to_be_visible()
        return
    rows = page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    if view in ("six", "thirty"):
        expect(rows.filter(has_text=re.compile(r"\d-\d")).first).to_be_visible()
    if view in ("six", "thirty", "board"):
        expect(page.locator(".plot")).to_have_attribute("data-points", re.compile(r"^\d{2,}$"))
    if view == "board":
        expect(page.locator("svg.scatter .point").first).to_be_visible()
    if view == "trial":
        page.get_by_label("Outcome").select_option("no_verdict")
        expect(page.locator(".pager")).to_contain_text("that fit")
        page.get_by_role("region", name="Trials of this run").locator("tbody a.link").first.click()
        expect(page.get_by_role("dialog")).to_contain_text("Effort")


def main() -> None:
    """Make those that the documents show."""
    out = Path(sys.argv[1])
    with (
        tempfile.TemporaryDirectory() as folder,
        a_browser() as browser,
        a_stack(Path(folder)) as settings,
        WebProcess(settings, Path(folder)) as web,
    ):
        feed(settings)
        feed_sets(settings)
        for path in take(browser, web.url, out, FOR_DOCS):
            print(path)


if __name__ == "__main__":
    main()
