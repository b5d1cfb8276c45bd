"""What happens in a run, a line each: a new leader, a crash, a judge, a pair that is told apart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from streamer.client.results import ComparedRun, RunSnapshot
from streamer.simulate.harbor import EXCEPTIONS
from streamer.simulate.outcomes import CRASH
from streamer.text import percent, visible
from streamer.views.comparisons import NOTHING
from streamer.views.formatting import of_planned
from streamer.views.outlook import outlook_of
from streamer.views.wording import best_first, primary_of

LEAD_FROM = 5
"""An agent leads once every agent has so many results: before that, each trial changes the lead."""

CRASHED = EXCEPTIONS[CRASH]

Summary = dict[str, Any]


class Moments:
    """Compares each look at a run with the one before."""

    def __init__(self) -> None:
        self._leader: str | None = None
        self._begun = self._crashed = self._judged = False
        self._decided: set[frozenset[str]] = set()

    def news(self, found: RunSnapshot, compared: ComparedRun, now: datetime) -> list[str]:
        """What happened since the last look; [] if nothing that is worth a line.

        Args:
            found: the run as it stands.
            compared: its agents compared.
            now: the time of the look.
        """
        run = found.run.model_dump(mode="json")
        rows = [one.model_dump(mode="json") for one in found.agents]
        agents = sorted(rows, key=best_first(primary_of(run)))
        words = outlook_of(found.run, found.agents, found.in_flight, compared, now).first_two
        lines = (self._start(run), self._judge(run), self._crash(run), self._lead(agents))
        return [*chain.from_iterable(lines), *self._pair(agents, words)]

    def _start(self, run: Summary) -> Iterator[str]:
        if not self._begun and run["in_flight"]:
            self._begun = True
            done = of_planned(run["progress"]["done"], run["progress"]["planned"])
            yield f"{run['in_flight']} trials run, {done} are done"

    def _judge(self, run: Summary) -> Iterator[str]:
        judged = run["coverage"].get("impl_rate", 0)
        if not self._judged and judged:
            self._judged = True
            yield f"the judge's first scores are in: {of_planned(judged, run['trials'])} results have one"

    def _crash(self, run: Summary) -> Iterator[str]:
        if not self._crashed and run["failure_modes"].get(CRASHED):
            self._crashed = True
            yield f"a trial crashed ({CRASHED}); harbor runs it again"

    def _lead(self, agents: list[Summary]) -> Iterator[str]:
        if not agents or min(agent["trials"] for agent in agents) < LEAD_FROM:
            return
        rates = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in agents}
        first, before = agents[0]["agent_model"], self._leader
        if before is None:
            self._leader = first
            yield f"{visible(first)} leads: pass rate {percent(rates[first])}"
        elif rates[first] > rates[before]:
            self._leader = first
            ends = f"{percent(rates[first])} to {percent(rates[before])}"
            yield f"{visible(first)} overtakes {visible(before)}: pass rate {ends}"

    def _pair(self, agents: list[Summary], words: list[str]) -> Iterator[str]:
        pair = frozenset(agent["agent_model"] for agent in agents[:2])
        if words and not words[0].startswith(NOTHING) and pair not in self._decided:
            self._decided.add(pair)
            yield visible(words[0])
