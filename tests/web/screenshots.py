"""Pictures of the page, of the same run at the same moment: `python -m tests.web.screenshots FOLDER`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from streamer.client.readers import StateReader
from streamer.schemas.wire import Reason, decode
from streamer.settings import Settings
from streamer.storage.outbox import Outgoing, ThreadedPublisher
from tests.support.simulated import PLAIN_RUN, TIERED_RUN, simulate
from tests.web.browsing import WebProcess, a_browser, a_stack, live, publish
from tests.web.page_sets import (
    HOSTILE,
    ONE,
    SIX,
    THIRTY,
    hostile_names,
    lines_of,
    one_running,
    six_half_done,
    thirty_agents,
)

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
    with ThreadedPublisher(settings) as publisher, StateReader(settings) as reader:
        for start in range(0, len(lines), batch):
            for line in lines[start : start + batch]:
                event = decode(line)
                publisher.send(Outgoing.of(event, line))
            publisher.flush()
            counted = _counted(lines[: start + batch])
            for run_id, trials in counted.items():
                reader.wait_for(run_id, lambda run, n=trials: run.progress.done >= n, timeout_seconds=30)  # type: ignore[misc]


def feed_sets(settings: Settings) -> None:
    """The sets of runs that the page is tried with, as of the moment of the pictures."""
    for events in (one_running, six_half_done, hostile_names, thirty_agents):
        publish(settings, lines_of(events(NOW)))
    with StateReader(settings) as reader:
        reader.wait_for(THIRTY, lambda run: run.progress.done == 10_080, timeout_seconds=120)


def _is_in_time(line: bytes) -> bool:
    event = decode(line)
    if isinstance(event, Reason) or event.type == "run_finished":
        return False
    return event.type != "trial_result" or (event.finished_at is not None and event.finished_at < UNTIL)


def _counted(lines: Sequence[bytes]) -> dict[str, int]:
    """Slots that these events fill at least, by run; a retraction may empty one again."""
    slots: dict[str, set[tuple[object, ...]]] = {}
    for line in lines:
        event = decode(line)
        if not isinstance(event, Reason) and event.type == "trial_result":
            slot = (event.task_id, event.attempt, event.agent, event.model, event.tier, event.subtest)
            slots.setdefault(event.run_id, set()).add(slot)
    return {run: len(result) - (run == PLAIN_RUN) for run, result in slots.items()}


def take(browser: Browser, url: str, out: Path, expected: Sequence[str] | None = None) -> list[Path]:
    """Screenshots `VIEW-LOOK.png` into a folder; `wanted`: only these names."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for look, (scheme, width, height) in LOOKS.items():
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": height},
            timezone_id="UTC",
            locale="en-GB",
        )
        for view in (*VIEWS, "trial"):
            name = f"{view}-{look}"
            if expected is None or name in expected:
                page = context.new_page()
                page.clock.set_fixed_time(NOW)
                _show(page, url, view)
                page.screenshot(
                    path=out / f"{name}.png", full_page=view not in ("trial", "trials", "compare")
                )
                written.append(out / f"{name}.png")
                page.close()
        context.close()
    return written


def _show(page: Page, url: str, view: str) -> None:
    page.goto(f"{url}/{VIEWS.get(view, VIEWS['trials'])}")
    live(page)
    if view == "unknown":
        expect(page.get_by_role("alert").first).to_be_visible()
        return
    expect(page.locator("tbody tr").first).to_be_visible()
    if view in ("six", "thirty"):
        expect(page.locator("tbody tr").filter(has_text=re.compile(r"\d-\d")).first).to_be_visible()
        expect(page.locator(".plot")).to_have_attribute("data-points", re.compile(r"^\d{2,}$"))
    if view == "board":
        expect(page.locator(".plot")).to_have_attribute("data-points", re.compile(r"^\d{2,}$"))
        expect(page.locator("svg.scatter .point").first).to_be_visible()
    if view == "trial":
        page.get_by_label("Outcome").select_option("no_verdict")
        expect(page.locator(".pager")).to_contain_text("that fit")
        listed = page.get_by_role("region", name="Trials of this run")
        listed.locator("tbody a.link").first.click()
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
