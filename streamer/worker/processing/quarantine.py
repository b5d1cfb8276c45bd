"""Runs that cannot be folded, scored, saved or published: set apart, so that all others go on.

An exception in what is computed for one run drops that run from memory (`Partition.guard`, `Pipeline.fold`).
Before the events that led there count as done, this writes it down in three places. A record among the state
pages holds the run back with the next owner of the partition, too. Each of its last good summaries gets the
reason. A rejection has the event, where one can be named. `repair` folds such a run again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from streamer.aggregate.changes import InFlightChange, RunUpdate, SummaryChange, TasksChange
from streamer.aggregate.keys import SummaryKind
from streamer.kafka.quarantine import BY_DELETION, Quarantine, quarantine_key, repair_key
from streamer.records import Failure, Rejected, reject, set_apart
from streamer.redis.sink import RedisSink
from streamer.schemas.canonical import canonical_json
from streamer.schemas.identity import run_of_key
from streamer.text import visible
from streamer.worker.faust.producer import Producer, ProducerRecord, RecordsRefused, RecordTooLarge
from streamer.worker.faust.tables import Tables
from streamer.worker.processing.partition import Partition, QuarantinedRun
from streamer.worker.processing.record_encoding import RecordEncoder

log = logging.getLogger(__name__)


class QuarantineWriter:
    """Writes down which runs are set apart."""

    def __init__(self, tables: Tables, encoder: RecordEncoder, producer: Producer, sink: RedisSink) -> None:
        self._tables = tables
        self._encoder = encoder
        self._producer = producer
        self._sink = sink
        self._before: dict[str, dict[tuple[SummaryKind, str], bytes | None]] = {}
        """Run -> its rows from before a write that the broker took only in part."""

    async def write(self, partitions: Mapping[int, Partition], records: Iterable[ProducerRecord]) -> None:
        """Write records of runs; a run of which the broker refuses one for its size is set apart.

        Args:
            partitions: of the records, by number.
            records: keyed by run, see `run_of`.
        """
        records = list(records)
        before = self._tables.summary_rows(records)
        try:
            await self._producer.write(records)
        except RecordsRefused as refusal:
            for record in refusal.records:
                self._before[run_of(record)] = before
                with partitions[record.partition].guard(run_of(record)):
                    raise RecordTooLarge(record, "more than the broker takes") from refusal

    async def write_aside(self, records: Iterable[ProducerRecord]) -> None:
        """Write rejections and forwarded records; a rejection too large for the broker goes without bytes."""
        try:
            await self._producer.write(records)
        except RecordsRefused as refusal:
            log.error(
                "%s: rejections go without the event's bytes, records to be sent on stay where they are",
                refusal,
            )
            await self._producer.write(self._encoder.without_bytes(refusal.records))

    async def admit(self, partition: Partition) -> None:
        """Write down which runs failed, or were deleted in quarantine, since the last time."""
        partition.let_go_of_failed()
        failed, partition.pipeline.failed = partition.pipeline.failed, {}
        deletions, partition.deletions = partition.deletions, {}
        if not failed and not deletions:
            return
        for failure in failed.values():
            log.error("run %r is in quarantine: %s\n%s", failure.run_id, *_shown(failure))
        updates = self._set_apart(partition, failed)
        for run_id, revision in deletions.items():
            run = partition.quarantined[run_id]
            partition.quarantined[run_id] = run._replace(quarantine=run.quarantine.deleted(revision))
            partition.repairs[run_id] = BY_DELETION
        await self._producer.write(self._record(partition, run_id) for run_id in {*failed, *deletions})
        await self._publish(partition, updates, failed.values())

    def _set_apart(self, partition: Partition, failed: Mapping[str, Failure]) -> list[RunUpdate]:
        """Note the runs; their last good summaries, where those do not say the reason yet.

        The trials in flight and the tasks left memory with the run's state: Redis lists them no more.
        """
        updates = []
        self._encoder.take_back(failed)  # what was too large to be written
        stored = self._encoder.stored_of_runs(partition.number, failed)
        for run_id, failure in failed.items():
            quarantine = self._quarantine(partition, failure, stored[run_id])
            good, gone = self._last_good(run_id, stored[run_id])
            changes = [degraded(change, quarantine) for change in good]
            standing = tuple((change.kind, change.key) for change in changes)
            partition.quarantined[run_id] = QuarantinedRun(quarantine, standing)
            if not standing:
                record = failure.record
                partition.unpublished[run_id] = quarantine.at + 1 if record is None else record.offset
            written = {(old.kind, old.key): old.value for old in stored[run_id]}
            news = [new for new in changes if new.value != written[new.kind, new.key]]
            news += [replace(one, state_version=max(one.state_version, quarantine.at)) for one in gone]
            none = InFlightChange(run_id, {}, partition.epoch, quarantine.at)
            no_tasks = TasksChange(run_id, b"", partition.epoch, quarantine.at)
            updates.append(RunUpdate(run_id, summaries=news, in_flight=none, tasks=no_tasks))
        return updates

    def _last_good(
        self, run_id: str, stored: Iterable[SummaryChange]
    ) -> tuple[list[SummaryChange], list[SummaryChange]]:
        """A run's summaries from before a write that the broker took in part; tombstones of its new ones.

        After any other failure they are what is stored.
        """
        before, good, gone = self._before.pop(run_id, {}), [], []
        for change in stored:
            value = before.get((change.kind, change.key), change.value)
            if value is None:
                gone.append(SummaryChange.tombstone(run_id, change.group, change.epoch, change.state_version))
            else:
                good.append(self._encoder.stored(change.kind, change.key, value))
        return good, gone

    async def restore(self, partition: Partition, run_id: str, found: Iterable[SummaryChange]) -> None:
        """Publish the last good summaries of a run that had none."""
        run = partition.quarantined[run_id]
        changes = [degraded(change, run.quarantine) for change in found]
        standing = tuple((change.kind, change.key) for change in changes)
        partition.quarantined[run_id] = run._replace(summaries=standing)
        await self._publish(partition, [RunUpdate(run_id, summaries=changes)], ())

    async def answered(self, partition: Partition, run_id: str, *, well: bool) -> None:
        """A request to fold a run again was tried; `well`: it is in good order and set apart no more."""
        keys = [repair_key(run_id), quarantine_key(run_id)] if well else [repair_key(run_id)]
        await self._producer.write(self._tables.trials.put(partition.number, key, None) for key in keys)

    def _record(self, partition: Partition, run_id: str) -> ProducerRecord:
        quarantine = partition.quarantined[run_id].quarantine
        return self._tables.trials.put(partition.number, quarantine_key(run_id), quarantine.value())

    def _quarantine(
        self, partition: Partition, failure: Failure, stored: Collection[SummaryChange]
    ) -> Quarantine:
        """The quarantine of a failed run; a run that is in quarantine already keeps its other facts."""
        known = partition.quarantined.get(failure.run_id)
        at = max([failure.at, *(change.state_version for change in stored)])
        if known is None:
            return Quarantine(failure.reason, at)
        return replace(known.quarantine, reason=failure.reason, at=max(at, known.quarantine.at))

    async def _publish(
        self, partition: Partition, updates: list[RunUpdate], failures: Iterable[Failure]
    ) -> None:
        rejections = [rejection for one in failures for rejection in rejection_of(one, partition.silent_to)]
        await self.write_aside(self._encoder.of_rejections(partition.number, rejections))
        outs = [
            out
            for update in updates
            for out in self._encoder.of_summaries(partition.number, update.summaries)
        ]
        try:
            await self._producer.write(outs)
        except RecordsRefused as refusal:
            log.warning("%s; runs in quarantine cannot say so in each summary", refusal)
        await self._sink.write([update for update in updates if update.summaries])


def _shown(failure: Failure) -> tuple[str, str]:
    """Reason and trace for the log, what control characters they have made visible."""
    return visible(failure.reason), "\n".join(map(visible, failure.trace.splitlines()))


def rejection_of(failure: Failure, silent_to: int) -> list[Rejected]:
    """The event at which a run failed, with its bytes; [] if it cannot be named, or was published already."""
    if failure.record is None or failure.record.offset < silent_to:
        return []
    return [reject(failure.record, set_apart(failure), failure.run_id)]


def degraded(change: SummaryChange, quarantine: Quarantine) -> SummaryChange:
    """A last good summary of a run in quarantine, which says why nothing newer is counted.

    It stands at the offset at which the run was set apart: whatever had been published until then is older.
    """
    summary: dict[str, Any] = dict(change.summary or {})
    version = max(change.state_version, quarantine.at)
    summary |= {"degraded": quarantine.reason, "state_version": version}
    return replace(change, summary=summary, value=canonical_json(summary), state_version=version)


def run_of(record: ProducerRecord) -> str:
    """The run that the key of a page, a summary, a scored trial or a piece of news names.

    >>> run_of(ProducerRecord("trials-changelog", 0, b"a%2Fb/w/1", b""))
    'a/b'
    >>> run_of(ProducerRecord("run-summaries", 0, b"a%7Cb", b""))
    'a|b'
    """
    return run_of_key((record.key or b"").decode("utf-8").partition("/")[0])
