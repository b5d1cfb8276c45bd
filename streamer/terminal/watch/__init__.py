"""Live boards of all runs and of one run in a terminal, read-only.

State comes from Redis as it changes; the newest trials and rejections come from the log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static

from streamer.client.queries import ReaderError, RunSnapshot, UnknownRun, WorkerStatus
from streamer.client.readers import AsyncStateReader, StateUpdate
from streamer.schemas.events import PRIMARY_METRIC
from streamer.schemas.summaries import AgentModelSummary, RunSummary, state_of
from streamer.settings import Settings
from streamer.storage.redis import address
from streamer.terminal.boards import Sort, board_columns, first_sort, heading, rejection_columns
from streamer.terminal.watch.following import (
    OneRun,
    Rejections,
    Runs,
    Tell,
    feel_pulse,
    follow_newest,
    follow_outlook,
    follow_rejections,
    follow_state,
    noting,
)
from streamer.terminal.watch.table import (
    BoardTable,
    budget_line,
    cost_line,
    end_line,
    outcome_line,
    progress_line,
    title_of,
)
from streamer.text import counted, visible
from streamer.views.cells import event_time_note
from streamer.views.columns import AGENTS, RUNNING, RUNS, TIERS, TRIALS, shows_grades, with_named
from streamer.views.decide.outlook import Outlook, eta_of
from streamer.views.models import AgentNow, ListedRun, TrialRow

# -----------------------------------------------------------------------------
# The meaning of keys and columns.


TEXT = """\
Enter  open the run under the cursor   Esc  back, or show everything again
s      sort by the next column         r    turn the order around
/      filter                          Tab  next table; arrow keys scroll it
g      grades of a run without tiers and judge
?      this page                       q    quit

State  complete: all planned trials are in; finished: the harness ended it;
       running; silent for 10 minutes: stalled, or unfinished without a plan
*      grade: planned trials are missing; pass@k: some tasks lack attempts
?      grade: trials have no score of the judge
[ ] ( ) the final pass rate lies there, for a declared shuffle; for any order
–      not known; columns without values, or that do not fit, are hidden

pass rate  share of successes (tests, else verdict)
accuracy   share of trials that the harness calls resolved
all agents accuracy of all of them together; pass@k is by agent or tier
w/o infra  accuracy without infrastructure failures, and how many those are
composite  median of the mean of pass rate and judge's score
rests on   what gives the grade: composite, or without a judge pass rate
cost/pass  known cost per pass in USD; inf: no pass
speedup    FormulaCode's mean over trials; advantage: over the human solution
uplift     what the grade rests on over the baseline tier's, minus 1
forecast   of end and cost, if what is missing is like the trials so far
In scripts: streamer query run RUN --json, streamer subscribe run
"""


class HelpScreen(ModalScreen[None]):
    """Help on top of the screen that opened it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "dismiss", "Back", key_display="Esc")
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(TEXT, markup=False)


# -----------------------------------------------------------------------------
# A command that works while the screens are shown.


@dataclass(frozen=True, slots=True)
class Session:
    """A command that shows the screens while it works.

    Attributes:
        is_over: whether the work is over, which ends the screens.
        messages: the lines for the user since the last call.
        opens: the run whose screen to open.
        line: text below the title of every screen; "" for no line.
    """

    is_over: Callable[[], bool]
    messages: Callable[[], Sequence[str]]
    shows: Callable[[str], bool]
    opens: Callable[[], str | None]
    line: Callable[[], str] = str


# -----------------------------------------------------------------------------
# The base of both screens: following while they are visible, drawing at a human pace, sorting, filtering.


PACE_SECONDS = 0.2

AGES_SECONDS = 5.0
"""Seconds between two drawings of ages when nothing changes; no request is needed."""


