"""From cuts of run state to records on topics, and what has to be published again after a recovery."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

import orjson

from streamer.aggregate.changes import RunUpdate, ScoredChange, SummaryChange
from streamer.aggregate.keys import GroupId, SummaryKind
from streamer.kafka.names import Names
from streamer.records import Rejected
from streamer.schemas.identity import run_of_key
from streamer.worker.faust.producer import ProducerRecord
from streamer.worker.faust.tables import Tables

DECIDING = ("digest", "epoch", "superseded", "conflicts", "made_with", "degraded")
"""Fields by which a summary counts as another one; `state_version` and `last_event_at` alone do not."""


class RecordEncoder:
    """Turns changes into records; keeps the tables of summaries up to date with them."""

    def __init__(self, names: Names, tables: Tables) -> None:
        self._names = names
        self._tables = tables

    def of_update(self, partition: int, update: RunUpdate) -> list[ProducerRecord]:
        """Records of one run's cut: summaries, scored trials, news."""
        scored = self.of_scored(partition, update.scored)
        news = [
            ProducerRecord(self._names.grade_changes, partition, _raw(n.key), n.value) for n in update.news
        ]
        return self.of_summaries(partition, update.summaries) + scored + news

    def of_scored(self, partition: int, changes: Iterable[ScoredChange]) -> list[ProducerRecord]:
        """Records of scored trials."""
        return [ProducerRecord(self._names.scored_trials, partition, _raw(s.key), s.value) for s in changes]

    def of_summaries(self, partition: int, changes: Iterable[SummaryChange]) -> list[ProducerRecord]:
        """Records of summaries, which count as published from now on."""
        return [self._tables.summaries[c.kind].publish(partition, c.key, c.value) for c in changes]

    def stored(self, kind: SummaryKind, key: str, value: bytes) -> SummaryChange:
        """A summary as a table holds it."""
        told = orjson.loads(value)
        group = GroupId.of_topic_key(kind, key)
        version = told["state_version"]
        return SummaryChange(run_of_key(key), group, value, told, told["epoch"], version, told["digest"])

    def take_back(self, runs: Collection[str]) -> None:
        """Treat records of these runs that were not written as not published."""
        for table in self._tables.summaries.values():
            table.take_back(lambda key: run_of_key(key) in runs)

    def stored_of_runs(self, partition: int, runs: Collection[str]) -> dict[str, list[SummaryChange]]:
        """The summaries of these runs as the tables hold them; those that cannot be read left out."""
        found: dict[str, list[SummaryChange]] = {run_id: [] for run_id in runs}
        for kind, table in self._tables.summaries.items():
            for key, value in table.of_partition(partition):
                run_id = run_of_key(key)
                if run_id in found:
                    with suppress(ValueError, KeyError, TypeError):
                        found[run_id].append(self.stored(kind, key, value))
        return found

    def of_rejections(self, partition: int, rejections: Iterable[Rejected]) -> list[ProducerRecord]:
        """Records of rejections."""
        return [ProducerRecord(self._names.trial_rejections, partition, r.key, r.value) for r in rejections]

    def without_bytes(self, records: Iterable[ProducerRecord]) -> list[ProducerRecord]:
        """The rejections among these records, without the bytes of what they reject."""
        rejections = [record for record in records if record.topic == self._names.trial_rejections]
        bodies = [orjson.loads(rejection.value or b"{}") for rejection in rejections]
        values = [orjson.dumps(body | {"source_value_base64": None}) for body in bodies]
        return [one._replace(value=value) for one, value in zip(rejections, values, strict=True)]

    def differs(self, change: SummaryChange) -> bool:
        """True if the table does not say what this summary says, except for when it was last touched."""
        value = self._tables.summaries[change.kind].get(change.key)
        if value is None or change.summary is None:
            return value is not change.value
        known = orjson.loads(value)
        return any(known.get(name) != change.summary.get(name) for name in DECIDING)

    def orphans(
        self, partition: int, current: dict[str, list[SummaryChange]], epoch: int
    ) -> list[SummaryChange]:
        """Tombstones for groups that the tables still hold though their run does not have them any more.

        Args:
            current: every summary of each run that the partition knows.
        """
        standing = {(c.kind, c.key) for changes in current.values() for c in changes if c.value is not None}
        found = []
        for kind, table in self._tables.summaries.items():
            for key, value in table.of_partition(partition):
                if run_of_key(key) in current and (kind, key) not in standing:
                    found.append(_tombstone(kind, key, orjson.loads(value), epoch))
        return found


def _tombstone(kind: SummaryKind, key: str, old: dict[str, Any], epoch: int) -> SummaryChange:
    epoch = max(epoch, int(old["epoch"]))
    group = GroupId.of_topic_key(kind, key)
    return SummaryChange.tombstone(run_of_key(key), group, epoch, int(old["state_version"]))


def _raw(key: str) -> bytes:
    return key.encode("utf-8")
