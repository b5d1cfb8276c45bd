"""Faust's tables, written per partition: the source of truth `trials` and the four published aggregates.

Faust's tables refuse writes outside a stream, and their sends cannot be awaited. So `producer` writes the
changelog record, and the store gets it here once the record is acknowledged. Faust recovers the tables from
their changelogs, from where the store is complete.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import faust
from faust.types import TP

from streamer.aggregate.keys import SummaryKind
from streamer.kafka.names import Names
from streamer.worker.faust.producer import ProducerRecord
from streamer.worker.faust.stores import StoreOf, StoreRow, memory


class StateTable:
    """One table of bytes by bytes, its partitions apart."""

    def __init__(self, app: faust.App, name: str, topic: str, partitions: int, store: StoreOf) -> None:
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
        table: Any = app.Table(
            name, key_type=bytes, value_type=bytes, partitions=partitions, changelog_topic=changelog
        )
        self.faust = table
        self.rows = store(app, self.faust)
        self.faust._data = self.rows
        self._unacknowledged: dict[bytes, bytes | None] = {}

    def put(self, partition: int, key: str, value: bytes | None) -> ProducerRecord:
        """The changelog record of a write; the table has it as soon as the record is acknowledged."""
        return ProducerRecord(self.topic, partition, key.encode("utf-8"), value)

    def publish(self, partition: int, key: str, value: bytes | None) -> ProducerRecord:
        """As `put`; `published` has it at once."""
        out = self.put(partition, key, value)
        self._unacknowledged[key.encode("utf-8")] = value
        return out

    def published(self, key: str) -> bytes | None:
        """The value that was published last, also where that is not acknowledged yet."""
        raw = key.encode("utf-8")
        return self._unacknowledged[raw] if raw in self._unacknowledged else self.rows.row(raw)

    def take_back(self, of_run: Callable[[str], bool]) -> None:
        """Treat values to publish under these keys that were not acknowledged as not published."""
        for raw in [raw for raw in self._unacknowledged if of_run(raw.decode("utf-8"))]:
            del self._unacknowledged[raw]

    def wrote(self, tp: TP, first: int, rows: Sequence[StoreRow]) -> None:
        """Rows of ours are acknowledged, from offset `first` on."""
        self.rows.wrote(tp, first, rows)
        for key, value in rows:
            if key in self._unacknowledged and self._unacknowledged[key] is value:
                del self._unacknowledged[key]

    def get(self, key: str) -> bytes | None:
        """The value, None if there is none."""
        return self.rows.row(key.encode("utf-8"))

    def of_partition(self, partition: int) -> Iterator[tuple[str, bytes]]:
        """All entries of a partition."""
        return ((raw.decode("utf-8"), value) for raw, value in self.rows.rows(partition))


class Tables:
    """The five tables."""

    def __init__(self, app: faust.App, names: Names, partitions: int, store: StoreOf = memory) -> None:
        def table(name: str, topic: str) -> StateTable:
            return StateTable(app, name, topic, partitions, store)

        self.trials = table("trials", names.trials_changelog)
        self.summaries: dict[SummaryKind, StateTable] = {
            "agent_model": table("agent_model_summaries", names.agent_model_summaries),
            "tier": table("tier_summaries", names.tier_summaries),
            "run": table("run_summaries", names.run_summaries),
            "comparison": table("run_comparisons", names.run_comparisons),
        }
        self._by_topic = {table.topic: table for table in self.all()}

    def all(self) -> list[StateTable]:
        """Every table."""
        return [self.trials, *self.summaries.values()]

    def summary_rows(self, records: Iterable[ProducerRecord]) -> dict[tuple[SummaryKind, str], bytes | None]:
        """What the tables hold at the keys of those records that are summaries; None: nothing yet."""
        kinds = {table.topic: kind for kind, table in self.summaries.items()}
        keys = [(kinds[one.topic], (one.key or b"").decode()) for one in records if one.topic in kinds]
        return {(kind, key): self.summaries[kind].get(key) for kind, key in keys}

    def on_recovered(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call this after each recovery, before any event of the partitions arrives."""
        self.trials.faust.on_recover(callback)

    def written(self, topic: str, partition: int, first: int, records: Sequence[ProducerRecord]) -> None:
        """Records of ours are acknowledged, from offset `first` on: from now on the tables have them."""
        if topic in self._by_topic:
            rows = [(record.key or b"", record.value) for record in records]
            self._by_topic[topic].wrote(TP(topic, partition), first, rows)
