"""The application: what both screens share, and how it looks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from streamer.client.async_reader import AsyncStateReader
from streamer.client.results import WorkerStatus
from streamer.redis.connect import address
from streamer.settings import Settings
from streamer.text import counted, visible
from streamer.watch.context import Session
from streamer.watch.following import Rejections, Tell, feel_pulse, noting
from streamer.watch.live_screen import LiveScreen
from streamer.watch.run_screen import RunScreen
from streamer.watch.runs_screen import RunsScreen
from streamer.watch.style import CSS

Clock = Callable[[], datetime]

SESSION_SECONDS = 0.2
"""How often the session is looked at."""

NOTE_SECONDS = 10.0
"""How long a message of the session stays on the screen."""


def utc_now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class WatchApp(App[None]):
    """Boards in a terminal.

    Args:
        settings: where Redis and the broker are.
        run_id: the run to open at once; None: the list of runs.
        now: the time.
        session: the command that works meanwhile; None: there is only a viewer.
        budget_usd: what a run should not cost more than, USD; None: no budget.

    Attributes:
        interrupted: it ended by Ctrl-C.
    """

    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (160, "-wide")]  # noqa: RUF012 - as in textual
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012
    CSS = CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        settings: Settings,
        run_id: str | None = None,
        now: Clock = utc_now,
        session: Session | None = None,
        budget_usd: float | None = None,
    ) -> None:
        if not os.environ.get("NO_COLOR", "x"):
            del os.environ["NO_COLOR"]  # an empty one means nothing (no-color.org)
        plain = "NO_COLOR" in os.environ
        super().__init__(ansi_color=plain or None)
        self.settings = settings
        self.reader = AsyncStateReader(settings)
        self.now = now
        self.budget_usd = budget_usd
        self.rejections = Rejections()
        self.problems: dict[str, str] = {}
        self.failure: Exception | None = None
        self.interrupted = False
        self._run_id = run_id
        self._session = session
        self._line = ""
        self._heartbeats: list[WorkerStatus] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.set_class(plain, "-plain")

    @property
    def where(self) -> str:
        """The deployment whose runs these are; never the URL, which may hold a password."""
        parts = ["streamer", address(self.settings.redis)]
        return visible(" · ".join([*parts, self.settings.namespace] if self.settings.namespace else parts))

    def shows(self, run_id: str) -> bool:
        """True if the list of runs shows this one: all runs, or the session's own."""
        return self._session is None or self._session.shows(run_id)

    def session_line(self) -> str:
        """What the session says all the time."""
        return self._line

    def action_interrupt(self) -> None:
        """End, as Ctrl-C ends other commands."""
        self.interrupted = True
        self.exit()

    def crew(self) -> list[str]:
        """How many workers there are."""
        if self._heartbeats is None:
            return []
        live = sum(not worker.stale(self.now()) for worker in self._heartbeats)
        return [counted(live, "worker") if live else "no worker is running"]

    def on_mount(self) -> None:
        """Begin."""
        if not self.is_headless:  # so that the terminal is left as it was found
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.action_interrupt)
        self.push_screen(RunsScreen(self))
        if self._run_id is not None:
            self.push_screen(RunScreen(self, self._run_id))
        self.spawn(feel_pulse(self.reader, self._take_workers, self._told("redis")), self._told("here"))
        self.call_after_refresh(self._begin_log)
        if self._session is not None:
            self.set_interval(SESSION_SECONDS, self._follow_session)

    async def on_unmount(self) -> None:
        """Let go of everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.reader.close()

    def _handle_exception(self, error: Exception) -> None:
        """End; the caller says why. Textual would print local variables, with passwords maybe."""
        if self.is_headless:
            super()._handle_exception(error)
            return
        self.failure = self.failure or error
        self.exit(return_code=1)

    def spawn(self, work: Coroutine[Any, Any, None], tell: Tell) -> asyncio.Task[None]:
        """Let it run until it is cancelled; a mistake of ours in it is reported and ends it alone."""
        task = asyncio.create_task(_kept(work, tell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _follow_session(self) -> None:
        """End with the session; show what it says, and its run as soon as there is one."""
        assert self._session is not None
        if self._session.is_over():
            self.exit()
            return
        for line in self._session.messages():
            self.notify(visible(line), markup=False, timeout=NOTE_SECONDS)
        if (line := self._session.line()) != self._line:
            self._line = line
            self._changed()
        if self._run_id is None and (opened := self._session.opens()) is not None:
            self._run_id = opened
            self.push_screen(RunScreen(self, opened))

    def _begin_log(self) -> None:
        self.spawn(self._follow_log(), self._told("here"))

    async def _follow_log(self) -> None:
        from streamer.watch.from_log import follow_rejections

        await follow_rejections(self.settings, self.rejections, self._tell_rejections)

    def _take_workers(self, workers: list[WorkerStatus]) -> None:
        self._heartbeats = workers
        self._changed()

    def _told(self, where: str) -> Tell:
        return noting(self.problems, where, self._changed)

    def _tell_rejections(self, problem: str | None) -> None:
        self.rejections.problem = problem
        self._changed()

    def _changed(self) -> None:
        if self.is_running and self.screen_stack and isinstance(self.screen, LiveScreen):
            self.screen.changed()


async def _kept(work: Coroutine[Any, Any, None], tell: Tell) -> None:
    try:
        await work
    except Exception as error:
        logging.getLogger("streamer.watch").exception("The view cannot go on with this")
        tell(f"internal error, {type(error).__name__}: {error}. Please report it")


def run_watch(
    settings: Settings,
    run_id: str | None,
    session: Session | None = None,
    budget_usd: float | None = None,
) -> bool:
    """Show it until the user quits, or the session is over; True if Ctrl-C ended it.

    Raises:
        BadRedisUrl: the settings do not say where Redis is.
        Exception: a mistake of ours; the terminal is as it was before.
    """
    logging.getLogger("streamer").addHandler(logging.NullHandler())  # a line of a log would tear the screen
    app = WatchApp(settings, run_id, session=session, budget_usd=budget_usd)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        app.run()
    finally:  # the event loop of the application has put the defaults in their place
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if app.failure is not None:
        raise app.failure
    return app.interrupted
