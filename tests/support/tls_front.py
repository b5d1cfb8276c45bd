"""TLS in front of a server that has none: one port, the same bytes behind it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Self

from streamer.storage.outbox import LoopThread
from tests.support.certificates import Certificates

CHUNK_BYTES = 64 * 1024


class TlsFront:
    """A server certificate, and everything behind it passed on to a port on loopback; a context manager.

    Attributes:
        port: where clients connect.
    """

    def __init__(self, certificates: Certificates, target: int) -> None:
        self.port = 0
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificates.server, certificates.server.with_suffix(".key"))
        self._target = target
        self._threads = LoopThread("tls front")
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._server: asyncio.Server = self._threads.submit(self._listen()).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.submit(self._close()).result(10)
        self._threads.stop()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        task = asyncio.create_task(_both(reader, to_server, behind, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _both(
    reader: asyncio.StreamReader,
    to_server: asyncio.StreamWriter,
    behind: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.create_task(_pass(reader, to_server)), asyncio.create_task(_pass(behind, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        to_server.close()
        writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
