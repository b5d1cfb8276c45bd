"""The data of a report: the current state from Redis and the log, or a file of events folded here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import orjson

from streamer.aggregate.by_label import by_label
from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.curves import curves
from streamer.client.breakdowns import folded_run, prices_of
from streamer.client.comparison import compared_run
from streamer.client.lifecycle import State, state_of
from streamer.client.queries import history_entry, parsed
from streamer.client.reader import StateReader
from streamer.client.results import ComparedRun, HistoryEntry
from streamer.client.trials import scored_trials
from streamer.fold import CannotBeFolded
from streamer.pipeline import Pipeline
from streamer.records import Record, Rejected
from streamer.redis.entry import TASKS, entry_of
from streamer.redis.keys import Keys
from streamer.score import PriceTable
from streamer.settings import Settings
from streamer.views.history import history_points
from streamer.views.outlook import places_of

Json = dict[str, Any]

MAX_POINTS = 300
"""So many points of the history are kept of each group."""

EMISSIONS = 200
"""A file is folded in so many steps, each of which is a point of the history."""

KINDS = ("run_summary", "agent_model_summary", "tier_summary")


class NoSuchRun(Exception):
    """A file of events holds no such run, or several without a choice."""

    def __init__(self, run_id: str | None, known: Sequence[str]) -> None:
        shown = ", ".join(known[:5]) or "none"
        if run_id is None:
            text = f"the file holds {len(known)} runs ({shown}): say which one, or give a file with one"
        else:
            close = get_close_matches(run_id, known, n=5, cutoff=0.4)
            hint = f"Did you mean {', '.join(close)}?" if close else f"It holds {len(known)}: {shown}."
            text = f"the file holds no run {run_id!r}. {hint}"
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything a report shows of one run; each dict is the JSON of the model named.

    Attributes:
        run: RunSummary.
        state: of the run when it was read; see `streamer.client.lifecycle`.
        agents: AgentModelSummary each, baselines too, by label.
        tiers: TierSummary each, by tier: pooled, then the agent:models within it.
        trials: ScoredTrial each, by key; None: not asked for.
        history: HistoryPoint each, oldest first.
        curves: what `curves` gives; []: the trials are not asked for.
        by_label: what `by_label` gives; []: not asked for.
        compared: the agents compared, and the tasks.
    """

    run: Json
    state: State
    agents: list[Json]
    tiers: list[Json]
    trials: list[Json] | None = None
    history: list[Json] = field(default_factory=list)
    curves: list[Json] = field(default_factory=list)
    by_label: list[Json] = field(default_factory=list)
    compared: ComparedRun | None = None

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return str(self.run["run_id"])

    @property
    def places(self) -> dict[str, str]:
        """agent:model to the places that it may truly have; {} where there are none."""
        return places_of(self.compared.comparison if self.compared else None)


def from_stack(settings: Settings, run_id: str, now: datetime, *, trials: bool = True) -> RunData:
    """A run as it stands in Redis; its trials as they stand in the log.

    Args:
        settings: where Redis is, and for trials the broker.
        run_id: the run.
        now: the time at which its state is determined.
        trials: whether they are wanted; without them the broker is not asked.

    Raises:
        UnknownRun, RedisUnavailable: see `StateReader`.
        CannotBeFolded: an exception sets the run apart.
        NotInLog, TopicMissing, TopicUnreadable, aiokafka.errors.KafkaError: see `scored_trials`.
    """
    with StateReader(settings) as reader:
        snapshot = reader.snapshot(run_id)
        history = reader.history(run_id)
        compared = reader.comparison(run_id)
    listed, drawn = None, []
    if trials:
        filled = snapshot.run.progress.done > 0
        listed = [orjson.loads(value) for value in scored_trials(settings, run_id)] if filled else []
        drawn = curves(folded_run(settings, run_id, prices_of(settings))) if filled else []
    return RunData(
        run=snapshot.run.model_dump(mode="json"),
        state=state_of(snapshot.run, now),
        agents=[agent.model_dump(mode="json") for agent in snapshot.agents],
        tiers=[tier.model_dump(mode="json") for tier in snapshot.tiers],
        trials=listed,
        history=_points(history),
        curves=drawn,
        compared=compared,
    )


