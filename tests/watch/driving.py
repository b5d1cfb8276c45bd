"""The application without a terminal: what stands on its screen, and its keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from textual.pilot import Pilot

from streamer.settings import Settings
from streamer.watch.app import WatchApp
from streamer.watch.context import Session
from tests.support.eventually import eventually

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LOOK_SECONDS = 60.0
SMALL, LARGE = (80, 24), (200, 50)


class Driver:
    """One running application."""

    def __init__(self, app: WatchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        """What stands on the screen, without what stands at the ends of lines."""
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """The same, line by line."""
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    def line(self, start: str) -> str:
        """The first line that begins so, "" if there is none."""
        return next((line for line in self.lines if line.strip().startswith(start)), "")

    def order(self, *words: str) -> list[str]:
        """Those of the words that are on the screen, from the top."""
        found = {word: self.text.find(word) for word in words}
        return sorted((word for word in words if found[word] >= 0), key=found.__getitem__)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self._pilot.press(*keys)

    async def resize(self, width: int, height: int) -> None:
        """Another size of the terminal."""
        await self._pilot.resize_terminal(width, height)

    async def click(self, selector: str, x: int, y: int) -> None:
        """Click a place in a widget."""
        await self._pilot.click(selector, offset=(x, y))

    async def shows(self, *parts: str) -> None:
        """Wait until all of this stands on the screen, broken into lines or not."""

        def shown() -> bool:
            text = self.text
            words = " ".join(text.split())
            return all(part in text or part in words for part in parts)

        await self.until(shown, f"the screen shows {parts}")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; a failure shows the screen."""
        try:
            await eventually(condition, what, LOOK_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None


@asynccontextmanager
async def watching(
    settings: Settings,
    run_id: str | None = None,
    size: tuple[int, int] = SMALL,
    now: Callable[[], datetime] = lambda: NOW,
    session: Session | None = None,
) -> AsyncIterator[Driver]:
    """A running application."""
    app = WatchApp(settings, run_id, now, session)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Driver(app, pilot)
