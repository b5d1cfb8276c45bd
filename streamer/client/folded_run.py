"""A run folded again from the event log, up to its present end or as of an earlier position.

Folding needs numpy; reading what a worker published does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.run import Run
from streamer.client.results import BoardRun, ComparedRun, RunSnapshot
from streamer.client.run_log import RunLog
from streamer.client.snapshots import board_run, compared_run, kinds_of, parsed, snapshot_of
from streamer.client.trials import NotInLog
from streamer.decoding import event_in
from streamer.fold import BATCH, After, CannotBeFolded, fold_records
from streamer.records import LogRecord, Position, time_of
from streamer.redis.entry import IN_FLIGHT, TASKS
from streamer.redis.keys import Keys
from streamer.schemas.decode import Reason
from streamer.schemas.summaries import RunSummary
from streamer.score import PriceTable
from streamer.settings import Settings


class NothingYet(Exception):
    """Nothing stands of a run as of a position."""

    def __init__(self, run_id: str, as_of: Position, first: LogRecord) -> None:
        at = time_of(first)
        when = "" if at is None else f" ({Position(at=at)})"
        super().__init__(
            f"nothing stands of run {run_id!r} as of {as_of}. Its first event is at offset "
            f"{first.offset}{when}"
        )


@dataclass(frozen=True)
class FoldedRun:
    """A run as the log says it, with the answers of `StateReader` that a worker's summaries would give.

    Attributes:
        run: the run itself, not counted yet.
        log: where it was read.
    """

    run: Run
    log: RunLog

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run.state.run_id

    def snapshot(self) -> RunSnapshot:
        """The run with its agents, tiers and trials in flight."""
        found = snapshot_of(Keys(), self.run_id, stored_of(self.run))
        assert found is not None, "the run exists"
        return found

    def comparison(self) -> ComparedRun:
        """The agents of the run compared, with their ranks, and its tasks."""
        found = compared_run(Keys(), self.run_id, stored_of(self.run))
        assert found is not None, "the run exists"
        return found

    def scored_trials(self) -> list[bytes]:
        """The scored trial of every filled slot, by key."""
        changes = sorted(self.run.take_scored(), key=lambda change: change.key)
        return [change.value for change in changes if change.value is not None]


def board_run_of(run: Run, *, tasks: bool = True) -> BoardRun:
    """A folded run that exists, as `StateReader.board_runs` gives it; `tasks` False: without its tasks."""
    run_id, held = run.state.run_id, stored(run.summaries(comparison=False), {})
    if tasks and TASKS in kinds_of(parsed(RunSummary, Keys().run(run_id), held["run"])):
        held |= stored([], {TASKS: run.comparisons.tasks()})
    found = board_run(Keys(), run_id, held)
    assert found is not None, "the run exists"
    return found


def stored_of(run: Run) -> dict[str, Any]:
    """Key suffix to value, as Redis holds them of a folded run."""
    changes = run.summaries()
    return stored(changes, {TASKS: run.comparisons.tasks(), IN_FLIGHT: run.in_flight_by_slot()})


def stored(changes: list[SummaryChange], hashes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Key suffix to value: the summaries, and the fields and values of the hashes, as Redis answers them."""
    values: dict[str, Any] = {change.group.redis_suffix: change.value for change in changes}
    for suffix, fields in hashes.items():
        values[suffix] = [part for field in fields.items() for part in field]
    return values


def fold_run(
    settings: Settings,
    run_id: str,
    prices: PriceTable,
    as_of: Position | None = None,
    *,
    step: int = BATCH,
    after: After | None = None,
) -> FoldedRun:
    """A run, folded again from the event topic.

    Args:
        settings: where the broker is.
        run_id: the run.
        prices: the price table (R2).
        as_of: only what came at or before it; None: everything.
        step: as of `fold_records`.
        after: likewise.

    Raises:
        NotInLog: the event topic holds nothing of the run.
        NothingYet: it does, but nothing stands as of that position.
        CannotBeFolded: an exception sets the run apart.
        BadPosition: see `RunLog`.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
    """
    log = RunLog(settings, run_id, as_of)
    folding = fold_records(log.records(), prices=prices, owns=run_id.__eq__, step=step, after=after)
    if failure := folding.pipeline.failed.get(run_id):
        raise CannotBeFolded(failure)
    if run_id in folding.runs():
        return FoldedRun(folding.pipeline.run(run_id), log)
    raise nothing_of(settings, run_id, as_of, log.topic)


def nothing_of(settings: Settings, run_id: str, as_of: Position | None, topic: str) -> Exception:
    """Why nothing stands of a run: NotInLog, or NothingYet where its first event comes later."""
    if as_of is not None:
        for record in RunLog(settings, run_id).records():
            event, _ = event_in(record.value)
            if not isinstance(event, Reason) and event.run_id == run_id:
                return NothingYet(run_id, as_of, record)
    return NotInLog(run_id, topic)
