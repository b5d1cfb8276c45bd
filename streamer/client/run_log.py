"""The records of one run in the event topic, up to its present end or to an earlier position."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property

from streamer.kafka.log import beginning_of, read_topic
from streamer.kafka.names import Names
from streamer.records import BadPosition, LogRecord, Position, may_name, time_of, up_to
from streamer.settings import Settings


def refuse_future(as_of: Position) -> None:
    """Raises BadPosition for a time that has not come yet."""
    if as_of.at is not None and as_of.at > datetime.now(UTC):
        raise BadPosition(f"{as_of} is in the future, so nothing is known as of it")


class RunLog:
    """The partition of the event topic that a run lives in.

    Args:
        settings: where the broker is.
        run_id: the run.
        as_of: nothing after it is read; None: up to the present end.

    Attributes:
        topic: full name of the event topic.
        moment: the time of `as_of`, or of the last record before it; None: not known.

    Raises:
        BadPosition: the log cannot say anything as of that position.
        TopicMissing, KafkaError: see `streamer.kafka.log`.
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
        """Offset of the first record that the partition still holds.

        Above 0: what came before was deleted, perhaps events of the run too.
        """
        return asyncio.run(beginning_of(self._settings, self.topic, self._run_id))

    def records(self) -> Iterator[LogRecord]:
        """The records that may concern the run, in order; raises as :func:`~streamer.records.up_to`, too."""
        records = read_topic(self._settings, self.topic, run_id=self._run_id)
        dated = self._as_of is not None and self._as_of.at is not None
        for record in records if self._as_of is None else up_to(records, self._as_of):
            if not dated:
                self.moment = time_of(record) or self.moment
            if may_name(self._run_id, record.value):
                yield record

    def _check(self, as_of: Position) -> None:
        if as_of.offset is not None and as_of.offset < self.begins_at:
            raise BadPosition(
                f"the log of run {self._run_id!r} begins at offset {self.begins_at}, because earlier events "
                f"were deleted. So it cannot be folded as of {as_of}"
            )
        refuse_future(as_of)
