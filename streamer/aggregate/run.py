"""One run: its state, its summaries and its state pages, and what of them changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamer.aggregate.changes import (
    Effect,
    InFlightChange,
    PageWrite,
    RunChanges,
    RunUpdate,
    ScoredChange,
    SummaryChange,
)
from streamer.aggregate.comparisons import Comparisons
from streamer.aggregate.keys import NO_TIME, RUN, SlotKey, SummaryKind, rfc3339, slot_in_run, slot_topic_key
from streamer.aggregate.news import Grades, rescored
from streamer.aggregate.page_format import is_run_page, seen_by, slots_on
from streamer.aggregate.pages import PageBook, join_page
from streamer.aggregate.run_state import RunState
from streamer.aggregate.summarise import Summaries
from streamer.schemas.canonical import canonical_json
from streamer.schemas.events import AnyEvent
from streamer.schemas.identity import encode_id
from streamer.schemas.plain import PlainEvent
from streamer.score import PriceTable

MOST_IN_FLIGHT = 1_000
"""Trials in flight that Redis lists of a run, about 200 bytes each."""


class Run:
    """Joins events, and hands over what changed: each `take_*` gives what no earlier one gave.

    Args:
        writer: name of the worker process in page keys; None where no pages are kept.
        takes_changes: changes will be taken again and again. If not, scored trials that changed are not
            noted, and those of all slots are taken.

    Attributes:
        state: the slots, the plan, and what follows from them; for reading.
        comparisons: the agents compared, and the tasks; for reading.
        comparison_waits: something changed since the comparison was taken last.
        in_flight_taken: the trials in flight as they were taken last; None: there never were any.
    """

    def __init__(
        self,
        run_id: str,
        *,
        prices: PriceTable,
        epoch: int,
        made_with: str,
        writer: str | None,
        takes_changes: bool,
    ) -> None:
        changes = RunChanges(scored_trials=takes_changes, pages=writer is not None)
        self.state = RunState(run_id, prices, changes)
        self._epoch = epoch
        self._summaries = Summaries(self.state, epoch, made_with)
        self.comparisons = Comparisons(self.state, self._summaries, epoch, made_with)
        self._grades = Grades()
        self._pages = PageBook(self.state, writer) if writer is not None else None
        self._unpublished: set[SlotKey] | None = set()
        self.comparison_waits = False
        self.in_flight_taken: InFlightChange | None = None

    def join(self, event: AnyEvent | PlainEvent, raw: bytes, offset: int, timestamp_ms: int) -> Effect:
        """Join one event; see :meth:`RunState.apply`."""
        return self.state.apply(event, raw, offset, timestamp_ms)

    def take_changes(self, *, news: bool = True, comparison: bool = True) -> RunUpdate:
        """Everything that changed, from one moment.

        Args:
            news: False: grades move silently.
            comparison: False: the comparison of the agents and the tasks wait for the next time.
        """
        changes = self.take_summaries(news=news, comparison=comparison)
        changes.scored = self.take_scored()
        return changes

    def take_summaries(self, *, news: bool = False, comparison: bool = True) -> RunUpdate:
        """What changed, without scored trials: these wait for `take_scored` or `forget_scored`."""
        self.state.count()
        groups, rescorings = self.state.changes.take_groups()
        summaries = self._summaries.take(groups)
        moved = [item for change in summaries if (item := self._grades.moved(change)) is not None]
        told = moved + [rescored(self.state, item, self._epoch) for item in rescorings]
        in_flight, tasks = self._take_in_flight(), None
        self.comparison_waits |= bool(groups)
        if comparison and self.comparison_waits:
            compared, tasks = self.comparisons.take()
            summaries = _in_order(summaries + compared)
            self.comparison_waits = False
        return RunUpdate(self.state.run_id, summaries, in_flight, tasks, news=told if news else [])

    def take_scored(self, most: int | None = None) -> list[ScoredChange]:
        """Scored trials that changed, `most` of them if that is given; [] if none waits.

        They cost the same now or later, summaries do not.
        """
        state, run_id = self.state, self.state.run_id
        way = {
            "epoch": self._epoch,
            "state_version": state.state_version,
            "last_event_at": rfc3339(state.last_event_at),
        }
        end = b"," + canonical_json(way)[1:]
        run_key = encode_id(run_id)
        collected = state.changes.collects_scored_trials
        changes = []
        changed = state.changes.take_scored(most) if collected else dict.fromkeys(state.slots)
        for key, judged in changed.items():
            written = state.scores.scored_trial(run_id, key, judged)
            value = None if written is None else written + end
            changes.append(ScoredChange(run_id, slot_topic_key(run_key, key), value))
        return changes

    def forget_scored(self) -> None:
        """The scored trials that changed are published as they are; none of them is built."""
        self.state.changes.only_scored_trials(())

    @property
    def scored_waiting(self) -> int:
        """How many scored trials wait to be taken."""
        return self.state.changes.scored_waiting

    def take_pages(self) -> list[PageWrite]:
        """State pages that are out of date: values first, then tombstones; [] where no pages are kept.

        The values must be acknowledged before the tombstones are sent.
        """
        return self._pages.writes() if self._pages is not None else []

    def summaries(self, *, comparison: bool = True) -> list[SummaryChange]:
        """Every summary as it stands, the comparison of the agents among them if wanted; takes nothing."""
        self.state.count()
        return _in_order(self._summaries.all() + (self.comparisons.all() if comparison else []))

    def in_flight(self, most: int) -> list[dict[str, Any]]:
        """The trials that have started and have no result, the longest first; [] once the run has finished.

        Each has the fields of its slot, `started_at` (null: not known, these come last) and `position`.

        Args:
            most: so many of them at most.
        """
        state = self.state
        if state.plan.finished is not None:
            return []
        keys = state.scores.roster.lineup(RUN).in_flight()
        started = {key: state.slots[key].started_at for key in keys}
        keys.sort(key=lambda key: (started[key] is None, started[key] or 0, str(key)))
        return [
            key._asdict()
            | {
                "started_at": rfc3339(NO_TIME if (at := started[key]) is None else at),
                "position": state.slots[key].position,
            }
            for key in keys[:most]
        ]

    def in_flight_by_slot(self) -> dict[str, bytes]:
        """The trials in flight as Redis holds them: the slot's key to canonical JSON, the longest first."""
        return {
            slot_in_run(SlotKey(*(trial[name] for name in SlotKey._fields))): canonical_json(trial)
            for trial in self.in_flight(MOST_IN_FLIGHT)
        }

    def _take_in_flight(self) -> InFlightChange | None:
        """The trials in flight, if they are others than when they were taken last."""
        trials = self.in_flight_by_slot()
        if trials == (self.in_flight_taken.trials if self.in_flight_taken else {}):
            return None
        state = self.state
        self.in_flight_taken = InFlightChange(state.run_id, trials, self._epoch, state.state_version)
        return self.in_flight_taken

    def taken(self) -> list[tuple[SummaryKind, str]]:
        """Kind and topic key of every summary that was taken and not withdrawn."""
        return self._summaries.taken() + self.comparisons.taken()

    def load_page(self, key: str, value: bytes, *, settled_to: int) -> None:
        """Join a state page of any writer, in any order, any number of times.

        Args:
            settled_to: everything that follows from events before this offset is published. Scored trials
                of slots on pages that have seen no later ones need not be taken after a recovery.

        Raises:
            PageError: the page cannot be read.
        """
        slots = join_page(self.state, key, value)
        if self._pages is not None:
            self._pages.note_foreign(key, slots)
        unpublished = seen_by(value) >= settled_to
        if unpublished and (is_run_page(key) or settled_to <= 0):
            self._unpublished = None
        elif unpublished and self._unpublished is not None:
            self._unpublished.update(slots_on(value))

    def loaded(self) -> None:
        """All pages are loaded: they are saved already, so nothing of them is out of date."""
        self.state.changes.take_pages()
        if self._unpublished is not None:
            changed = self.state.scores.with_their_groups(self._unpublished)
            self.state.changes.only_scored_trials(changed)
        self._unpublished = set()

    def page_keys(self) -> list[str]:
        """Keys of the state pages that hold something of the run; [] where no pages are kept."""
        return self._pages.keys() if self._pages is not None else []

    def replace_pages(self, keys: Iterable[str] = ()) -> None:
        """The next `take_pages` gives all of the run on new pages, and takes these and its own away."""
        if self._pages is not None:
            for key in keys:
                self._pages.note_foreign(key, 0)
        self.state.changes.every_page()


def _in_order(changes: list[SummaryChange]) -> list[SummaryChange]:
    return sorted(changes, key=lambda change: change.group)
