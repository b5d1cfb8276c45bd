"""Runs folded again from the event log: now, at an earlier position, or continuously. Folding needs numpy;
reading published state does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from streamer.client.feeds import NotInLog
from streamer.client.queries import (
    MOST_BOARD_RUNS,
    PUBLISHED,
    RUNS_PER_PAGE,
    BoardRun,
    LeaderboardRow,
    PageOfRuns,
    RunAnswers,
    UnknownMetric,
    UnknownRun,
    is_chosen,
    leader_of,
    page_of_runs,
    parsed,
    ranked,
    require_benchmark,
)
from streamer.folding.breakdowns import by_subtest
from streamer.folding.fold import BATCH, After, CannotBeFolded, Pipeline, event_in, fold_records
from streamer.folding.prices import PriceTable
from streamer.folding.run import Run
from streamer.folding.state import RunState
from streamer.schemas.base import encode_id
from streamer.schemas.events import board_values, can_have_board
from streamer.schemas.summaries import Leader, RunSummary, TasksOfRun, TrialInFlight, is_over, state_of
from streamer.schemas.wire import BadPosition, Failure, LogRecord, Position, Reason, may_name, time_of, up_to
from streamer.settings import Settings
from streamer.storage.kafka import Names, partition_of, partitions_of
from streamer.storage.log import (
    PartitionReader,
    beginning_of,
    beginnings_of,
    ends_of,
    following_wait_ms,
    read_topic,
)

# -----------------------------------------------------------------------------
# The records of one run in the event topic, up to its present end or to an earlier position.


def refuse_future(as_of: Position) -> None:
    if as_of.at is not None and as_of.at > datetime.now(UTC):
        raise BadPosition(f"{as_of} is in the future, so nothing is known as of it")


class RunLog:
    """The partition of the event topic with a run.

    Records after `as_of` are not read. `moment` is its time, else the time of the last record before it, if
    known.

    Raises:
        BadPosition: the log has no answer at that position.
        TopicMissing, KafkaError: see `streamer.storage.log`.
    """

    def __init__(self, settings: Settings, run_id: str, as_of: Position | None = None) -> None:
        self.topic = Names(settings.namespace).trial_events
        self._settings, self._run_id, self._as_of = settings, run_id, as_of
        self.moment: datetime | None = None
        if as_of is not None:
            self._check(as_of)
            self.moment = as_of.at

    @cached_property
    def begins_at(self) -> int:
        """Offset of the first retained record; above 0, earlier ones were deleted, perhaps of this run."""
        return asyncio.run(beginning_of(self._settings, self.topic, self._run_id))

    def records(self) -> Generator[LogRecord]:
        """The records that may concern the run, in order; raises BadPosition, too."""
        records = read_topic(self._settings, self.topic, run_id=self._run_id)
        dated = self._as_of is not None and self._as_of.at is not None
        for record in up_to(records, self._as_of):
            if not dated:
                self.moment = time_of(record) or self.moment
            if may_name(self._run_id, record.value):
                yield record

    def _check(self, as_of: Position) -> None:
        if as_of.offset is not None and as_of.offset < self.begins_at:
            raise BadPosition(
                f"the log of run {self._run_id!r} begins at offset {self.begins_at}, because earlier events "
                f"were deleted, so it cannot be folded as of {as_of}"
            )
        refuse_future(as_of)


# -----------------------------------------------------------------------------
# A run folded again from the event log, up to its present end or an earlier position.


class NothingYet(Exception):
    def __init__(self, run_id: str, as_of: Position, first: LogRecord) -> None:
        at = time_of(first)
        when = "" if at is None else f" ({Position(at=at)})"
        super().__init__(
            f"run {run_id!r} has no events as of {as_of}. Its first event is at offset {first.offset}{when}"
        )


@dataclass(frozen=True)
class FoldedRun:
    run: Run
    log: RunLog

    @cached_property
    def answers(self) -> RunAnswers:
        """The answers at this position, the same as from a worker's summaries."""
        return answers_of(self.run, self.log.moment)

    def scored_trials(self) -> list[bytes]:
        """The scored trial of every filled slot, by key."""
        changes = sorted(self.run.take_scored(), key=lambda change: change.key)
        return [change.value for change in changes if change.value is not None]


