"""How Faust recovers the tables from their changelogs, with its faults fixed."""

from __future__ import annotations

import logging
from typing import Any, cast

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP
from mode import Service
from mode.utils.queues import ThrowableQueue

log = logging.getLogger(__name__)

STANDBY_NEWS_SECONDS = 1.0


class RecoveryIncomplete(RuntimeError):
    """Faust says that the tables are recovered, but they are not."""

    def __init__(self, topic: str, partition: int, reached: object, end: object) -> None:
        super().__init__(
            f"partition {partition} of {topic} was recovered up to offset {reached}, it ends at {end}; "
            "going on would publish from half a state. The worker ends; start it again"
        )


def rebalances(app: Any) -> int:
    """How many rebalances have begun so far, those at work included."""
    return int(app.rebalancing_count)


class PatientRecovery(Recovery):
    """Faust's recovery, with three of its faults fixed.

    - When one of its timeouts passes, it takes that for a stop and ends without a word. The worker would then
      hold its partitions and never fold a record. Here nothing times out but the client's calls.
    - It resumes the event partitions before it seeks them to their committed offsets, and clears the queues
      of the streams after that. So records fetched in between are lost until the next rebalance. Here the
      event partitions are resumed last.
    - It swallows the news of another rebalance while it reads changelogs, and completes with what it has
      until then. Here that ends quietly: the recovery that the other rebalance asked for follows.
    """

    logger = logging.getLogger("faust.streamer")

    async def _wait(self, coro: Any, timeout: Any = None) -> None:  # noqa: ASYNC109
        await super()._wait(coro, timeout=None)

    def _add(self, table: Any, tp: TP, offsets: Any) -> None:
        """Read on from what the store has; Faust would go by what it once handed to a store that is gone."""
        self.tp_to_table[tp] = table
        offsets[tp] = table.persisted_offset(tp)

    async def _build_offsets(self, consumer: Any, tps: set[TP], destination: Any, title: str) -> None:
        """Where to read on; a store that claims more than the changelog has is of another changelog."""
        claimed = {tp: offset for tp in tps if (offset := destination[tp]) is not None and offset >= 0}
        for tp, end in (await consumer.highwaters(*claimed) if claimed else {}).items():
            if claimed[TP(*tp)] >= (end or 0):
                log.warning("%s: local rows go past its end and are dropped", TP(*tp))
                cast(Any, self.tp_to_table[TP(*tp)]).data.forget(tp.partition)
                destination[TP(*tp)] = None
        await super()._build_offsets(consumer, tps, destination, title)
        if title == "active":
            ends = self.active_highwaters
            unread = sum(max(ends[tp] - destination[tp], 0) for tp in tps)
            log.info("recovery: %d records of the changelogs to read, %d partitions", unread, len(tps))

    @Service.task
    async def _tell_of_standbys(self) -> None:
        """Say how far the standby copies are, whenever they have moved."""
        told = 0
        while not self.should_stop:
            await self.sleep(STANDBY_NEWS_SECONDS)
            reached = {tp: self.standby_offsets[tp] for tp in self.standby_tps}
            copied = sum((offset or 0) + 1 for offset in reached.values() if offset is not None)
            if copied != told:
                ends = {tp: self.app.consumer.highwater(tp) or 0 for tp in reached}
                behind = sum(max(end - 1 - (reached[tp] or 0), 0) for tp, end in ends.items())
                log.info("standby: %d changelog records copied, %d behind", copied, behind)
            told = copied

    _rebalance = 0

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        """Partitions are assigned; their recovery begins."""
        self._rebalance = rebalances(self.app)
        self.tables.changelog_queue.clear()
        await super().on_rebalance(*args, **kwargs)

    def _overtaken(self, generation_id: int) -> bool:
        """True if another rebalance has begun; its own recovery follows, so this one must resume nothing."""
        return self._rebalance != rebalances(self.app) or self.app.consumer_generation_id != generation_id

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """The tables are recovered: rebuild what hangs on them, then let the events in."""
        if self._overtaken(generation_id):
            return
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


class ChangelogQueue(ThrowableQueue[Any]):
    """Takes changelog records fetched since the last rebalance only.

    One that waited for its turn during the rebalance would come before those that are read again, and Faust
    skips what is older than what it has seen.
    """

    app: faust.App

    def _put(self, event: Any) -> None:
        if event.message.generation_id == self.app.consumer_generation_id:
            super()._put(event)


class PatientTableManager(TableManager):
    """Faust's table manager with `PatientRecovery` and `ChangelogQueue`, and without a rest of a second."""

    logger = logging.getLogger("faust.streamer")

    async def on_start(self) -> None:
        """Begin; all tables are known."""
        await self._update_channels()
        await self.recovery.start()

    @property
    def changelog_queue(self) -> ThrowableQueue[Any]:
        """Changelog records on their way to the recovery."""
        if self._changelog_queue is None:
            queue = ChangelogQueue(
                maxsize=self.app.conf.stream_buffer_maxsize,
                flow_control=self.app.flow_control,
                clear_on_resume=True,
            )
            queue.app = cast(faust.App, self.app)
            self._changelog_queue = queue
        return self._changelog_queue

    @property
    def recovery(self) -> Recovery:
        """The recovery service."""
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    def check_recovered(self) -> None:
        """Raise RecoveryIncomplete unless every changelog of this worker was read to its end."""
        recovery = self.recovery
        for tp in recovery.active_tps:
            end, reached = recovery.active_highwaters.get(tp), recovery.active_offsets.get(tp)
            if end is None or reached is None or reached < end:
                raise RecoveryIncomplete(tp.topic, tp.partition, reached, end)
