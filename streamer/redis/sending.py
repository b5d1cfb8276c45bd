"""Sends runs to Redis: one script call for each, many in a round trip, and the keys across runs with them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from redis.asyncio import Redis

from streamer.redis.across_runs import AcrossRuns
from streamer.redis.entry import KeyState
from streamer.redis.keys import Keys
from streamer.redis.reconcile import Write, Writes
from streamer.redis.script import NOT_TAKEN, WriteRun
from streamer.redis.unsent import Unsent

log = logging.getLogger(__name__)

ENTRIES_PER_ROUND_TRIP = 500
"""About 2 MiB a pipeline."""


class Sending:
    """Sends what waits in `unsent`, or whole runs. Not to be used by two tasks at once.

    Attributes:
        refused: runs one of whose keys somebody made a key of another type.
        rewrite_due: runs whose keys across runs may say something else, with the benchmarks concerned.
    """

    def __init__(
        self, client: Redis, keys: Keys, unsent: Unsent, writes: Writes, expire_seconds: int | None
    ) -> None:
        self.refused: set[str] = set()
        self.rewrite_due: defaultdict[str, set[str]] = defaultdict(set)
        self._client = client
        self._unsent = unsent
        self._writes = writes
        self._write_run = WriteRun(keys, expire_seconds)
        self._across = AcrossRuns(client, keys, expire_seconds)
        self._not_taken: set[str] = set()

    async def send_unsent(self, runs: Collection[str] | None) -> None:
        """Send the unsent values of some runs, or of all; whole runs where Redis does not take the changes.

        Raises:
            ResponseError: Redis takes no writes at all: it is read-only, out of memory and the like.
        """
        await self._send(self._waiting(self._unsent.runs() if runs is None else runs))
        if not_taken := list(self._not_taken):
            self._not_taken.clear()
            await self._send(self._waiting(not_taken))
        await self._rewrite()

    async def send_whole(self, writes: Sequence[Write]) -> None:
        """Send whole runs, and correct what the keys across runs say of them; raises as `send_unsent`."""
        for write in writes:
            benchmark = self._across.benchmark(write.run_id)
            self.rewrite_due[write.run_id] |= {benchmark} if benchmark else set()
        await self._send(writes)
        await self._rewrite()

    def _waiting(self, runs: Collection[str]) -> Iterator[Write]:
        """The writes of the unsent values; values of runs that went to other workers are forgotten.

        The runs of which least waits come first: one that is too large for Redis delays no other.
        """
        for run_id in sorted(runs, key=lambda run_id: len(self._unsent.of(run_id))):
            if run_id in self._unsent.incomplete:
                self._writes.forget(run_id)
            entries = self._unsent.of(run_id)
            write = self._writes.changes(run_id, entries) if entries else None
            if write is not None:
                yield write
            else:
                self._forget(entries)

    async def _send(self, writes: Iterable[Write]) -> None:
        """Send, some at a time. A run that Redis refuses for a foreign key does not keep back the others."""
        for batch in _batches(writes):
            refusals = await self._round_trip(batch)
            self.refused = (self.refused - {write.run_id for write in batch}) | refusals.keys()
            for run_id, refusal in refusals.items():
                if "WRONGTYPE" not in str(refusal):
                    raise refusal
                log.warning(
                    "Redis refuses run %s (%s): remove the foreign key; trying again", run_id, refusal
                )

    async def _round_trip(self, writes: Sequence[Write]) -> dict[str, Exception]:
        """One round trip; the runs that Redis refused, and why."""
        pipe = self._client.pipeline(transaction=False)
        sent = []
        for write in writes:
            start, known = len(pipe), self._across.benchmark(write.run_id)
            pipe.execute_command(*self._write_run.command(write))
            for command in self._across.commands(write.run_id, write.entries):
                pipe.execute_command(*command)
            sent.append((write, known, slice(start, len(pipe))))
        replies = await pipe.execute(raise_on_error=False)
        refusals = {}
        for write, known, span in sent:
            refusal = next((reply for reply in replies[span] if isinstance(reply, Exception)), None)
            if refusal:
                refusals[write.run_id] = refusal
            elif int(replies[span.start][0]) == NOT_TAKEN:
                self._writes.forget(write.run_id)
                self._not_taken.add(write.run_id)
            else:
                self._sent(write, replies[span.start], known)
        return refusals

    def _sent(self, write: Write, reply: list[Any], known: str | None) -> None:
        """Redis has these entries, or newer ones: see whether the keys across runs may say something else."""
        refusals, before, run_id = int(reply[0]), reply[1].decode() or None, write.run_id
        self._writes.done(write)
        self._forget(write.unsent)
        now = self._across.benchmark(run_id)
        if refusals or before != now or known not in (None, now):
            self.rewrite_due[run_id] |= {name for name in (before, known, now) if name}

    def _forget(self, entries: Iterable[KeyState]) -> None:
        for entry in entries:
            self._unsent.discard(entry)

    async def _rewrite(self) -> None:
        if not self.rewrite_due:
            return
        due, self.rewrite_due = self.rewrite_due, defaultdict(set)
        try:
            await self._across.rewrite(due)
        except BaseException:
            for run_id, benchmarks in due.items():
                self.rewrite_due[run_id] |= benchmarks
            raise


def _batches(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """As many as fit a round trip; one that does not fit goes alone. Asked for when their turn comes."""
    batch: list[Write] = []
    for write in writes:
        if batch and sum(len(one.entries) for one in (*batch, write)) > ENTRIES_PER_ROUND_TRIP:
            yield batch
            batch = []
        batch.append(write)
    if batch:
        yield batch
