"""Trials on the page: why they failed, their files, groups of failures, the matrix, links and Back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from streamer.settings import Settings
from tests.support.events import a_plan, a_trial, an_end
from tests.web.browsing import a_copier, a_page, copied, field, fits, publish
from tests.web.page_sets import large_matrix
from tests.web.serving import Serving
from tests.web.trial_files import HOSTILE, LINK, RUN, events, make_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHOWN = HOSTILE.replace("\u202e", "\\u202e")


@pytest.fixture(scope="module")
def url(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that may show the files of the run."""
    folder = tmp_path_factory.mktemp("files")
    runs = make_run(folder)
    publish(stack, events())
    with Serving(stack.model_copy(update={"data_dir": folder}), artifacts=[runs]) as serving:
        yield f"http://127.0.0.1:{serving.port}"


def open_trial(page: Page, url: str, task: str = "task-1") -> Locator:
    """Open it; the drawer that it opens in."""
    page.goto(f"{url}/#/run/{RUN}/trials?task={task}")
    page.locator("tbody a.link").filter(has_text=task).click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Why it failed")
    return drawer


def test_a_trial_opens_to_its_message_and_each_of_its_files(sized: Page, url: str) -> None:
    def file(name: str) -> None:
        drawer.get_by_role("button", name=name).click()

    drawer = open_trial(sized, url)
    row = sized.get_by_role("region", name="Trials of this run").locator("tbody tr")
    expect(row).to_contain_text("task-1.1-of-1.files-run")
    expect(row.locator("time").first).to_have_attribute("datetime", "2026-01-02T03:05:00Z")
    expect(drawer.locator(".why pre")).to_contain_text(f"Timeout after 300 s {SHOWN}")
    expect(drawer).to_contain_text("task-1.1-of-1.files-run")
    file("trajectory.json")
    steps, boom = drawer.locator(".steps"), drawer.locator(".steps pre").filter(has_text="boom")
    expect(steps.locator("li")).to_have_count(3)
    expect(steps).to_contain_text(f"I look {SHOWN}")
    expect(steps.locator("li.failed")).to_have_count(1)
    expect(boom).not_to_be_visible()
    drawer.get_by_label("Search the steps").fill("boom")
    expect(steps.locator("li:visible")).to_have_count(1)
    expect(boom).to_be_visible()
    file("agent.log")
    expect(drawer.locator(".log .ink-1")).to_have_text("red")
    expect(drawer.locator(".log")).to_contain_text(SHOWN)
    file("fix.patch")
    expect(drawer.locator(".log .added")).to_have_text("+new\n")
    file("link.log")
    expect(drawer.get_by_role("alert")).to_contain_text("Other files are not shown")
    link = drawer.get_by_role("link", name="elsewhere")
    expect(link).to_have_attribute("href", LINK)
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert (drawer.locator("img, script").count(), "owned" in sized.title(), fits(sized)) == (0, False, True)


def test_a_late_answer_leaves_the_trial_alone_that_was_opened_since(page: Page, url: str) -> None:
    page.goto(f"{url}/#/run/{RUN}/trials?sort=task")
    held: list[Route] = []
    one_trial = re.compile("/trials/[0-9a-f]{24}$")
    page.route(one_trial, lambda route: held.append(route), times=1)
    drawer, links = page.get_by_role("dialog"), page.locator("tbody a.link")
    with page.expect_request(one_trial):
        links.filter(has_text="task-1").click()
    expect(drawer).to_contain_text("Loading…")
    drawer.get_by_role("button", name="Close").click()
    links.filter(has_text="task-2").click()
    expect(drawer.locator("#drawer-title")).to_have_text("task-2")
    with page.expect_response(one_trial) as late:
        held[0].continue_()
    late.value.finished()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(drawer.locator("#drawer-title")).to_have_text("task-2")


def test_a_recording_plays_in_a_sandbox_that_reaches_nothing(browser: Browser, url: str) -> None:
    with a_page(browser, "/api/runs") as page:
        open_trial(page, url).get_by_role("button", name="agent.cast").click()
        expect(page.locator("iframe.player")).to_have_attribute("sandbox", "allow-scripts")
        inside = page.frame_locator("iframe.player")
        inside.locator(".ap-player").click()
        expect(inside.locator(".ap-player")).to_be_visible()
        [player] = [one for one in page.frames if "/player" in one.url]
        player.wait_for_selector(".ap-term")
        assert player.evaluate("() => self.origin") == "null"
        asked = "() => fetch('/api/runs').then(() => 'reached', () => 'refused')"
        assert player.evaluate(asked) == "refused"
        up = "() => { try { return String(parent.document) } catch { return 'closed' } }"
        assert player.evaluate(up) == "closed"


