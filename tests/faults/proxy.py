"""A TCP proxy on one link, so that the link can be slowed, cut or refused while both ends go on.

What a client has sent before a cut arrives when the cut is over, also if the client is gone by then: so do
late packets of a dead worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from streamer.storage.outbox import LoopThread

CHUNK_BYTES = 64 * 1024


@dataclass(eq=False)
class Link:
    """One listening port in front of one server; its verbs may be called from any thread.

    Attributes:
        port: where clients connect, chosen by the system when it starts.
        target: port of the server on loopback.
        delay_seconds: each chunk waits so long, in both directions.
    """

    threads: LoopThread
    target: int = 0
    port: int = 0
    delay_seconds: float = 0.0
    _refusing: bool = False
    _token: bytes | None = None
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    def start(self) -> Link:
        """Listen."""
        self._open.set()
        self.threads.submit(self._listen()).result(10)
        return self

    def stop(self) -> None:
        """Close everything."""
        self.threads.submit(self._close()).result(10)

    def cut(self) -> None:
        """Nothing passes, in neither direction; connections stay open, new ones are taken and starve."""
        self.threads.loop.call_soon_threadsafe(self._open.clear)

    def cut_at(self, token: bytes) -> None:
        """Cut when a client next sends this, before it passes."""
        self._token = token

    @property
    def is_cut(self) -> bool:
        """True while nothing passes."""
        return not self._open.is_set()

    def slow(self, seconds: float) -> None:
        """Every chunk is held up by so many seconds."""
        self.delay_seconds = seconds

    def refuse(self) -> None:
        """Reset every connection and every attempt at one."""
        self._refusing = True
        self.threads.loop.call_soon_threadsafe(self._reset)

    def heal(self) -> None:
        """As if nothing had been; what a cut held back goes out first."""
        self._refusing, self._token, self.delay_seconds = False, None, 0.0
        self.threads.loop.call_soon_threadsafe(self._open.set)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        self._open.set()
        self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pump(reader, server_writer), self._pump(server_reader, writer))
        finally:
            self._writers -= both
            for one in both:
                one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read always, so that nothing is lost with the sender; write when the link lets it through."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        passing = asyncio.ensure_future(self._pass(chunks, writer))
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._token is not None and self._token in data:
                    self._open.clear()
                chunks.put_nowait((clock() + self.delay_seconds, data))
        chunks.put_nowait((0.0, b""))
        await passing

    async def _pass(self, chunks: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while True:
                due, data = await chunks.get()
                if (wait := due - clock()) > 0:
                    await asyncio.sleep(wait)
                await self._open.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()
