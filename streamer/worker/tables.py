"""Faust's tables, written per partition: the source of truth `trials` and the three published aggregates.

Faust's tables refuse writes outside a stream and their sends cannot be awaited, so the store is written
here and the changelog record by `output`. Faust recovers the tables from their changelogs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, cast

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery

from streamer.aggregate.changes import SummaryKind
from streamer.sinks.names import Names
from streamer.worker.output import Out


class Table:
    """One table of bytes by bytes, and which partition each key came from."""

    def __init__(self, app: faust.App, name: str, topic: str, partitions: int) -> None:
        self.topic = topic
        changelog = app.topic(
            topic,
            key_type=bytes,
            value_type=bytes,
            partitions=partitions,
            key_serializer="raw",
            value_serializer="raw",
            allow_empty=True,
            acks=False,
            internal=True,
        )
        self.faust: Any = app.Table(
            name, key_type=bytes, value_type=bytes, partitions=partitions, changelog_topic=changelog
        )

    def put(self, partition: int, key: str, value: bytes | None) -> Out:
        """Write into the store; returns the changelog record, to be written and awaited."""
        raw = key.encode("utf-8")
        store = self.faust.data
        if value is None:
            store.data.pop(raw, None)
            store._key_partition.pop(raw, None)
        else:
            store.data[raw] = value
            store._key_partition[raw] = partition
        return Out(self.topic, partition, raw, value)

    def get(self, key: str) -> bytes | None:
        """The value, None if there is none."""
        value: bytes | None = self.faust.data.data.get(key.encode("utf-8"))
        return value

    def by_partition(self) -> dict[int, dict[str, bytes]]:
        """All entries, by partition."""
        found: dict[int, dict[str, bytes]] = {}
        values = self.faust.data.data
        for raw, partition in self.faust.data._key_partition.items():
            value = values.get(raw)
            if value:
                found.setdefault(partition, {})[raw.decode("utf-8")] = value
        return found

    def keep_only(self, partitions: Iterable[int]) -> None:
        """Drop the entries of all other partitions: the memory store keeps those of lost ones."""
        kept, store = set(partitions), self.faust.data
        for raw in [raw for raw, partition in store._key_partition.items() if partition not in kept]:
            store.data.pop(raw, None)
            store._key_partition.pop(raw, None)


class Tables:
    """The four tables."""

    def __init__(self, app: faust.App, names: Names, partitions: int) -> None:
        self.trials = Table(app, "trials", names.trials_changelog, partitions)
        self.summaries: dict[SummaryKind, Table] = {
            "agent_model": Table(app, "agent_model_summaries", names.agent_model_summaries, partitions),
            "tier": Table(app, "tier_summaries", names.tier_summaries, partitions),
            "run": Table(app, "run_summaries", names.run_summaries, partitions),
        }

    def all(self) -> list[Table]:
        """Every table."""
        return [self.trials, *self.summaries.values()]


def rebalances(app: Any) -> int:
    """How many rebalances have begun so far, those at work included."""
    return int(app.rebalancing_count)


class PatientRecovery(Recovery):
    """Faust's recovery, with two of its faults mended.

    - When one of its timeouts passes, it takes that for a stop and ends without a word: the worker would
      hold its partitions for ever and never fold a record. Here nothing times out but the client's calls.
    - It resumes the event partitions before it seeks them to their committed offsets, and clears the queues
      of the streams after that: records fetched in between are lost until the next rebalance. Here the
      event partitions are resumed last.
    """

    logger = logging.getLogger("faust.streamer")

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ASYNC109
        await super()._wait(coro, timeout=None)

    _rebalance = 0

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        """Partitions are assigned; their recovery begins."""
        self._rebalance = rebalances(self.app)
        await super().on_rebalance(*args, **kwargs)

    def _overtaken(self, generation_id: int) -> bool:
        """True if another rebalance has begun; its own recovery follows, so this one must resume nothing."""
        return self._rebalance != rebalances(self.app) or self.app.consumer_generation_id != generation_id

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """The tables are recovered: rebuild what hangs on them, then let the events in."""
        consumer = self.app.consumer
        await self.app.on_rebalance_complete.send()
        self._set_recovery_ended()
        for table in self.tables.values():
            await table.on_recovery_completed(self.actives_for_table[table], self.standbys_for_table[table])
        if consumer.assignment() and not self._overtaken(generation_id):
            await self._wait(consumer.perform_seek())
        if self._overtaken(generation_id):
            return
        self.completed.set()
        self.app.flow_control.resume()
        consumer.resume_flow()
        consumer.resume_partitions({tp for tp in consumer.assignment() if not self._is_changelog_tp(tp)})
        await cast(faust.app.base.App, self.app)._fetcher.maybe_start()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        self.app.on_rebalance_end()


class PatientTableManager(TableManager):
    """Faust's table manager with `PatientRecovery`."""

    logger = logging.getLogger("faust.streamer")

    @property
    def recovery(self) -> Recovery:
        """The recovery service."""
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
