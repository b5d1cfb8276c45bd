"""The broker as `up` and users see it: what it acknowledges is in the journal, synced.

A thread of this process serves the clients (`proxy`), so the end of this process ends everything at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from streamer.embedded.broker import Broker
from streamer.embedded.errors import EmbeddedError, ServerFailed
from streamer.embedded.event_log import EventLog, load
from streamer.embedded.journal import Journal
from streamer.embedded.journal_format import Frame
from streamer.embedded.probe import claimed_port
from streamer.embedded.proxy import Proxy
from streamer.kafka.names import Names
from streamer.kafka.wire import BUFFER_BYTES, Connection
from streamer.settings import Settings

LOOK_SECONDS = 0.1
STOP_SECONDS = 10.0
PROGRESS_SECONDS = 3.0


class DurableBroker:
    """Started when all journalled events are loaded.

    Args:
        settings: namespace, partitions and compression; the bootstrap says where to listen.
        journal: folder of the journal; None: keep nothing.
        log: the broker's log.
        forwarder: client id of the worker (see `proxy`).
        echo: takes lines for the user, from another thread too.
    """

    def __init__(
        self, settings: Settings, journal: Path | None, log: Path, forwarder: str, echo: Callable[[str], None]
    ) -> None:
        self.port = int(settings.bootstrap.rpartition(":")[2])
        self.loaded: Mapping[int, int] = {}
        """Events that the journal held at the start, by partition."""
        self.problem: str | None = None
        """Why it takes no events now; None while all is well."""
        self._settings = settings
        self._journal = None if journal is None else Journal(journal)
        self._directory = journal
        self._forwarder = forwarder
        self._echo = echo
        self._broker = Broker(advertised=self.port, log=log)
        self._ready = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="embedded broker", daemon=True)

    @property
    def bootstrap(self) -> str:
        """Where clients connect, `host:port`."""
        return self._settings.bootstrap

    @property
    def broker_pid(self) -> int:
        """Process id of the broker."""
        return self._broker.broker_pid

    def start(self) -> None:
        """Start it and return when all journalled events are in it. No deadline: journals may be long."""
        self._listener = claimed_port(self.port)
        self._broker.start()
        self._thread.start()
        while not self._ready.wait(LOOK_SECONDS):
            self.check()

    def check(self) -> None:
        """Raise EmbeddedError if it has ended."""
        broker = self._broker.child
        if not broker.alive:
            kept = "Nothing is kept" if self._journal is None else "All that was acknowledged is kept"
            what = f"ended ({broker.exit_code}). {kept}: start `streamer up` again"
            raise ServerFailed(broker.name, what, broker.log)
        if not self._thread.is_alive():
            raise EmbeddedError(f"The embedded broker cannot go on: {self._failure!r}.") from self._failure

    def stop(self) -> None:
        """End it. Nothing has to be saved: what was acknowledged is in the journal."""
        self._broker.stop()
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._failure = error
        finally:
            self._listener.close()
            if self._journal is not None:
                self._journal.close()

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)
        broker = await Connection.open(self._broker.port)
        try:
            await self._serve_until(stop, broker)
        finally:
            broker.close()

    async def _serve_until(self, stop: asyncio.Event, broker: Connection) -> None:
        topic, partitions = Names(self._settings.namespace).trial_events, self._settings.partitions
        await broker.create_topic(topic, partitions)
        self.loaded = await load(topic, partitions, self._journalled(), broker, self._settings.compression)
        log = EventLog(topic, self._journal, broker, self._trouble)
        proxy = Proxy(log, partitions, self._broker.port, self._forwarder)
        server = await asyncio.start_server(proxy.serve, sock=self._listener, limit=BUFFER_BYTES)
        self._ready.set()
        running, stopping = asyncio.ensure_future(log.run()), asyncio.ensure_future(stop.wait())
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.close()
        if running.done():
            running.result()

    def _journalled(self) -> Iterator[Frame]:
        said = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal said
            if time.monotonic() - said >= PROGRESS_SECONDS:
                said = time.monotonic()
                self._echo(f"Loading the journal: {done / 2**20:,.0f} of {total / 2**20:,.0f} MiB.")

        return iter(()) if self._journal is None else self._journal.read(self._echo, progress)

    def _trouble(self, error: OSError | None) -> None:
        if error is None:
            self.problem = None
            self._echo("The journal can be written again: events are accepted.")
            return
        self.problem = (
            f"The journal {self._directory} cannot be written ({error.strerror}): no event is acknowledged. "
            "Make room on that disk; publishers try again by themselves."
        )
        self._echo(self.problem)
