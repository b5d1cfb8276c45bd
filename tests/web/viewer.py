"""A viewer of a stream, who keeps what it says as the page does, and rooms with summaries in them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from streamer.folding.slots import SummaryChange
from streamer.schemas.summaries import SUMMARY
from streamer.web.protocols.live import Room
from tests.support.eventually import eventually
from tests.web.feeding import Feed, place_of

PATH = "/api/runs/run-1/updates"


class Viewer:
    """Reads one stream in a task of its own; `state` has summaries by place, `events` all names of events."""

    def __init__(self, port: int, path: str, *, headers: dict[str, str] | None = None) -> None:
        self._port = port
        self._path = path
        self._headers = headers or {}
        self.state: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.events: list[str] = []
        self.last_id = ""
        self.status = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> Viewer:
        """Begin, with the last id if there is one."""
        self._task = asyncio.create_task(self._read())
        before = len(self.events)
        await eventually(lambda: "told" in self.events[before:] or self.status >= 400, "the stream begins")
        return self

    async def close(self) -> None:
        """Go away."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def digests(self) -> dict[tuple[str, str, str], str]:
        """Place to digest."""
        return {place: summary["digest"] for place, summary in self.state.items()}

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**24)
        resume = {"Last-Event-ID": self.last_id} if self.last_id else {}
        head = {"Host": f"127.0.0.1:{self._port}", **resume, **self._headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"GET {self._path} HTTP/1.0\r\n{lines}\r\n".encode())  # 1.0: not chunked
        try:
            self.status = int((await reader.readline()).split()[1])
            await reader.readuntil(b"\r\n\r\n")
            while True:
                self._take((await reader.readuntil(b"\n\n")).decode())
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def _take(self, text: str) -> None:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":"))
        event = fields.get("event")
        if event is None:
            return
        data = json.loads(fields["data"])
        if event == "snapshot":
            self.state.clear()
        elif event == "deleted":
            self.state.pop(place_of(data), None)
        elif event != "told":
            self.state[place_of(data)] = data
        self.last_id = fields.get("id", self.last_id)
        self.events.append(event)


Watch = Callable[..., Viewer]


async def converged(viewer: Viewer, feed: Feed, run: str = "run-1") -> None:
    await eventually(lambda: viewer.digests() == feed.digests(run), "the viewer knows what the fold knows")


def summary_of(change: SummaryChange) -> Any:
    """The summary as a viewer's reader has it."""
    return SUMMARY.validate_json(change.value or b"")


def put(room: Room, *changes: SummaryChange) -> None:
    for change in changes:
        room.put(summary_of(change))


def a_room(*changes: SummaryChange) -> Room:
    """A room that was empty, and then was given these."""
    room = Room()
    room.fill([])
    put(room, *changes)
    return room
