"""What happens in a run, a line for each: the lead changes, a trial crashes, a judge comes, a pair is decided."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from streamer.client.results import ComparedRun, RunSnapshot
from streamer.simulate.harbor import EXCEPTIONS
from streamer.simulate.outcomes import CRASH
from streamer.text import percent, visible
from streamer.views.formatting import of_planned
from streamer.views.outlook import outlook_of
from streamer.views.wording import best_first, primary_of

LEAD_FROM = 5
"""An agent leads once every agent has so many results: before that, each trial changes the lead."""

NOTHING = "Nothing separates"
"""How the words of a pair begin that is not told apart yet (streamer/views/comparisons.py)."""

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
        agents = sorted((one.model_dump(mode="json") for one in found.agents), key=best_first(primary_of(run)))
        words = outlook_of(found.run, found.agents, found.in_flight, compared, now).first_two
        return [*self._start(run), *self._crash(run), *self._judge(run), *self._lead(agents), *self._pair(agents, words)]

    def _start(self, run: Summary) -> Iterator[str]:
        if not self._begun and run["in_flight"]:
            self._begun = True
            yield f"{run['in_flight']} trials run, {of_planned(run['progress']['done'], run['progress']['planned'])} are done"

    def _crash(self, run: Summary) -> Iterator[str]:
        if not self._crashed and run["failure_modes"].get(CRASHED):
            self._crashed = True
            yield f"a trial crashed ({CRASHED}); the harness runs it again, and the new result will count"

    def _judge(self, run: Summary) -> Iterator[str]:
        judged = run["coverage"].get("impl_rate", 0)
        if not self._judged and judged:
            self._judged = True
            yield f"the judge's first scores are in, after the verdicts: {judged} of {run['trials']} trials have one"

    def _lead(self, agents: list[Summary]) -> Iterator[str]:
        if not agents or min(agent["trials"] for agent in agents) < LEAD_FROM:
            return
        rates = {agent["agent_model"]: agent["statistics"]["pass_rate"]["mean"] for agent in agents}
        first, before = agents[0]["agent_model"], self._leader
        if before is None:
            yield f"{visible(first)} leads: pass rate {percent(rates[first])}"
        elif rates[first] <= rates.get(before, 0.0):
            return
        elif before != first:
            yield f"{visible(first)} overtakes {visible(before)}: pass rate {percent(rates[first])} to {percent(rates[before])}"
        self._leader = first

    def _pair(self, agents: list[Summary], words: list[str]) -> Iterator[str]:
        pair = frozenset(agent["agent_model"] for agent in agents[:2])
        if words and not words[0].startswith(NOTHING) and pair not in self._decided:
            self._decided.add(pair)
            yield visible(words[0])
