"""The API reads a run as one: what it answers belongs together, whatever is being written meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest

from streamer.operate.local.processes import free_port
from tests.fuzz.live.seeds import a_seed
from tests.house.repository import ROOT
from tests.operate.stack import descendants, runs
from tests.support.cli import COMMAND, streamer
from tests.support.events import a_trial
from tests.support.servers import RedisServer
from tests.support.worker_process import wait_for
from tests.web import screenshots
from tests.web.browsing import SCREENSHOTS, WebProcess, a_browser, a_stack
from tests.web.feeding import Feed
from tests.web.serving import Serving

RUN, AGENTS, STEPS = "run-1", 6, 300
MISSING = 404


class Reading(threading.Thread):
    """Asks for the snapshot again and again; `torn` has what did not sum up."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self._serving = serving
        self.ended = threading.Event()
        self.answers, self.torn = 0, list[str]()

    def run(self) -> None:
        while not self.ended.is_set():
            answer = self._serving.get(f"/api/runs/{RUN}/snapshot")
            if answer.status == MISSING:  # Redis was just emptied
                continue
            result = answer.json()
            self.answers += 1
            done, parts = result["run"]["progress"]["done"], [agent["trials"] for agent in result["agents"]]
            if sum(parts) != done:
                self.torn.append(f"{done} is not the sum of {parts}")


async def test_a_snapshot_is_never_torn_while_redis_is_written_and_emptied(
    feed: Feed, serving: Serving, redis_server: RedisServer
) -> None:
    reading = Reading(serving)
    reading.start()
    for number in range(STEPS):
        await feed.take([a_trial(task_id=f"t{number}", agent=f"agent {number % AGENTS}")])
        if number % 50 == 25:
            redis_server.flush()
    reading.ended.set()
    reading.join(60)
    assert not reading.is_alive()
    assert reading.torn == []
    assert reading.answers > 10


# -----------------------------------------------------------------------------
# Screenshots of every view, light, dark and on a phone: artefacts of CI, in build/screenshots.


BATCH = 20
"""Events between two looks of the worker: enough steps for a chart, and not minutes of waiting."""

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.in_turn(3)
def test_every_view_can_be_pictured(tmp_path: Path) -> None:
    """Light, dark or on a phone, in turn; `make screenshots` takes all."""
    names = [*screenshots.VIEWS, "trial"]
    looks = [list(screenshots.LOOKS)[(a_seed() + at) % len(screenshots.LOOKS)] for at in range(len(names))]
    expected = [f"{name}-{look}" for name, look in zip(names, looks, strict=True)]
    with a_browser() as browser, a_stack(tmp_path) as settings, WebProcess(settings, tmp_path) as web:
        screenshots.feed(settings, BATCH)
        screenshots.feed_sets(settings)
        written = screenshots.take(browser, web.url, ROOT / SCREENSHOTS, expected)
    assert {path.stem for path in written} == set(expected)
    for path in written:
        content = path.read_bytes()
        assert content.startswith(PNG)
        assert len(content) > 5_000


def test_the_documents_show_screenshots_that_a_command_makes() -> None:
    shown = (ROOT / "docs" / "web.md").read_text("utf-8")
    for name in screenshots.FOR_DOCS:
        assert (ROOT / "docs" / "screenshots" / f"{name}.png").is_file(), "make screenshots"
        assert f"screenshots/{name}.png" in shown


# -----------------------------------------------------------------------------
# Which servers start: one that others can reach has tokens, long ones, and another for each use.


TOKEN = "correct-horse-battery"


BOTH = {"STREAMER_WEB_TOKEN": TOKEN, "STREAMER_WEB_PUBLISH_TOKEN": TOKEN, "STREAMER_DEBUG": "1"}


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--host", "0.0.0.0"], {}, b"--token"),
        (["--host", "0.0.0.0", "--token", "short"], {}, b"--token is too short: it needs 16"),
        (["--publish-token", "short"], {}, b"--publish-token is too short: it needs 16"),
        (["--host", "0.0.0.0", "--publish-token", TOKEN], {}, b"--token"),
        ([], BOTH, b"are the same"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_long_token_for_each_use(
    options: list[str], environment: dict[str, str], said: bytes, tmp_path: Path
) -> None:
    done = streamer("serve", *options, cwd=tmp_path, environment=environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert TOKEN.encode() not in done.stderr + done.stdout


# -----------------------------------------------------------------------------
# The page inside `streamer up`.


STOP_SECONDS = 40


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/runs", timeout=2) as answer:
            return bool(answer.read() == b"[]")
    except OSError:
        return False


def page_of(pid: int) -> int:
    """Process id of the page below a process, 0 if there is none."""
    result = [child for child, command in descendants(pid).items() if "-m streamer.web" in command]
    return result[0] if result else 0


@pytest.mark.slow
def test_up_serves_the_page_starts_it_again_and_ends_it(tmp_path: Path) -> None:
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMER_")}
    environment = clean | {"STREAMER_DISCOVERY": str(tmp_path / "running.json")}
    log = tmp_path / "up.log"
    command = [*COMMAND, "up", "--ephemeral", "--web-port", str(port)]
    with log.open("wb") as out:
        up = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        wait_for(lambda: answers(port), "the page answers")
        said = f"Web page   http://127.0.0.1:{port}/"
        wait_for(lambda: said in log.read_text(), "up says where the page is")
        first = page_of(up.pid)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: page_of(up.pid) not in (0, first), "another page is started")
        wait_for(lambda: answers(port), "the other page answers")
        below = descendants(up.pid)
        up.send_signal(signal.SIGINT)
        assert up.wait(STOP_SECONDS) == 0
        wait_for(lambda: not [pid for pid in below if runs(pid)], "everything has ended")
    finally:
        if up.poll() is None:
            up.kill()
            up.wait()