class LiveScreen(Screen[None]):
    """A screen that follows a run or all runs while it is on top.

    `problems` holds the present problems by place.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]
    SORTED = "#main"
    """The table that `s` and `r` sort."""

    def __init__(self, watching: WatchApp) -> None:
        super().__init__()
        self.watching = watching
        self.problems: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._drawing = False

    @property
    def now(self) -> datetime:
        return self.watching.now()

    def draw(self) -> None:
        raise NotImplementedError

    def works(self) -> list[Coroutine[Any, Any, None]]:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one("#filter", Input).display = False
        self.set_interval(AGES_SECONDS, self.changed)
        self.draw()

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._begin)
        self.changed()

    def on_screen_suspend(self) -> None:
        for task in self._tasks:
            task.cancel()

    def on_resize(self) -> None:
        """Draw again: the lines above the tables depend on the width."""
        self.changed()

    def told(self, where: str) -> Tell:
        """A `Tell` that notes problems under this name."""
        return noting(self.problems, where, self.changed)

    def changed(self) -> None:
        if not self._drawing and self.is_attached:
            self._drawing = True
            self.set_timer(PACE_SECONDS, self._draw_now)

    def _begin(self) -> None:
        if self.is_current:
            self._tasks = [self.watching.spawn(work, self.told("here")) for work in self.works()]

    def _draw_now(self) -> None:
        self._drawing = False
        if self.is_current:
            with self.app.batch_update():
                self.draw()

    def put(self, selector: str, text: str, style: str = "") -> None:
        """Set the text of a line; an empty one takes no room. Text from agents must be escaped already."""
        line = self.query_one(selector, Static)
        line.update(Text(text, style))
        line.display = bool(text)

    def put_problems(self) -> None:
        """Show the present problem, if any; then the content below may be old, and turns grey."""
        self.put("#session", visible(self.watching.session_line))
        problems = dict.fromkeys([*self.watching.problems.values(), *self.problems.values()])
        self.put("#problem", visible(" ".join(problems)) if problems else "", "bold red")
        self.set_class(bool(problems), "-stale")

    def fits_filter(self, *texts: str | None) -> bool:
        """Whether one of the texts matches the filter."""
        sought = self.query_one("#filter", Input).value.casefold()
        return any(sought in text.casefold() for text in texts if text)

    def action_sort(self) -> None:
        self.query_one(self.SORTED, BoardTable).sort_next()

    def action_reverse(self) -> None:
        self.query_one(self.SORTED, BoardTable).reverse()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    def close_filter(self) -> bool:
        """Drop the filter; False if there was none."""
        field = self.query_one("#filter", Input)
        if not field.display:
            return False
        field.value = ""
        field.display = False
        self.query_one(self.SORTED, BoardTable).focus()
        self.changed()
        return True

    def on_input_changed(self) -> None:
        self.changed()

    def on_input_submitted(self) -> None:
        self.query_one(self.SORTED, BoardTable).focus()


# -----------------------------------------------------------------------------
# One run: progress, agents, tiers, newest trials, rejections.


MOST_REJECTIONS = 50
HIGH = 30
"""Terminal height from which a line compares the first two agents."""

RUN_LINES = ("missing", "clock", "progress", "outcome", "end", "cost", "budget")
"""Lines about the run, from top to bottom; an empty one is not shown."""

MOST_RUNNING = 5
"""The most running trials shown, the longest first."""


class RunScreen(LiveScreen):
    """One run, which need not exist yet."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", key_display="Esc"),
        Binding("g", "grades", "Grades", show=False),
    ]
    grades = False
    SORTED = "#agents"

    def __init__(self, watching: WatchApp, run_id: str) -> None:
        super().__init__(watching)
        self.run_id = run_id
        self.model = OneRun()
        self._unknown = ""
        self._trials: list[TrialRow] | None = None
        self._log_problem: str | None = None
        self._sorted = False

    def compose(self) -> ComposeResult:
        yield from (Static(id=name, markup=False) for name in ("title", "session", "problem", *RUN_LINES))
        yield BoardTable("agents", sort=Sort(PRIMARY_METRIC, True))
        yield Static(id="said", markup=False)
        yield BoardTable("running")
        with Container(id="middle"):
            yield BoardTable("tiers")
            yield BoardTable("trials")
        yield BoardTable("rejections")
        yield Input(id="filter", placeholder="filter agents and trials", compact=True)
        yield Footer(show_command_palette=False)

    def works(self) -> list[Coroutine[Any, Any, None]]:
        reader = self.watching.reader
        return [
            self._ask(),
            follow_state(reader, self.run_id, self._take, self.told("state")),
            follow_outlook(reader, self.run_id, self.watching.now, self._take_outlook),
            follow_newest(self.watching.settings, self.run_id, self._take_trials, self._tell_log),
        ]

    def draw(self) -> None:
        run = self.model.run
        if run is None:
            self._draw_missing()
        else:
            self._draw_run(run)
        places = self.model.outlook.places if self.model.outlook else {}
        shown = [a for a in self.model.agents.values() if self.fits_filter(a.agent_model)]
        shown.sort(key=lambda agent: agent.agent_model)
        over = run is not None and run.status is not None
        graded = self.grades or shows_grades(run, shown)
        agents = [
            AgentNow.of(agent, places.get(agent.agent_model), over=over, graded=graded) for agent in shown
        ]
        self._sort_first(agents)
        self.query_one("#agents", BoardTable).show_rows(
            board_columns(with_named(AGENTS, agents), self.now, heading(AGENTS, len(agents))),
            agents,
            lambda agent: agent.agent_model,
            lambda agent: agent.baseline,
        )
        tiers = sorted(self.model.tiers.values(), key=lambda tier: tier.tier)
        tiers = [tier.model_copy(update={"over": over}) for tier in tiers]
        self.query_one("#tiers").display = bool(tiers)
        columns = board_columns(with_named(TIERS, tiers), self.now, heading(TIERS, len(tiers)))
        self.query_one("#tiers", BoardTable).show_rows(columns, tiers, lambda tier: tier.tier)
        self._draw_outlook()
        self._draw_trials()
        self._draw_rejections()
        self.put_problems()

    def action_grades(self) -> None:
        self.grades = not self.grades
        self.draw()

    def action_back(self) -> None:
        """Drop the filter, or go back to the list of runs."""
        if not self.close_filter():
            self.app.pop_screen()

    def _draw_run(self, run: RunSummary) -> None:
        pace = eta_of(run, self.model.since, list(self.model.agents.values()), self.model.in_flight)
        width = self.size.width - 2
        self._put_lines(
            title_of(run, state_of(run, self.now)),
            clock=event_time_note(run.last_event_at, self.now) or "",
            progress=progress_line(run, pace, width),
            outcome=outcome_line(run, width),
            end=end_line(run, pace, self.now),
            cost=cost_line(run, pace),
            budget=budget_line(run, pace, self.watching.budget_usd, self.now),
        )

    def _draw_missing(self) -> None:
        if self.model.deleted:
            said = "The run was deleted. Waiting in case it returns."
        elif self._unknown:
            said = f"{visible(self._unknown)} Waiting for it."
        else:
            said = "Looking for the run."
        self._put_lines(visible(self.run_id), missing=said)

    def _put_lines(self, title: str, **lines: str) -> None:
        self.put("#title", title)
        for name in RUN_LINES:
            self.put(f"#{name}", lines.get(name, ""))

    def _draw_outlook(self) -> None:
        outlook = self.model.outlook
        has_room = outlook is not None and self.size.height >= HIGH
        self.put("#said", visible("; ".join(outlook.first_two)) if outlook and has_room else "")
        running = outlook.running[:MOST_RUNNING] if outlook else []
        table = self.query_one("#running", BoardTable)
        table.set_class(not running, "-none")
        columns = board_columns(RUNNING, self.now, heading(RUNNING, outlook.in_flight if outlook else 0))
        table.show_rows(
            columns, running, lambda one: str((one.agent_model, one.task, one.attempt, one.tier, one.subtest))
        )

    def _draw_trials(self) -> None:
        trials = [t for t in self._trials or () if self.fits_filter(t.task_id, t.agent_model, t.failure_mode)]
        head = "newest trials"
        if self._log_problem:
            head = f"newest trials: {visible(self._log_problem)}"
        elif self._trials is None:
            head = "newest trials: reading the log"
        self.query_one("#trials", BoardTable).show_rows(
            board_columns(TRIALS, self.now, head), trials, lambda trial: trial.id
        )

    def _draw_rejections(self) -> None:
        rejections = self.watching.rejections
        newest = rejections.newest(self.run_id)[:MOST_REJECTIONS]
        head = f"rejections ({rejections.counts[self.run_id]:,})"
        if rejections.problem:
            head = f"rejections: {visible(rejections.problem)}"
        columns = rejection_columns(head, rejections.counts[None], self.now)
        self.query_one("#rejections", BoardTable).show_rows(
            columns, newest, lambda rejected: str(id(rejected))
        )

    def _sort_first(self, agents: Sequence[AgentModelSummary]) -> None:
        table = self.query_one("#agents", BoardTable)
        if not self._sorted and table.sorting == Sort(PRIMARY_METRIC, True) and agents and self.model.run:
            table.sorting = first_sort(self.model.run.primary_metric, agents)

    def action_sort(self) -> None:
        """Sort by the next column; the plan's order no longer applies."""
        self._sorted = True
        super().action_sort()

    async def _ask(self) -> None:
        try:
            await self.watching.reader.run(self.run_id)
        except UnknownRun as error:
            self._unknown = str(error)
            self.changed()
        except ReaderError:
            return  # told by those who follow

    def _take(self, update: StateUpdate) -> None:
        self.model.take(update)
        self.changed()

    def _take_outlook(self, snapshot: RunSnapshot, outlook: Outlook) -> None:
        self.model.in_flight, self.model.outlook = snapshot.in_flight, outlook
        self.changed()

    def _take_trials(self, trials: list[TrialRow]) -> None:
        self._trials = trials
        self.changed()

    def _tell_log(self, problem: str | None) -> None:
        self._log_problem = problem
        self.changed()


