"""The event log, folded again from its beginning: what the summaries and scored trials should be."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.aggregate.changes import SummaryChange
from streamer.aggregate.run import Run
from streamer.fold import BATCH
from streamer.kafka.log import read_topic
from streamer.kafka.names import Names
from streamer.ops.differences import scored_digests
from streamer.pipeline import Pipeline
from streamer.redis.entry import IN_FLIGHT, TASKS, entry_of
from streamer.score import PriceTable
from streamer.settings import Settings


@dataclass(slots=True)
class FoldedLog:
    """The summaries that follow from the log, by run.

    Attributes:
        runs: summaries by key suffix; {} for a deleted run.
        hashes: of each run in `runs`, by key suffix: fields and values of what Redis holds as a hash.
        scored: digests of the scored trials by key, if they were asked for.
        failed: why a run could not be folded.
        others: runs in the log that were not folded.
    """

    runs: dict[str, dict[str, SummaryChange]] = field(default_factory=dict)
    hashes: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    scored: dict[str, dict[bytes, str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


def fold_log(settings: Settings, *, prices: PriceTable, run_id: str | None, scored: bool) -> FoldedLog:
    """Read every partition, since records may be misplaced, and fold one run, or all if `run_id` is None.

    Args:
        settings: where the broker is.
        prices: the price table of the workers (R2).
        run_id: the run; None: all.
        scored: whether to work out the digests of the scored trials too.

    Raises:
        TopicMissing, TopicUnreadable, KafkaError, TimeoutError: the log cannot be read.
    """
    log = FoldedLog()
    pipeline = _fold(settings, prices, run_id, log)
    for known in pipeline.runs():
        try:
            changes = pipeline.run(known).summaries()
            log.runs[known] = {entry_of(change, news=False).suffix: change for change in changes}
            log.hashes[known] = _hashes(pipeline.run(known))
            if scored:
                log.scored[known] = scored_digests(pipeline.run(known).take_scored())
        except Exception as error:
            pipeline.fail(known, error)
    log.failed = {failure.run_id: failure.reason for failure in pipeline.failed.values()}
    return log


def _hashes(run: Run) -> dict[str, dict[str, str]]:
    in_flight = {slot: trial.decode() for slot, trial in run.in_flight_by_slot().items()}
    return {IN_FLIGHT: in_flight, TASKS: run.comparisons.tasks()}


def _fold(settings: Settings, prices: PriceTable, run_id: str | None, log: FoldedLog) -> Pipeline:
    """Fold the log; again, as workers do, if it deletes a run that failed before the deletion came."""
    topic, deletions = Names(settings.namespace).trial_events, dict[str, int]()
    while True:
        pipeline = Pipeline(prices=prices, owns=None if run_id is None else run_id.__eq__)
        for deleted, revision in deletions.items():
            pipeline.delete(deleted, revision)
        later: dict[str, int] = {}
        records = read_topic(settings, topic)
        while batch := [record for _, record in zip(range(BATCH), records, strict=False)]:
            folded = pipeline.fold(batch)
            log.others.update(other for _, other in folded.misplaced)
            later |= folded.deletions
        if not later:
            return pipeline
        deletions |= later