def answers_of(
    run: Run, moment: datetime | None = None, *, whole: bool = True, tasks: bool = True
) -> RunAnswers:
    """The answers of an existing run, the same as from a worker's summaries.

    Args:
        moment: the time that determines the state of the run; None: now.
        whole: False leaves out parts that leaderboards do not need: the comparison of its agents, trials in
        flight, and the tasks of an unfinished run.
    """
    summaries = [
        parsed(PUBLISHED[change.group.redis_suffix.partition(":")[0]], change.key, change.value)
        for change in run.summaries(comparison=whole)
        if change.value is not None
    ]
    trials = run.in_flight_by_slot() if whole else {}
    in_flight = [TrialInFlight.model_validate_json(trial) for trial in trials.values()]
    ended = any(isinstance(one, RunSummary) and is_over(one) for one in summaries)
    by_task = run.comparisons.tasks() if tasks and (whole or ended) else {}
    tasks_of_run = TasksOfRun.of(by_task.items())
    answers = RunAnswers.of(summaries, in_flight, tasks_of_run, moment or datetime.now(UTC))
    assert answers is not None, "the run exists"
    return answers


def fold_run(
    settings: Settings,
    run_id: str,
    prices: PriceTable,
    as_of: Position | None = None,
    *,
    step: int = BATCH,
    after: After | None = None,
    takes_changes: bool = False,
) -> FoldedRun:
    """A run, folded again from the event topic.

    `as_of` is the last position that counts; None: all of the log. `step`, `after` and `takes_changes` are
    arguments of `fold_records`, `prices` is the price table (R2).

    Raises:
        NotInLog: the event topic has no event of the run.
        NothingYet: the run has no event up to that position.
        CannotBeFolded: folding the run raised an exception.
        BadPosition: see `RunLog`.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.storage.log`.
    """
    log = RunLog(settings, run_id, as_of)
    options: dict[str, Any] = {"step": step, "after": after, "takes_changes": takes_changes}
    with closing(log.records()) as records:  # which would keep the connection if `after` raises
        folding = fold_records(records, prices=prices, owns=run_id.__eq__, **options)
    if failure := folding.pipeline.failed.get(run_id):
        raise CannotBeFolded(failure)
    if run_id in folding.runs():
        return FoldedRun(folding.pipeline.run(run_id), log)
    raise nothing_of(settings, run_id, as_of, log.topic)


def nothing_of(settings: Settings, run_id: str, as_of: Position | None, topic: str) -> Exception:
    """Why a run is empty: NotInLog, or NothingYet if its first event comes later."""
    if as_of is not None:
        for record in RunLog(settings, run_id).records():
            event, *_ = event_in(record.value)
            if not isinstance(event, Reason) and event.run_id == run_id:
                return NothingYet(run_id, as_of, record)
    return NotInLog(run_id, topic)


# -----------------------------------------------------------------------------
# Runs at an earlier time, with the answers of a reader: lists of runs, and leaderboards.