# -----------------------------------------------------------------------------
# The first screen: all runs.


MOST_RUNS = 500
"""The most runs listed; a filter finds the others."""


class RunsTable(BoardTable):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]


class RunsScreen(LiveScreen):
    """The runs, latest event first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", show=False)]

    def __init__(self, watching: WatchApp) -> None:
        super().__init__(watching)
        self.model = Runs()
        self._filled = False

    def compose(self) -> ComposeResult:
        yield from (Static(id=name, markup=False) for name in ("title", "session", "problem"))
        yield RunsTable("main", sort=Sort("last", True), opens=True)
        yield Static(id="note", markup=False)
        yield Input(id="filter", placeholder="filter runs by name or benchmark", compact=True)
        yield Footer(show_command_palette=False)

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._fill(), follow_state(self.watching.reader, None, self._take, self.told("state"))]

    def draw(self) -> None:
        now = self.now
        runs = [run for run in self.model.runs.values() if self.watching.shows(run.run_id)]
        shown = [run for run in runs if self.fits_filter(run.run_id, run.display_name, run.benchmark)]
        shown.sort(key=lambda run: (run.last_event_at is not None, run.last_event_at), reverse=True)
        leaders = self.model.leaders
        lines = [ListedRun.of(run, now).led_by(leaders.get(run.run_id)) for run in shown[:MOST_RUNS]]
        self.query_one("#main", BoardTable).show_rows(board_columns(RUNS, now), lines, lambda run: run.run_id)
        self.put("#title", " · ".join([self.watching.where, self._count(len(runs)), *self.watching.crew()]))
        self.put("#note", self._note(len(shown)))
        self.put_problems()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value is not None:
            self.app.push_screen(RunScreen(self.watching, event.row_key.value))

    def action_back(self) -> None:
        self.close_filter()

    async def _fill(self) -> None:
        """Read the runs alone first, which is faster than reading everything about them."""
        before = dict(self.model.runs)
        try:
            runs = await self.watching.reader.runs()
            self.model.fill(runs, await self.watching.reader.leaders(runs), before)
        except ReaderError:
            return  # told by those who follow
        self._filled = True
        self.changed()

    def _take(self, update: StateUpdate) -> None:
        self.model.take(update)
        if update.kind == "run":
            self.changed()

    def _count(self, count: int) -> str:
        if not count:
            return "no runs yet: waiting" if self._filled else "looking for runs"
        return counted(count, "run")

    def _note(self, matching: int) -> str:
        parts = []
        if matching > MOST_RUNS:
            parts.append(f"{counted(matching - MOST_RUNS, 'older run')} not listed: use / to find")
        rejections = self.watching.rejections
        if rejections.problem:
            parts.append(f"rejections unknown: {rejections.problem}")
        elif count := rejections.counts.total():
            parts.append(f"{counted(count, 'rejection')} in the log (streamer rejections list)")
        return visible(" · ".join(parts)) if parts else ""


# -----------------------------------------------------------------------------
# The look of the screens: sizes, colours, and what is hidden in a small terminal.


CSS = """\
Screen { layout: vertical; }
#title { text-style: bold; }
#title, #session, #problem, #missing, #clock, #progress, #outcome, #end, #cost, #budget, #said, #note {
    height: auto; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
}
#problem, #missing { text-wrap: wrap; max-height: 6; }
#progress { color: $success; }
#session { color: $accent; }
#note, #said { color: $text-muted; }
#filter { dock: bottom; margin-bottom: 1; }

