"""All runs folded again from the event log, as of an earlier time.

Folding needs numpy; reading what a worker published does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from streamer.client.folded_run import board_run_of, fold_run
from streamer.client.past_runs import PastRuns
from streamer.client.results import BoardRun
from streamer.client.run_log import refuse_future
from streamer.fold import fold_records
from streamer.kafka.log import beginnings_of, read_topic
from streamer.kafka.names import Names
from streamer.kafka.partitioner import partition_of
from streamer.kafka.partitions import partitions_of
from streamer.records import BadPosition, Failure, Position
from streamer.schemas.identity import encode_id
from streamer.score import PriceTable
from streamer.settings import Settings


def fold_runs(
    settings: Settings,
    prices: PriceTable,
    as_of: Position,
    run_id: str | None = None,
    *,
    tasks: bool = True,
) -> PastRuns:
    """All runs, or one, folded again from the event topic as of a position.

    One partition is in memory at a time.

    Args:
        settings: where the broker is.
        prices: the price table (R2).
        as_of: only what came at or before it; of all runs a time.
        run_id: only this run, of which `as_of` may be an offset, too; None: all.
        tasks: whether the tasks of runs that are over are wanted, as boards need them.

    Raises:
        BadPosition: an offset for all runs, or a time in the future.
        TopicMissing, TopicUnreadable, KafkaError: see `streamer.kafka.log`.
        others: of one run as :func:`fold_run`.
    """
    now = datetime.now(UTC)
    if run_id is not None:
        one = fold_run(settings, run_id, prices, as_of)
        begins = _truncated({f"run {run_id!r}": one.log.begins_at})
        return PastRuns([board_run_of(one.run, tasks=tasks)], one.log.moment or now, begins)
    if as_of.at is None:
        raise BadPosition(
            f"offset {as_of} is a place in one partition of the log, and the runs lie in several. "
            "Give a time, as 2026-01-31T09:30:00Z, or name one run"
        )
    refuse_future(as_of)
    topic = Names(settings.namespace).trial_events
    count = len(asyncio.run(partitions_of(settings, topic)))
    found, failed = list[BoardRun](), list[Failure]()
    for partition in range(count):
        held, broken = _fold_partition(settings, topic, partition, count, prices, as_of, tasks=tasks)
        found += held
        failed += broken
    found.sort(key=_latest, reverse=True)
    beginnings = asyncio.run(beginnings_of(settings, topic))  # what was deleted meanwhile may be missing
    begins = _truncated({f"partition {number}": offset for number, offset in beginnings.items()})
    return PastRuns(found, as_of.at, begins, failed)


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
    """The runs of one partition; events that lie in a wrong one are published to the right one again."""
    folding = fold_records(
        read_topic(settings, topic, [partition]),
        prices=prices,
        owns=lambda run_id: partition_of(run_id, count) == partition,
        as_of=as_of,
    )
    found = []
    for run_id in folding.runs():
        try:
            found.append(board_run_of(folding.pipeline.run(run_id), tasks=tasks))
        except Exception as error:
            folding.pipeline.fail(run_id, error)
    return found, folding.failed


def _truncated(beginnings: Mapping[str, int]) -> dict[str, int]:
    return {whose: offset for whose, offset in beginnings.items() if offset}


def _latest(one: BoardRun) -> tuple[float, str]:
    """As Redis orders runs: by the latest event, then by the encoded id."""
    at = one.run.last_event_at
    return (0.0 if at is None else at.timestamp(), encode_id(one.run.run_id))