@dataclass(frozen=True)
class PastRuns:
    """Runs at a position, with the same answers as `StateReader` from a worker's summaries.

    Attributes:
        folded_runs: the runs, the one with the latest event first.
        moment: the time at which their states are determined.
        truncated: logs without their beginning (`run 'r'`, `partition 3`), and the first offset of each.
        failed: runs that could not be folded, which `folded_runs` lacks.
    """

    folded_runs: Sequence[BoardRun]
    moment: datetime
    truncated: Mapping[str, int] = field(default_factory=dict)
    failed: Sequence[Failure] = ()

    def runs(self) -> list[RunSummary]:
        return [one.run for one in self.folded_runs]

    def page_of_runs(
        self,
        *,
        offset: int = 0,
        limit: int | None = RUNS_PER_PAGE,
        search: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> PageOfRuns:
        return page_of_runs(self.runs(), offset, None if limit is None else offset + limit, search, labels)

    def leaders(self, runs: Iterable[RunSummary]) -> dict[str, Leader]:
        agents = {one.run.run_id: one.agents for one in self.folded_runs}
        found = {}
        for run in runs:
            values = {
                agent.agent_model: board_values(agent.model_dump(mode="json")).get(run.primary_metric)
                for agent in agents[run.run_id]
            }
            known = {label: value for label, value in values.items() if value is not None}
            found[run.run_id] = leader_of(run, known)
        return {run_id: leader for run_id, leader in found.items() if leader}

    def run(self, run_id: str) -> RunSummary:
        for run in self.runs():
            if run.run_id == run_id:
                return run
        raise UnknownRun(run_id, [run.run_id for run in self.runs()])

    def board_runs(
        self, *, run: str | None = None, benchmark: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[BoardRun]:
        return self._chosen(run, benchmark, labels or {})[:MOST_BOARD_RUNS]

    def leaderboard(
        self,
        metric: str,
        *,
        run: str | None = None,
        benchmark: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> list[LeaderboardRow]:
        if not can_have_board(metric):
            raise UnknownMetric(metric)
        chosen = self._chosen(run, benchmark, labels or {})
        states = {one.run.run_id: state_of(one.run, self.moment) for one in chosen}
        agents = [agent for one in chosen for agent in one.agents]
        if run is None or benchmark is not None or labels:  # as in Redis, named metrics of plans alone (R30)
            agents = [agent for agent in agents if metric in board_values(agent.model_dump(mode="json"))]
        return ranked(metric, agents, states)[:limit]

    def _chosen(self, run: str | None, benchmark: str | None, labels: Mapping[str, str]) -> list[BoardRun]:
        if run is not None:
            self.run(run)
        of_run = [one for one in self.folded_runs if run in (None, one.run.run_id)]
        chosen = [one for one in of_run if is_chosen(one.run, benchmark, labels)]
        if benchmark is not None and not chosen:
            require_benchmark(benchmark, self.runs())
        return chosen


# -----------------------------------------------------------------------------
# All runs folded again from the event log, up to an earlier time.
#
# Folding needs numpy; reading published state does not.


def fold_runs(
    settings: Settings, prices: PriceTable, as_of: Position, run_id: str | None = None, *, tasks: bool = True
) -> PastRuns:
    """All runs, or one, folded again from the event topic at a position, one partition at a time.

    Args:
        as_of: the last position that counts; for all runs it must be a time.
        tasks: whether the tasks of runs that are over are included, as boards need them.

    Raises:
        BadPosition: an offset for all runs, or a time in the future.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.storage.log`.
        others: for one run, like :func:`fold_run`.
    """
    now = datetime.now(UTC)
    if run_id is not None:
        one = fold_run(settings, run_id, prices, as_of)
        begins = _truncated({f"run {run_id!r}": one.log.begins_at})
        return PastRuns([answers_of(one.run, whole=False, tasks=tasks).board], one.log.moment or now, begins)
    if as_of.at is None:
        raise BadPosition(
            f"offset {as_of} is a position in one partition, and the runs are in several. Give a time, such "
            "as 2026-01-31T09:30:00Z, or name one run"
        )
    refuse_future(as_of)
    topic = Names(settings.namespace).trial_events
    count = len(asyncio.run(partitions_of(settings, topic)))
    runs, failed = list[BoardRun](), list[Failure]()
    for partition in range(count):
        of_partition, broken = _fold_partition(settings, topic, partition, count, prices, as_of, tasks=tasks)
        runs += of_partition
        failed += broken
    runs.sort(key=_latest, reverse=True)
    beginnings = asyncio.run(beginnings_of(settings, topic))  # what was deleted meanwhile may be missing
    begins = _truncated({f"partition {number}": offset for number, offset in beginnings.items()})
    return PastRuns(runs, as_of.at, begins, failed)


def _fold_partition(
    settings: Settings,
    topic: str,
    partition: int,
    count: int,
    prices: PriceTable,
    as_of: Position,
    *,
    tasks: bool,
) -> tuple[list[BoardRun], list[Failure]]:
    """The runs of one partition. Events in a wrong partition are skipped: the right one has copies."""
    folding = fold_records(
        read_topic(settings, topic, [partition]),
        prices=prices,
        owns=lambda run_id: partition_of(run_id, count) == partition,
        as_of=as_of,
    )
    runs = []
    for run_id in folding.runs():
        try:
            run = folding.pipeline.run(run_id)
            runs.append(answers_of(run, whole=False, tasks=tasks).board)
        except Exception as error:
            folding.pipeline.fail(run_id, error)
    return runs, folding.failed


def _truncated(beginnings: Mapping[str, int]) -> dict[str, int]:
    return {whose: offset for whose, offset in beginnings.items() if offset}


def _latest(one: BoardRun) -> tuple[float, str]:
    at = one.run.last_event_at
    return (0.0 if at is None else at.timestamp(), encode_id(one.run.run_id))


def fold_states(
    settings: Settings, run_ids: Collection[str], prices: PriceTable, as_of: Position | None = None
) -> tuple[dict[str, RunState], dict[str, int]]:
    """Runs up to the time `as_of`, and truncated logs as in `PastRuns`; raises like :func:`fold_run`."""
    topic = Names(settings.namespace).trial_events
    count = len(asyncio.run(partitions_of(settings, topic)))
    chosen, states = frozenset(run_ids), dict[str, RunState]()
    partitions = sorted({partition_of(run_id, count) for run_id in chosen})
    for partition in partitions:
        records = read_topic(settings, topic, [partition])
        folding = fold_records(records, prices=prices, owns=chosen.__contains__, as_of=as_of)
        for failure in folding.failed:
            raise CannotBeFolded(failure)
        states |= {run_id: folding.pipeline.run(run_id).state for run_id in folding.runs()}
    begins = asyncio.run(beginnings_of(settings, topic))  # what was deleted meanwhile may be missing
    return states, _truncated({f"partition {number}": begins[number] for number in partitions})


# -----------------------------------------------------------------------------
# A run broken down by subtest, from the event log.


def subtests(
    settings: Settings, run_id: str, prices: PriceTable, as_of: Position | None = None
) -> list[dict[str, Any]]:
    """The tiers of a run by subtest (see `by_subtest`); raises like :func:`fold_run`."""
    return by_subtest(fold_run(settings, run_id, prices, as_of).run.state)


# -----------------------------------------------------------------------------
# Runs folded from the event topic while they run: one fold, to which each new event is added.


class FollowedRuns:
    """The present state of runs in the event topic; their ids need not exist yet."""

    def __init__(self, settings: Settings, run_ids: Collection[str], prices: PriceTable) -> None:
        self._settings, self._run_ids = settings, frozenset(run_ids)
        self._pipeline = Pipeline(prices=prices, owns=self._run_ids.__contains__, takes_changes=False)

    def states(self) -> dict[str, RunState]:
        """The runs that exist, by id; raises CannotBeFolded if one failed."""
        for failure in self._pipeline.failed.values():
            raise CannotBeFolded(failure)
        states = {run_id: self._pipeline.run(run_id).state for run_id in self._pipeline.runs()}
        return {run_id: state for run_id, state in states.items() if state.exists}

    async def looks(self, seconds: float) -> AsyncGenerator[None]:
        """Yield once the present log is folded, then after changes, without end, at least `seconds` apart.

        Raises TopicMissing, TopicUnreadable or KafkaError at the start; later it waits for an absent broker.
        """
        topic = Names(self._settings.namespace).trial_events
        count = len(await partitions_of(self._settings, topic))
        places = [(topic, number) for number in {partition_of(run_id, count) for run_id in self._run_ids}]
        ends = await ends_of(self._settings, places)
        wait_ms = following_wait_ms(self._settings)
        async with PartitionReader(self._settings, places, wait_ms=wait_ms) as reader:
            async for batch in reader.read({}, ends):
                self._pipeline.fold(batch)
            yield
            changed = asyncio.Event()
            reading = asyncio.create_task(self._read_on(reader, ends, changed))
            try:
                while True:
                    await _either(reading, changed)
                    changed.clear()
                    yield
                    await asyncio.sleep(seconds)
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def _read_on(
        self, reader: PartitionReader, start: dict[tuple[str, int], int], changed: asyncio.Event
    ) -> None:
        async for batch in reader.read(start, None, patience_seconds=None):
            if self._pipeline.fold(batch).touched:
                changed.set()


async def _either(reading: asyncio.Task[None], changed: asyncio.Event) -> None:
    waiting = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if reading.done():
        reading.result()