def test_the_address_holds_filters_trial_and_file_and_back_takes_them_back(sized: Page, url: str) -> None:
    sized.goto(f"{url}/#/run/{RUN}")
    sized.get_by_role("link", name="Trials", exact=True).click()
    field(sized, "Agent").select_option("terminus:gpt-5")
    expect(sized.locator(".pager")).to_contain_text("that fit")
    sized.locator("tbody a.link").filter(has_text="task-1").click()
    drawer = sized.get_by_role("dialog")
    drawer.get_by_role("button", name="agent.log").click()
    expect(sized).to_have_url(re.compile(r"agent=terminus%3Agpt-5.*trial=[0-9a-f]{24}.*file=1"))
    deep = sized.url
    sized.go_back()
    expect(drawer).not_to_be_visible()
    expect(sized.locator(".pager")).to_contain_text("that fit")
    expect(field(sized, "Agent")).to_have_value("terminus:gpt-5")
    sized.go_back()
    expect(sized.locator(".tabs a[aria-current]")).to_have_text("Board")
    sized.go_forward()
    sized.go_forward()
    expect(drawer.locator(".log")).to_contain_text("red plain")
    expect(sized).to_have_url(deep)
    fresh = sized.context.new_page()
    fresh.goto(deep)
    expect(fresh.get_by_role("dialog").locator(".log")).to_contain_text("red plain")
    fresh.keyboard.press("Escape")
    expect(fresh).not_to_have_url(re.compile("trial="))
    expect(field(fresh, "Agent")).to_have_value("terminus:gpt-5")


def test_a_group_of_failures_is_one_click_from_its_trials(sized: Page, url: str) -> None:
    sized.goto(f"{url}/#/run/{RUN}/trials")
    groups = sized.get_by_role("region", name="Why trials failed").locator("tbody tr")
    expect(groups.first).to_contain_text("Killed after N s in PATH")
    groups.first.get_by_role("link").click()
    expect(sized.locator(".pager")).to_contain_text("1–7 of 7 that fit, of 9")
    expect(sized).to_have_url(re.compile("failure_mode=agent_timeout&kind=Killed"))
    expect(sized.locator(".chip")).to_have_count(2)
    sized.get_by_role("button", name="Without this message").click()
    expect(sized.locator(".pager")).to_contain_text("1–8 of 8 that fit, of 9")
    assert fits(sized)


def test_a_cell_of_the_matrix_opens_its_trials_by_keys(sized: Page, url: str) -> None:
    sized.goto(f"{url}/#/run/{RUN}/tasks?sort=task")
    box, cell = sized.locator(".matrix"), sized.locator("#matrix-cell")
    expect(box).to_have_attribute("data-cells", "9")
    box.focus()
    expect(cell).to_contain_text("other:gpt-5 on task-1: no trial yet")
    sized.keyboard.press("ArrowDown")
    sized.keyboard.press("ArrowRight")
    expect(cell).to_contain_text("terminus:gpt-5 on task-2: 0 of 1 passed")
    sized.keyboard.press("ArrowLeft")
    sized.keyboard.press("ArrowDown")
    sized.keyboard.press("Enter")
    expect(sized).to_have_url(re.compile(r"/trials\?agent=other%3Agpt-5&task=task-3"))
    expect(sized.locator(".pager")).to_contain_text("1–1 of 1 that fit, of 9")
    sized.go_back()
    expect(box).to_have_attribute("data-cells", "9")
    assert fits(sized)


def test_a_trial_and_the_matrix_lead_to_the_task_over_all_runs_and_back(sized: Page, url: str) -> None:
    heading, rows = sized.get_by_role("heading", level=1), sized.locator("main tbody tr")
    open_trial(sized, url).get_by_role("link", name="over all runs").click()
    expect(heading).to_have_text("Task task-1")
    expect(rows.nth(1)).to_contain_text("terminus:gpt-5")
    assert fits(sized)
    rows.nth(1).get_by_role("link").click()
    expect(sized.locator(".pager")).to_contain_text("1–1 of 1 that fit, of 9")
    sized.goto(f"{url}/#/run/{RUN}/tasks?sort=task")
    expect(sized.locator(".matrix")).to_have_attribute("data-cells", "9")
    sized.locator(".matrix").focus()
    sized.keyboard.press("ArrowDown")
    sized.locator("#matrix-cell").get_by_role("link", name="this task over all runs").click()
    expect(heading).to_have_text("Task task-2")
    sized.get_by_role("navigation").get_by_role("link", name="Ledgers").click()
    expect(heading).to_have_text("Ledgers")


def test_links_to_trials_open_in_a_tab_of_their_own(page: Page, url: str) -> None:
    page.goto(f"{url}/#/run/{RUN}/trials?sort=task")
    trials = page.get_by_role("region", name="Trials of this run").locator("tbody a.link")
    with page.context.expect_page() as opened:
        trials.filter(has_text="task-1").click(modifiers=["Control"])
    expect(opened.value.locator("#drawer-title")).to_have_text("task-1")
    opened.value.close()
    group = page.get_by_role("region", name="Why trials failed").locator("tbody a.link").first
    listed_in_a_tab(page, group, "1–7 of 7 that fit, of 9")
    expect(page.get_by_role("dialog")).not_to_be_visible()