BoardTable { padding: 0 0 0 1; overflow-x: hidden; scrollbar-size-vertical: 1; background: $background; }
BoardTable > .datatable--header { text-style: bold underline; background: $background; color: $foreground; }
BoardTable:focus > .datatable--header { background: $background; }
BoardTable > .datatable--cursor { text-style: none; }
BoardTable:focus > .datatable--cursor { text-style: bold; }
.-plain BoardTable:focus > .datatable--cursor { text-style: bold reverse; }

.-stale BoardTable, .-stale #progress, .-stale #outcome, .-stale #end, .-stale #cost, .-stale #budget {
    text-opacity: 55%;
}

#main { height: 1fr; }
#agents { height: auto; max-height: 40%; }
#running { display: none; height: auto; max-height: 7; }
.-high #running { display: block; }
.-high #running.-none { display: none; }
#middle { height: 1fr; }
#tiers { height: auto; max-height: 70%; }
#trials { height: 1fr; min-height: 2; }
#rejections { height: auto; max-height: 2; }
.-high #rejections { max-height: 8; }
.-high BoardTable { margin-top: 1; }
.-wide #middle { layout: horizontal; }
.-wide #tiers { width: 2fr; max-height: 100%; }
.-wide #trials { width: 3fr; height: 100%; }

