"""The page's modules alone write numbers, times and marks as the other surfaces do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page

from streamer.text import ends_in_points, percent, points
from streamer.views.outlook import clock
from streamer.views.tables import EXPLAINED, SO_FAR, age, minute, span
from tests.web.browsing import WebProcess

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_page_writes_shares_and_spans_as_the_terminal_does(page: Page, web: WebProcess) -> None:
    halves = [passed / 80 for passed in range(-80, 81)]
    shares = [1 / 10_080, -1 / 10_080, 0.41667, 10_079 / 10_080, -10_079 / 10_080, *halves, None]
    seconds = [0.0, 8.5, 9.125, 12.25, 119.4, 735.0, 20_070.0, 400_000.0, None]
    page.goto(web.url)
    drawn = page.evaluate(
        """async ([shares, seconds]) => {
            const format = await import("/static/js/format.js");
            const { difference, differences, duration, percent, signed } = format;
            const moved = shares.filter((by) => by !== null);
            return [
              ...shares.map(percent),
              ...seconds.map(duration),
              ...moved.map((by) => difference(by, percent)),
              ...moved.map((low) => differences({ low, high: 0.5 }, percent)),
              ...[0.0003, -0.9997, 0.05, -0.05].map((by) => signed(by, percent)),
            ];
        }""",
        [shares, seconds],
    )
    moved = [share for share in shares if share is not None]
    written = [*map(percent, shares), *map(span, seconds)]
    written += [*map(points, moved), *(ends_in_points(low, 0.5) for low in moved)]
    written += ["<0.1 %", "<-99.9 %", "+5.0 %", "-5.0 %"]
    assert [text.replace("\u00a0", " ").replace("−", "-") for text in drawn] == written


def test_the_page_writes_times_in_utc_as_the_terminal_does(browser: Browser, web: WebProcess) -> None:
    now = datetime(2026, 9, 30, 12, 0, tzinfo=UTC)
    passed = [-200_000, -600, -61, -60, 0, 59, 60, 3599, 3600, 7300, 172_799, 172_800]
    moments = [now - timedelta(seconds=seconds) for seconds in passed]
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(web.url)
    drawn = page.evaluate(
        """async ([now, moments]) => {
            const { age, clock, moment } = await import("/static/js/format.js");
            const dates = moments.map((text) => new Date(text));
            return [
              ...dates.map((at) => age(at.getTime(), new Date(now).getTime())),
              ...moments.map((text) => moment(text).textContent),
              ...dates.map((at) => clock(at, true)),
              ...dates.map((at) => clock(at, false)),
            ];
        }""",
        [now.isoformat(), [at.isoformat() for at in moments]],
    )
    context.close()
    clocks = [clock(at, now, last) for last in (now + timedelta(days=1), now) for at in moments]
    assert drawn == [*(age(at, now) for at in moments), *map(minute, moments), *clocks]


def test_the_axis_of_a_single_moment_has_a_minute_to_each_side(page: Page, web: WebProcess) -> None:
    page.goto(web.url)
    spans = page.evaluate(
        """async () => {
            const { TimeChart } = await import("/static/js/timechart.js");
            const { span } = TimeChart.prototype;
            const of = (xs, high) => span.call({ along: "time", data: [xs] }, 600, high);
            return [of([600], 600 + 86_400_000), of([600, 900], 900), of([600, 601], 601)];
        }"""
    )
    assert spans == [[540, 660], [600, 900], [540, 661]]


def test_the_page_explains_the_marks_of_agents_with_a_pass_rate_alone(page: Page, web: WebProcess) -> None:
    page.goto(web.url)
    notes = page.evaluate(
        """async () => {
            const { footnotes } = await import("/static/js/uncertainty.js");
            const group = (mean) => ({ provisional: true, statistics: { pass_rate: { mean } } });
            return [footnotes([group(null)]), footnotes([group(null), group(0.5)])];
        }"""
    )
    assert notes == [[], [EXPLAINED[SO_FAR]]]
