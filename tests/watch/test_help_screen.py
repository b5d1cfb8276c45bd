"""The help names the keys, and fits a small terminal."""

from __future__ import annotations

from streamer.settings import Settings
from tests.watch.driving import watching


async def test_the_help_names_the_keys_and_fits_a_small_terminal(settings: Settings) -> None:
    async with watching(settings) as driver:
        await driver.shows("no runs yet: waiting")
        await driver.press("question_mark")
        await driver.shows("open the run under the cursor", "quit", "uplift", "streamer subscribe run")
        await driver.press("escape")
        await driver.shows("no runs yet: waiting")
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running, "q quits")