def from_events(
    records: Iterable[Record],
    run_id: str | None,
    now: datetime,
    prices: PriceTable | None = None,
    label: str | None = None,
) -> tuple[RunData, list[Rejected]]:
    """A run folded from events, without any server; and what could not be folded.

    Args:
        records: of a file, in any order; held in memory.
        run_id: which run; None: the only one there is.
        now: the time at which its state is determined.
        prices: price table (R2), the default one if None.
        label: by which label it is broken down; None: by none.

    Raises:
        NoSuchRun: there is none of this id, or several without a choice.
        UnknownLabel: no trial has the label.
    """
    held = list(records)
    folder = _Folder(prices)
    step = max(1, math.ceil(len(held) / EMISSIONS))
    for start in range(0, len(held), step):
        folder.take(held[start : start + step])
    return folder.data(run_id, now, label), folder.rejected


class _Folder:
    """Folds step by step, so that there is a history to show."""

    def __init__(self, prices: PriceTable | None) -> None:
        self._pipeline = Pipeline(prices=prices)
        self._history: dict[str, list[HistoryEntry]] = {}
        self._scored: dict[str, dict[str, bytes]] = {}
        self._steps = 0
        self.rejected: list[Rejected] = []

    def take(self, records: Sequence[Record]) -> None:
        """Fold some records, as one emission."""
        folded = self._pipeline.fold(records)
        self.rejected += folded.rejections
        self._steps += 1
        for run_id in folded.touched:
            cut = self._pipeline.run(run_id).take_changes(news=False, comparison=False)
            history = self._history.setdefault(run_id, [])
            history += [self._entry(change) for change in cut.summaries]
            scored = self._scored.setdefault(run_id, {})
            for trial in cut.scored:
                if trial.value is None:
                    scored.pop(trial.key, None)
                else:
                    scored[trial.key] = trial.value

    def data(self, run_id: str | None, now: datetime, label: str | None) -> RunData:
        """The run as it stands; NoSuchRun if it is not there, or there are several without a choice."""
        known = sorted(run for run in self._pipeline.runs() if self._pipeline.run(run).state.exists)
        failed = self._pipeline.failed
        if run_id in failed or (failed and not known):
            raise CannotBeFolded(failed[run_id or next(iter(failed))])
        if run_id is None and len(known) == 1:
            run_id = known[0]
        if run_id is None or run_id not in known:
            raise NoSuchRun(run_id, known)
        found = self._pipeline.run(run_id)
        changes = found.summaries()
        summaries = [change.summary or {} for change in changes]
        of_type = {kind: [s for s in summaries if s["type"] == kind] for kind in KINDS}
        agents = sorted(of_type["agent_model_summary"], key=lambda agent: agent["agent_model"])
        tiers = sorted(of_type["tier_summary"], key=lambda tier: (tier["tier"], tier["agent_model"] or ""))
        trials = [orjson.loads(value) for _, value in sorted(self._scored[run_id].items())]
        history = _points(self._history[run_id])
        [run] = of_type["run_summary"]
        labelled = by_label(self._pipeline.run(run_id).state, label) if label is not None else []
        compared = _compared(run_id, changes, found.comparisons.tasks())
        drawn = curves(found.state)
        return RunData(run, state_of(run, now), agents, tiers, trials, history, drawn, labelled, compared)

    def _entry(self, change: SummaryChange) -> HistoryEntry:
        fields = iter(entry_of(change, news=True).history_fields())
        return history_entry(f"{self._steps}-0", dict(zip(fields, fields, strict=True)))


def _compared(run_id: str, changes: Iterable[SummaryChange], tasks: Mapping[str, str]) -> ComparedRun | None:
    """The agents compared, as `StateReader.comparison` reads what a worker published."""
    stored: dict[str, Any] = {change.group.redis_suffix: change.value for change in changes}
    stored[TASKS] = [part for field in tasks.items() for part in field]
    return compared_run(Keys(), run_id, stored, parsed)


def _points(entries: Iterable[HistoryEntry]) -> list[Json]:
    return [point.model_dump(mode="json") for point in history_points(entries, None, MAX_POINTS)]
