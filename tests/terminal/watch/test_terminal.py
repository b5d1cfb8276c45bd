"""`streamer watch` in a real terminal, on a stack that `streamer up` runs, fed by `simulate` and `tail`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.cli import COMMAND, streamer
from tests.support.layouts import simulate_run
from tests.support.worker_process import wait_for
from tests.terminal.test_tail import up
from tests.terminal.watch.driving import LARGE, SMALL
from tests.terminal.watch.terminal import Terminal, tmux

TRIALS = 12
COLOUR = re.compile(r"\x1b\[[0-9;:]*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;:]*m")


@pytest.fixture(scope="module")
def here() -> Iterator[Path]:
    """A directory with a running stack, and a short path."""
    tmux()
    with tempfile.TemporaryDirectory(prefix="watch-") as folder, up(Path(folder)):
        yield Path(folder)


def places(here: Path) -> dict[str, str]:
    return {"STREAMER_DISCOVERY": str(here / "running.json"), "STREAMER_DATA_DIR": str(here / "data")}


def benchmark(here: Path, environment: dict[str, str], layout: str, run: str) -> None:
    out = here / run
    simulate_run(layout, out, TRIALS, seed=1, start=datetime.now(UTC))
    done = streamer("tail", "--once", out, environment=environment)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_benchmark_is_watched_from_an_empty_list_to_its_end(here: Path) -> None:
    environment = places(here)
    with Terminal(here, "watch", environment=environment, size=SMALL) as terminal:
        terminal.shows("no runs yet: waiting", "q Quit")
        benchmark(here, environment, "fc-eval", "nightly")
        terminal.shows("nightly", "1 run ", "1 worker", "complete")
        terminal.press("Enter")
        small = terminal.shows("nightly", "pass rate▼", "speedup", "newest trials", "rejections (0)", "Quit")
        assert len(small.rstrip("\n").splitlines()) == SMALL[1]
        terminal.press("s")
        terminal.shows("trials▼")
        terminal.resize(*LARGE)
        large = terminal.shows("mean cost", "pass@1", "duration", "newest trials", "q Quit")
        assert len(large.rstrip("\n").splitlines()) == LARGE[1]
        terminal.press("Escape")
        terminal.shows("1 run ")
        terminal.press("q")
        wait_for(lambda: terminal.exit_code == 0, "q ends it with exit code 0")


@pytest.fixture(scope="module")
def tiers(here: Path) -> str:
    benchmark(here, places(here), "scylla", "tiers")
    return "tiers"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("given", [{"NO_COLOR": "1"}, {"NO_COLOR": ""}, {}])
@pytest.mark.in_turn(3)
def test_no_color_means_no_colour(here: Path, tiers: str, given: dict[str, str]) -> None:
    with Terminal(here, "watch", tiers, environment=places(here) | given, size=SMALL) as terminal:
        terminal.shows("tiers (", "uplift", "passed", "rejections (0)")
        assert bool(COLOUR.search(terminal.escapes)) is (given != {"NO_COLOR": "1"})
        terminal.press("C-c")
        wait_for(lambda: terminal.exit_code == 0, "Ctrl-C ends it", 60)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_live_shows_the_screen_of_the_run_that_it_follows_and_q_ends_it(here: Path, tiers: str) -> None:
    environment = places(here)
    with Terminal(here, "live", str(here / "later"), environment=environment, size=SMALL) as terminal:
        terminal.shows("runs", "q Quit")
        simulate_run("fc-eval", here / "later", TRIALS, seed=2, start=datetime(2026, 1, 1, tzinfo=UTC))
        terminal.shows("later", "agents (", "newest trials", "q Quit")
        terminal.press("Escape")
        assert tiers not in terminal.shows("1 run ", "q Quit")
        terminal.press("q")
        wait_for(lambda: terminal.exit_code == 0, "q ends it with exit code 0", 60)
        terminal.shows("all acknowledged")


FAILING = """
from streamer.terminal.watch import RunsScreen
def draw(self):
    secret = "s3" + "cr3t"
    raise TypeError("of the test")
RunsScreen.draw = draw
from streamer.terminal import main; main()
"""


@pytest.mark.parametrize(
    ("redis", "program", "code", "said"),
    [
        ("https://somebody:s3cr3t@host", COMMAND, 2, "The Redis URL is not usable"),
        (
            "redis://127.0.0.1:1",
            (sys.executable, "-c", FAILING),
            1,
            "streamer: internal error, TypeError: of the test. Please report it",
        ),
    ],
)
def test_an_error_is_one_line_in_a_terminal_without_passwords_or_local_variables(
    redis: str, program: Sequence[str], code: int, said: str
) -> None:
    tmux()
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        given = {"STREAMER_REDIS": redis, "STREAMER_DISCOVERY": f"{folder}/none.json"}
        with Terminal(Path(folder), "watch", environment=given, size=SMALL, program=program) as terminal:
            wait_for(lambda: terminal.exit_code == code, "it ends")
            screen = " ".join(terminal.screen.split())
    assert (screen.startswith("streamer: "), said in screen, "s3cr3t" in screen) == (True, True, False)
