"""The state that all viewers of one run share: its summaries as they stand, each written as an event.

A viewer gets, at its own pace, the changes since its last update: of each summary the latest state, not each
in between. So a slow viewer costs nothing but its position, and ends with the same state as a fast one.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sse_starlette import ServerSentEvent

from streamer.client.change_feed import AnyState
from streamer.client.lifecycle import state_of
from streamer.schemas.canonical import canonical_json
from streamer.schemas.summaries import RunSummary, TierSummary
from streamer.versions import Version, is_older
from streamer.views.models import RunNow

GroupKey = tuple[str, str, str, str]
"""Run id, type, tier or "", agent:model or ""."""


@dataclass(frozen=True, slots=True)
class _Latest:
    revision: int
    version: Version
    digest: str | None
    frame: bytes


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class Room:
    """Summaries by key, in the order in which they changed; a deleted one stays, as the news of that.

    Args:
        clock: the time at which the states of runs are determined.
    """

    def __init__(self, clock: Callable[[], datetime] = _wall_clock) -> None:
        self._clock = clock
        self._runs: dict[GroupKey, RunNow] = {}
        self._incarnation = secrets.token_hex(6)
        self._entries: dict[GroupKey, _Latest] = {}
        self._revision = 0
        self._changed = asyncio.Event()
        self._from_stream: set[GroupKey] | None = set()
        self.viewers = 0

    @property
    def filled(self) -> bool:
        """True once it knows what Redis holds."""
        return self._from_stream is None

    def fill(self, summaries: Iterable[AnyState]) -> None:
        """Take what Redis held a moment ago; an update that came meanwhile stands (a deletion too)."""
        told, self._from_stream = self._from_stream or set(), None
        for summary in summaries:
            if key_of(summary) not in told:
                self.put(summary)

    def put(self, summary: AnyState) -> None:
        """A summary as it stands now; what is older than what is here, or the same, changes nothing."""
        key = key_of(summary)
        version = (summary.epoch, summary.state_version)
        before = self._entries.get(key)
        known = before is not None and before.digest is not None
        if before is not None and known and is_older(version, before.version):
            return
        if before is not None and (version, summary.digest) == (before.version, before.digest):
            return
        if isinstance(summary, RunSummary):
            summary = self._runs[key] = RunNow.of(summary, self._clock())
        self._tell(key, summary.type, version, summary.digest, summary.model_dump(mode="json"))

    def tell_states(self) -> None:
        """Tell the runs again whose state has become another one by the passing of time alone."""
        now = self._clock()
        for key, run in self._runs.items():
            if (state := state_of(run, now)) != run.state:
                self._runs[key] = run = run.model_copy(update={"state": state})
                version = (run.epoch, run.state_version)
                self._tell(key, run.type, version, run.digest, run.model_dump(mode="json"))

    def remove(self, key: GroupKey) -> None:
        """A summary is gone."""
        run_id, kind, tier, agent_model = key
        self._runs.pop(key, None)
        gone = {"run_id": run_id, "type": kind, "tier": tier or None, "agent_model": agent_model or None}
        self._tell(key, "deleted", (0, -1), None, gone)

    def position(self, event_id: str | None) -> int | None:
        """Where a viewer stands whose last event has this id; None: it must start again."""
        incarnation, _, revision = (event_id or "").partition("-")
        if incarnation != self._incarnation or not revision.isascii() or not revision.isdigit():
            return None
        return int(revision) if int(revision) <= self._revision else None

    def since(self, position: int) -> tuple[list[bytes], int]:
        """Everything that changed after a position, oldest change first, and the position after that."""
        frames = []
        for entry in reversed(self._entries.values()):
            if entry.revision <= position:
                break
            frames.append(entry.frame)
        return frames[::-1], self._revision

    async def wait(self, position: int) -> None:
        """Return when there is something after the position, or when woken for nothing."""
        if self._revision <= position:
            await self._changed.wait()

    def wake(self) -> None:
        """Let every viewer look around."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell(self, key: GroupKey, event: str, version: Version, digest: str | None, data: object) -> None:
        if self._from_stream is not None:
            self._from_stream.add(key)
        self._revision += 1
        self._entries.pop(key, None)
        frame = event_bytes(event, data, f"{self._incarnation}-{self._revision}")
        self._entries[key] = _Latest(self._revision, version, digest, frame)
        self.wake()


def key_of(summary: AnyState) -> GroupKey:
    """The run or group of the summary."""
    tier = summary.tier if isinstance(summary, TierSummary) else None
    agent_model = None if isinstance(summary, RunSummary) else summary.agent_model
    return summary.run_id, summary.type, tier or "", agent_model or ""


def event_bytes(event: str, data: object, event_id: str | None = None) -> bytes:
    r"""One server-sent event.

    >>> event_bytes("deleted", {"a": 1}, "x-1")
    b'id: x-1\nevent: deleted\ndata: {"a":1}\n\n'
    """
    return ServerSentEvent(canonical_json(data).decode(), event=event, id=event_id, sep="\n").encode()