HelpScreen { align: center middle; background: $background; }
#help {
    width: 100%; max-width: 82; height: auto; max-height: 100%; padding: 0 1; scrollbar-size-vertical: 1;
}
"""


# -----------------------------------------------------------------------------
# The application: the shared parts of both screens, and their look.


Clock = Callable[[], datetime]

SESSION_SECONDS = 0.2
"""Seconds between two checks of the session."""

NOTE_SECONDS = 10.0
"""Seconds that a message of the session stays on the screen."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class WatchApp(App[None]):
    """Boards in a terminal.

    Args:
        session: the command whose work is shown; None: only view.

    Attributes:
        problems: present problems of all screens, by place.
        session_line: lasting text of the command that shows the screens.
        interrupted: whether Ctrl-C ended the application.
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
        self.session_line = ""
        self._heartbeats: list[WorkerStatus] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.set_class(plain, "-plain")

    @property
    def where(self) -> str:
        """The deployment of the runs; never the URL, which may contain a password."""
        parts = ["streamer", address(self.settings.redis)]
        return visible(" · ".join([*parts, self.settings.namespace] if self.settings.namespace else parts))

    def shows(self, run_id: str) -> bool:
        """Whether the list shows this run: all runs, or the session's own."""
        return self._session is None or self._session.shows(run_id)

    def action_interrupt(self) -> None:
        """End like other commands at Ctrl-C."""
        self.interrupted = True
        self.exit()

    def crew(self) -> list[str]:
        """The number of running workers, as a list of at most one text."""
        if self._heartbeats is None:
            return []
        live = sum(not worker.stale() for worker in self._heartbeats)
        return [counted(live, "worker") if live else "no worker is running"]

    def on_mount(self) -> None:
        if not self.is_headless:  # so that the terminal is restored
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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.reader.close()

    def _handle_exception(self, error: Exception) -> None:
        """End, and leave the report to the caller: Textual would print local variables, perhaps passwords."""
        if self.is_headless:
            super()._handle_exception(error)
            return
        self.failure = self.failure or error
        self.exit(return_code=1)

    def spawn(self, work: Coroutine[Any, Any, None], tell: Tell) -> asyncio.Task[None]:
        """Run the work until cancelled; an unexpected error is reported and ends only this work."""
        task = asyncio.create_task(_kept(work, tell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # the task may be cancelled before its first step
        return task

    def _follow_session(self) -> None:
        """End with the session; show its messages, and its run as soon as there is one."""
        assert self._session is not None
        if self._session.is_over():
            self.exit()
            return
        for line in self._session.messages():
            self.notify(visible(line), markup=False, timeout=NOTE_SECONDS)
        if (line := self._session.line()) != self.session_line:
            self.session_line = line
            self._changed()
        if self._run_id is None and (opened := self._session.opens()) is not None:
            self._run_id = opened
            self.push_screen(RunScreen(self, opened))

    def _begin_log(self) -> None:
        work = follow_rejections(self.settings, self.rejections, self._tell_rejections)
        self.spawn(work, self._told("here"))

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
        logging.getLogger("streamer.watch").exception("The view stopped at this error")
        tell(f"internal error, {type(error).__name__}: {error}. Please report it")


def run_watch(
    settings: Settings, run_id: str | None, session: Session | None = None, budget_usd: float | None = None
) -> bool:
    """Show the boards until the user quits or the session is over; True if Ctrl-C ended them.

    The terminal is restored even if our own mistake raises an exception.
    """
    logging.getLogger("streamer").addHandler(logging.NullHandler())  # a log line would garble the screen
    app = WatchApp(settings, run_id, session=session, budget_usd=budget_usd)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        app.run()
    finally:  # the application's event loop has reset them to the defaults
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if app.failure is not None:
        raise app.failure
    return app.interrupted
