"""One run: progress, agents, tiers, newest trials, rejections."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Footer, Input, Static

from streamer.client.change_feed import StateUpdate
from streamer.client.lifecycle import state_of
from streamer.client.results import ReaderError, RunSnapshot, UnknownRun
from streamer.schemas.metrics import PRIMARY_METRIC
from streamer.schemas.summaries import AgentModelSummary, RunSummary
from streamer.text import visible
from streamer.views.boards import AGENTS, RUNNING, TIERS, TRIALS
from streamer.views.eta import eta_of
from streamer.views.formatting import event_time_note
from streamer.views.models import AgentNow, TrialRow
from streamer.views.named_columns import with_named
from streamer.views.outlook import Outlook
from streamer.watch.boards import board_columns, first_sort, heading, rejection_columns
from streamer.watch.columns import Sort
from streamer.watch.context import WatchContext
from streamer.watch.following import follow_outlook, follow_state
from streamer.watch.header import budget_line, cost_line, end_line, outcome_line, progress_line, title_of
from streamer.watch.live_screen import LiveScreen
from streamer.watch.model import OneRun
from streamer.watch.table import BoardTable

MOST_REJECTIONS = 50
HIGH = 30
"""Rows from which on there is a line about the first two agents."""

MOST_RUNNING = 5
"""Running trials that have room, the longest first."""


class RunScreen(LiveScreen):
    """One run.

    Args:
        watching: the application.
        run_id: which; it need not exist yet.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", key_display="Esc")]
    SORTED = "#agents"

    def __init__(self, watching: WatchContext, run_id: str) -> None:
        super().__init__(watching)
        self.run_id = run_id
        self.model = OneRun()
        self._unknown = ""
        self._trials: list[TrialRow] | None = None
        self._log_problem: str | None = None
        self._sorted = False

    def compose(self) -> ComposeResult:
        """From the run as a whole to single trials."""
        yield Static(id="title", markup=False)
        yield Static(id="session", markup=False)
        yield Static(id="problem", markup=False)
        yield Static(id="missing", markup=False)
        yield Static(id="clock", markup=False)
        yield Static(id="progress", markup=False)
        yield Static(id="outcome", markup=False)
        yield Static(id="end", markup=False)
        yield Static(id="cost", markup=False)
        yield Static(id="budget", markup=False)
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
        """Follow the run in Redis and in the log."""
        reader = self.watching.reader
        return [
            self._ask(),
            follow_state(reader, self.run_id, self._take, self.told("state")),
            follow_outlook(reader, self.run_id, self.watching.now, self._take_outlook),
            self._follow_log(),
        ]

    def draw(self) -> None:
        """Show how the run stands."""
        run = self.model.run
        if run is None:
            self._draw_missing()
        else:
            self._draw_run(run)
        places = self.model.outlook.places if self.model.outlook else {}
        wanted = [a for a in self.model.agents.values() if self.wanted(a.agent_model)]
        wanted.sort(key=lambda agent: agent.agent_model)
        agents = [AgentNow.of(agent, places.get(agent.agent_model)) for agent in wanted]
        self._sort_first(agents)
        self.query_one("#agents", BoardTable).show_rows(
            board_columns(with_named(AGENTS, agents), self.now, heading(AGENTS, len(agents))),
            agents,
            lambda agent: agent.agent_model,
            lambda agent: agent.baseline,
        )
        tiers = sorted(self.model.tiers.values(), key=lambda tier: tier.tier)
        self.query_one("#tiers").display = bool(tiers)
        columns = board_columns(with_named(TIERS, tiers), self.now, heading(TIERS, len(tiers)))
        self.query_one("#tiers", BoardTable).show_rows(columns, tiers, lambda tier: tier.tier)
        self._draw_outlook()
        self._draw_trials()
        self._draw_rejections()
        self.put_problems()

    def action_back(self) -> None:
        """Show everything again, or go back to the list of runs."""
        if not self.close_filter():
            self.app.pop_screen()

    def _draw_run(self, run: RunSummary) -> None:
        pace = eta_of(run, self.model.since, list(self.model.agents.values()), self.model.in_flight)
        self.put("#title", title_of(run, state_of(run, self.now)))
        self.put("#missing", "")
        self.put("#clock", event_time_note(run.last_event_at, self.now) or "")
        width = self.size.width - 2
        self.put("#progress", progress_line(run, pace, width))
        self.put("#outcome", outcome_line(run, width))
        self.put("#end", end_line(run, pace))
        self.put("#cost", cost_line(run, pace))
        self.put("#budget", budget_line(run, pace, self.watching.budget_usd))

    def _draw_missing(self) -> None:
        if self.model.deleted:
            said = "The run was deleted. Waiting, in case it comes again."
        elif self._unknown:
            said = f"{visible(self._unknown)} Waiting for it."
        else:
            said = "Looking for the run."
        self.put("#title", visible(self.run_id))
        self.put("#missing", said)
        self.put("#clock", "")
        self.put("#progress", "")
        self.put("#end", "")
        self.put("#outcome", "")
        self.put("#cost", "")
        self.put("#budget", "")

    def _draw_outlook(self) -> None:
        """The first two agents compared, and the running trials."""
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
        trials = [t for t in self._trials or () if self.wanted(t.task_id, t.agent_model, t.failure_mode)]
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
        found = rejections.newest(self.run_id)[:MOST_REJECTIONS]
        head = f"rejections ({rejections.counts[self.run_id]:,})"
        if rejections.problem:
            head = f"rejections: {visible(rejections.problem)}"
        columns = rejection_columns(head, rejections.counts[None], self.now)
        self.query_one("#rejections", BoardTable).show_rows(
            columns, found, lambda rejected: str(id(rejected))
        )

    def _sort_first(self, agents: Sequence[AgentModelSummary]) -> None:
        """Sort by what the plan says, from the first moment that there is one."""
        table = self.query_one("#agents", BoardTable)
        if not self._sorted and table.sorting == Sort(PRIMARY_METRIC, True) and agents and self.model.run:
            table.sorting = first_sort(self.model.run.primary_metric, agents)

    def action_sort(self) -> None:
        """From now on the user says how it is sorted."""
        self._sorted = True
        super().action_sort()

    async def _ask(self) -> None:
        """Say so if there is no such run."""
        try:
            await self.watching.reader.run(self.run_id)
        except UnknownRun as error:
            self._unknown = str(error)
            self.changed()
        except ReaderError:
            return  # told by those who follow

    async def _follow_log(self) -> None:
        from streamer.watch.from_log import follow_newest

        await follow_newest(self.watching.settings, self.run_id, self._take_trials, self._tell_log)

    def _take(self, update: StateUpdate) -> None:
        self.model.take(update)
        self.changed()

    def _take_outlook(self, found: RunSnapshot, outlook: Outlook) -> None:
        self.model.in_flight, self.model.outlook = found.in_flight, outlook
        self.changed()

    def _take_trials(self, trials: list[TrialRow]) -> None:
        self._trials = trials
        self.changed()

    def _tell_log(self, problem: str | None) -> None:
        self._log_problem = problem
        self.changed()
