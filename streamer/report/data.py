"""The data of a report: the current state from Redis and the log, or a file of events folded here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from streamer.aggregate.by_label import by_label
from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.curves import curves
from streamer.aggregate.run_state import RunState
from streamer.client.folded_run import fold_run, nothing_of, stored
from streamer.client.lifecycle import State, state_of
from streamer.client.queries import history_entry
from streamer.client.reader import StateReader
from streamer.client.results import ComparedRun, HistoryEntry
from streamer.client.run_log import RunLog
from streamer.client.snapshots import compared_run
from streamer.client.trials import scored_trials
from streamer.decoding import Folded
from streamer.fold import Folding, NoSuchRun, fold_records
from streamer.pipeline import Pipeline
from streamer.prices_file import price_table
from streamer.records import LogRecord, Position, Rejected, up_to
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


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything a report shows of one run; each dict is the JSON of the model named.

    Attributes:
        run: RunSummary.
        read_at: when the run was read; this moment decides its state, see `state_of`.
        agents: AgentModelSummary each, baselines too, by label.
        tiers: TierSummary each, by tier: pooled, then the agent:models within it.
        trials: ScoredTrial each, by key; None: not asked for.
        history: HistoryPoint each, oldest first.
        curves: what `curves` gives; []: the trials are not asked for.
        by_label: what `by_label` gives; []: not asked for.
        compared: the agents compared, and the tasks.
        folded: the run as it was folded from its events; None: the trials are not asked for, or the run's log
            has lost its beginning.
    """

    run: Json
    read_at: datetime | None
    agents: list[Json]
    tiers: list[Json]
    trials: list[Json] | None = None
    history: list[Json] = field(default_factory=list)
    curves: list[Json] = field(default_factory=list)
    by_label: list[Json] = field(default_factory=list)
    compared: ComparedRun | None = None
    folded: RunState | None = field(default=None, repr=False, compare=False)

    @property
    def state(self) -> State:
        """State of the run at `read_at`; see `streamer.client.lifecycle`."""
        return state_of(self.run, self.read_at)

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
    listed, drawn, folded = None, [], None
    if trials:
        filled = snapshot.run.progress.done > 0
        listed = [orjson.loads(value) for value in scored_trials(settings, run_id)] if filled else []
        again = fold_run(settings, run_id, price_table(settings.prices_file))
        drawn = curves(again.run.state) if filled else []
        folded = None if again.log.begins_at else again.run.state
    return RunData(
        run=snapshot.run.model_dump(mode="json"),
        read_at=now,
        agents=[agent.model_dump(mode="json") for agent in snapshot.agents],
        tiers=[tier.model_dump(mode="json") for tier in snapshot.tiers],
        trials=listed,
        history=_points(history),
        curves=drawn,
        compared=compared,
        folded=folded,
    )


def from_log(
    settings: Settings,
    run_id: str,
    now: datetime,
    prices: PriceTable,
    label: str | None,
    as_of: Position,
) -> tuple[RunData, int]:
    """A run as of an earlier position, folded from the event topic.

    Args:
        settings: where the broker is.
        run_id: the run.
        now: of asking; the run's state is determined as of the position, where its time is known.
        prices: price table (R2).
        label: by which label it is broken down; None: by none.
        as_of: the position.

    Returns:
        Beside it, the offset at which the run's log begins; above 0: earlier events were deleted.

    Raises:
        NothingYet, NotInLog, BadPosition and others: see `fold_run`.
        UnknownLabel: no trial has the label.
    """
    log = RunLog(settings, run_id, as_of)
    held = list(log.records())
    try:
        data, _ = from_events(held, run_id, log.moment or now, prices, label, owns=run_id.__eq__)
    except NoSuchRun:
        raise nothing_of(settings, run_id, as_of, log.topic) from None
    return data, log.begins_at


def from_events(
    records: Iterable[LogRecord],
    run_id: str | None,
    now: datetime | None,
    prices: PriceTable | None = None,
    label: str | None = None,
    as_of: Position | None = None,
    owns: Callable[[str], bool] | None = None,
) -> tuple[RunData, list[Rejected]]:
    """A run folded from events, without any server; and what could not be folded.

    Args:
        records: of a file, in any order; held in memory.
        run_id: which run; None: the only one there is.
        now: the time at which its state is determined; None: not known, see `state_of`.
        prices: price table (R2), the default one if None.
        label: by which label it is broken down; None: by none.
        as_of: fold those at or before this position alone; None: all.
        owns: only runs of which this is true of their id; every run if None.

    Raises:
        NoSuchRun: there is none of this id, or several without a choice.
        UnknownLabel: no trial has the label.
        BadPosition: see `up_to`.
    """
    held = list(records if as_of is None else up_to(records, as_of))
    steps, rejected = _Steps(), list[Rejected]()
    folding = fold_records(
        held,
        prices=prices,
        owns=owns,
        on_rejected=rejected.append,
        step=max(1, math.ceil(len(held) / EMISSIONS)),
        after=steps.after,
        takes_changes=True,
    )
    return steps.data(folding, run_id, now, label), rejected


class _Steps:
    """Looks at the runs after each step of a fold, so that there is a history to show."""

    def __init__(self) -> None:
        self._history: dict[str, list[HistoryEntry]] = {}
        self._scored: dict[str, dict[str, bytes]] = {}
        self._steps = 0

    def after(self, pipeline: Pipeline, records: Sequence[LogRecord], folded: Folded) -> None:
        """Take what changed, as one emission."""
        self._steps += 1
        for run_id in folded.touched:
            cut = pipeline.run(run_id).take_changes(news=False, comparison=False)
            history = self._history.setdefault(run_id, [])
            history += [self._entry(change) for change in cut.summaries]
            scored = self._scored.setdefault(run_id, {})
            for trial in cut.scored:
                if trial.value is None:
                    scored.pop(trial.key, None)
                else:
                    scored[trial.key] = trial.value

    def data(self, folding: Folding, run_id: str | None, now: datetime | None, label: str | None) -> RunData:
        """The run as it stands; NoSuchRun if it is not there, or there are several without a choice."""
        run_id = folding.chosen(run_id)
        found = folding.pipeline.run(run_id)
        changes = found.summaries()
        summaries = [change.summary or {} for change in changes]
        of_type = {kind: [s for s in summaries if s["type"] == kind] for kind in KINDS}
        agents = sorted(of_type["agent_model_summary"], key=lambda agent: agent["agent_model"])
        tiers = sorted(of_type["tier_summary"], key=lambda tier: (tier["tier"], tier["agent_model"] or ""))
        trials = [orjson.loads(value) for _, value in sorted(self._scored[run_id].items())]
        history = _points(self._history[run_id])
        [run] = of_type["run_summary"]
        labelled = by_label(found.state, label) if label is not None else []
        held = stored(changes, {TASKS: found.comparisons.tasks()})
        compared = compared_run(Keys(), run_id, held)
        drawn = curves(found.state)
        return RunData(run, now, agents, tiers, trials, history, drawn, labelled, compared, found.state)

    def _entry(self, change: SummaryChange) -> HistoryEntry:
        fields = iter(entry_of(change, news=True).history_fields())
        return history_entry(f"{self._steps}-0", dict(zip(fields, fields, strict=True)))


def _points(entries: Iterable[HistoryEntry]) -> list[Json]:
    return [point.model_dump(mode="json") for point in history_points(entries, None, MAX_POINTS)]