def test_a_cell_of_the_matrix_is_a_link_that_opens_in_a_tab_of_its_own(page: Page, url: str) -> None:
    page.goto(f"{url}/#/run/{RUN}/tasks?sort=task")
    box, cell = page.locator(".matrix"), page.locator(".matrix a")
    expect(box).to_have_attribute("data-cells", "9")
    expect(cell).not_to_be_visible()  # the cell at hand has no trial yet
    box.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(cell).to_have_attribute("href", re.compile(r"/trials\?agent=other%3Agpt-5&task=task-3$"))
    listed_in_a_tab(page, cell, "1–1 of 1 that fit, of 9")
    place = cell.bounding_box()
    assert place
    page.mouse.move(place["x"] + 30, place["y"] - 10)  # the next agent, the task before
    expect(cell).to_have_attribute("href", re.compile("agent=terminus%3Agpt-5&task=task-2$"))
    cell.click()
    expect(page.locator(".pager")).to_contain_text("1–1 of 1 that fit, of 9")


def listed_in_a_tab(page: Page, link: Locator, shown: str) -> None:
    """Open a link to trials in a tab of its own."""
    with page.context.expect_page() as opened:
        link.click(button="middle")
    expect(opened.value.locator(".pager")).to_contain_text(shown)
    opened.value.close()


def test_an_old_link_to_a_part_of_a_run_as_of_a_time_keeps_the_part(page: Page, url: str) -> None:
    page.goto(f"{url}/#/run/{RUN}/trials?as_of={datetime.now(UTC).isoformat().replace('+00:00', 'Z')}")
    expect(page.get_by_role("status").filter(has_text="not live")).to_be_visible()
    page.get_by_role("link", name="The run as it stands now").click()
    expect(page.locator(".tabs a[aria-current]")).to_have_text("Trials")


DRAWN = """async (matrix) => {
  const { MatrixGrid } = await import("/static/js/shared.js");
  const grid = new MatrixGrid(null);
  document.getElementById("main").replaceChildren(grid.element);
  grid.update(matrix);
  grid.box.scrollTop = 5000;
  await new Promise(requestAnimationFrame);
  let cells = 0;
  const cell = grid.cell.bind(grid);
  grid.cell = (...of) => cell(...of, (cells += 1));
  grid.draw();
  return { cells, elements: grid.element.querySelectorAll("*").length, height: grid.canvas.height };
}"""


def test_of_sixty_agents_and_five_hundred_tasks_only_what_is_in_sight_is_drawn(page: Page, url: str) -> None:
    """How long a frame takes is a figure of `python -m benchmarks --only page`."""
    page.goto(url)
    result = page.evaluate(DRAWN, large_matrix())
    assert result["elements"] < 40
    assert result["height"] <= 900
    assert 0 < result["cells"] < 3_000


@pytest.mark.parametrize(
    ("judged", "ended", "mode", "awaited"),
    [(True, False, None, 1), (True, True, None, 0), (False, False, None, 0), (True, False, "crash", 0)],
)
def test_a_judges_score_is_awaited_only_where_it_is_expected(
    page: Page, url: str, stack: Settings, judged: bool, ended: bool, mode: str | None, awaited: int
) -> None:
    """No judge scores a crash."""
    run = f"judge-{judged}-{ended}-{mode}"
    told = [a_plan(run_id=run, judged=judged, tasks=2, attempts=1)]
    told.append(a_trial(run_id=run, resolved=False, failure_mode=mode))
    end = an_end(run_id=run, finished_at="2026-01-02T03:04:05Z")
    told += [end | {"scores_pending": False}] * ended  # without it a declared judge may still come (R13)
    publish(stack, told)
    page.goto(f"{url}/#/run/{run}/trials")
    page.get_by_role("region", name="Trials of this run").locator("tbody a.link").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("The harness says that the task is not resolved.")
    expect(drawer.get_by_text("The judge's score is still awaited.")).to_have_count(awaited)


def test_an_agents_name_leads_to_its_trials_and_a_view_is_copied(browser: Browser, url: str) -> None:
    with a_copier(browser) as page:
        page.goto(f"{url}/#/run/{RUN}")
        page.get_by_role("link", name="other:gpt-5").click()
        expect(page.locator(".pager")).to_contain_text("1–4 of 4 that fit, of 9")
        page.get_by_role("button", name="Copy a link to this view").click()
        expect(page.locator("#copied")).to_have_text("copied")
        assert copied(page) == page.url
        for ending in ("CSV", "Parquet"):
            with page.expect_download() as kept:
                page.get_by_role("link", name=ending).click()
            assert kept.value.suggested_filename == f"{RUN}-trials.{ending.lower()}"
