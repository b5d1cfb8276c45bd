"""What the page shows of a run while it goes on, drawn here once for all who look at it in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from urllib.parse import quote, urlencode

from streamer.views.columns import primary_of, shows_grades
from streamer.views.decide.outlook import Outlook
from streamer.views.drawing import Drawn, draw_agents
from streamer.web.api import Web
from streamer.web.api import outlook as outlook_at
from streamer.web.models import OutlookQuery, ViewQuery, status_of
from streamer.web.protocols.live import Json, Part, Room, View

REST_SECONDS = 2.0
"""An outlook is asked for again so long after the last one, if the run has changed."""

AGE_SECONDS = 30.0
"""A running trial grows older without an event: the outlook is asked for again after so long."""


class RunOutlook:
    """The outlook of a run that somebody looks at: asked for once for all of them.

    Args:
        room: of the run; it is touched once there is another outlook.
        load: asks for it.
    """

    def __init__(self, room: Room, load: Callable[[], Awaitable[Outlook]]) -> None:
        self._room, self._load = room, load
        self.found: Outlook | None = None
        self._wanted = self._asked = ""
        self._tried = False
        self._loading: asyncio.Task[None] | None = None
        self._older: asyncio.TimerHandle | None = None

    def want(self, digest: str) -> None:
        """The summary of the run has this digest; the same digest says the same."""
        self._wanted = digest
        if self._loading is None and digest != self._asked:
            self._loading = asyncio.create_task(self._answer())

    async def _answer(self) -> None:
        if self._tried:
            await asyncio.sleep(REST_SECONDS)
        self._tried, self._asked = True, self._wanted
        try:
            self.found = await self._load()
        except Exception as error:  # the stream says what is wrong; the last outlook stays
            if (status_of(error) or 500) >= 500:
                self._asked = ""
        self._loading = None
        self._room.touch()
        if self._older is not None:
            self._older.cancel()
        if self.found and self.found.in_flight:
            self._older = asyncio.get_running_loop().call_later(AGE_SECONDS, self._grow_older)

    def _grow_older(self) -> None:
        if self._room.viewers:
            self._asked = ""
            self._room.touch()


def run_link(run_id: str, rest: str = "", **options: str) -> str:
    """The address of a run, or of a part of it, on the page."""
    query = f"?{urlencode(options)}" if options else ""
    return f"#/run/{quote(run_id, safe='')}{rest}{query}"


def drawn_board(room: Room, outlook: RunOutlook, *, grades: bool) -> Iterable[Part]:
    """The board of a run: its agents.

    Args:
        grades: show them also in a run without tiers and judge.
    """
    states = room.states
    run = next((state for state in states if state["type"] == "run_summary"), None)
    if run is None:
        return
    outlook.want(run["digest"])
    agents = sorted(_of(states, "agent_model_summary"), key=lambda agent: str(agent["agent_model"]))
    own = shows_grades({"tiers": len(_of(states, "tier_summary"))}, agents)
    found, over = outlook.found, run["status"] is not None
    places = found.places if found else {}
    rows = [
        agent | {"place": places.get(agent["agent_model"]), "over": over, "graded": own or grades}
        for agent in agents
    ]
    notes = _notes(found) if found else []
    link = lambda agent: run_link(run["run_id"], "/trials", agent=agent)  # noqa: E731
    yield Part("board", "", {"own_grades": own, "graded": own or grades})
    yield from parts_of("agents", draw_agents(rows, primary_of(run), notes=notes, link=link))


def _notes(outlook: Outlook) -> list[str]:
    missing = [f"No places: {outlook.places_missing}."] if outlook.places_missing else []
    return [
        *missing,
        *(f"{words}." for words in (*outlook.first_two, *(one.words for one in outlook.errors))),
    ]


def _of(states: Iterable[Json], kind: str) -> list[Json]:
    return [state for state in states if state["type"] == kind]


def parts_of(table: str, drawn: Drawn) -> Iterable[Part]:
    """The parts of a table: its rows by key, and what it has besides."""
    yield Part(table, "", drawn.besides())
    for key, row in drawn.rows:
        yield Part(table, key, row)


def view_of(web: Web, room: Room, query: ViewQuery, run_id: str) -> View | None:
    """What is drawn for a viewer of a run, the same for all who ask alike; None: nothing is asked for."""
    if query.view is None:
        return None
    load = partial(outlook_at, web, OutlookQuery(), run_id)
    outlook = room.kept.setdefault("outlook", RunOutlook(room, load))
    draw = partial(drawn_board, room, outlook, grades=query.grades)
    view: View = room.kept.setdefault(query, View(room, draw))
    return view
