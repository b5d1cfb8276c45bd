"""The embedded servers as processes, their ports, and the part of Kafka's protocol that the proxy needs."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

from aiokafka.protocol import produce
from aiokafka.protocol.admin import CreateTopicsRequest_v0
from aiokafka.protocol.metadata import MetadataRequest_v1
from aiokafka.protocol.types import Int32, String

from streamer.operate.local import parent_death


class EmbeddedError(RuntimeError):
    """The embedded stack cannot start or continue."""


class EmbeddedUnavailable(EmbeddedError):
    """This platform has no packaged binary of a server that the embedded stack needs."""

    def __init__(self, server: str, package: str, reason: str) -> None:
        super().__init__(
            f"No {server} for this platform: the package {package} has no usable binary here ({reason}). "
            "The embedded stack runs on Linux and macOS, x86-64 and arm64. Instead, run `docker compose "
            "up` with the repository's docker-compose.yml, or name your own Kafka and Redis with "
            "--bootstrap and --redis (STREAMER_BOOTSTRAP, STREAMER_REDIS)."
        )


@contextmanager
def packaged(server: str, package: str) -> Iterator[None]:
    """A context that raises EmbeddedUnavailable if a server's package lacks a program for this platform."""
    try:
        yield
    except ImportError as error:
        raise EmbeddedUnavailable(server, package, "not installed") from error
    except OSError:  # the disk, or its permissions
        raise
    except Exception as error:
        raise EmbeddedUnavailable(server, package, str(error)) from error


class ServerFailed(EmbeddedError):
    def __init__(self, name: str, what: str, log: Path | None) -> None:
        tail = last_lines(log)
        where = f" Its log is {log}." if log else ""
        said = f" Last output:\n{tail}" if tail else ""
        super().__init__(f"{name} {what}.{where}{said}")


def last_lines(log: Path | None, lines: int = 8) -> str:
    if log is None or not log.is_file():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


# -----------------------------------------------------------------------------
# One server process: started, asked whether it is ready, stopped; never outliving this process.


READY_SECONDS = 15.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02


class Child:
    """A program started through `parent_death`, in its own process group (Ctrl-C reaches only us).

    Start it from a thread that lives as long as the program should (see `parent_death`).
    """

    def __init__(
        self, name: str, argv: Sequence[str], *, log: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started; call start() first")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        if self.alive:
            raise RuntimeError(f"{self.name} is running as process {self.pid}; stop it first")
        argv = [sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid()), *self.argv]
        with Path(self.log or os.devnull).open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  (our own servers)
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.env, process_group=0
            )

    def wait_ready(self, answers: Callable[[], bool], seconds: float = READY_SECONDS) -> None:
        """Wait until `answers()` is true. Raises ServerFailed if the program ends first, or at the
        deadline.
        """
        deadline = time.monotonic() + seconds
        while not answers():
            if not self.alive:
                raise ServerFailed(self.name, f"ended ({self.exit_code}) before it was ready", self.log)
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(self.name, f"did not answer within {seconds:g} s", self.log)
            time.sleep(POLL_SECONDS)

    def wait(self, seconds: float) -> bool:
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Send SIGTERM, then SIGKILL if it still runs after `seconds`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused program does not see SIGTERM
        if not self.wait(seconds):
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL, also to the program where `parent_death` stays its parent."""
        if self._process is None:
            return
        if self.alive:
            with suppress(OSError):  # it ends just now
                os.killpg(self.pid, signal.SIGKILL)
            self._process.kill()
        self._process.wait()


class Server:
    """A local server on a loopback port; use it as a context manager."""

    def __init__(
        self,
        name: str,
        port: int,
        argv: Sequence[str],
        answers: Callable[[int], bool],
        stop_seconds: float = STOP_SECONDS,
        **others: Any,
    ) -> None:
        self.port = port
        self.child = Child(name, argv, **others)
        self._answers, self._stop_seconds = answers, stop_seconds

    def start(self) -> None:
        self.child.start()
        self.child.wait_ready(lambda: self._answers(self.port))

    def stop(self) -> None:
        self.child.stop(self._stop_seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# -----------------------------------------------------------------------------
# SIGINT, SIGTERM and SIGHUP as one exception for the requested end.


NUMBERS = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
EXIT_FORCED = 130


class Stopped(BaseException):
    """A request by the user or the system to end."""


class Signals:
    def __init__(self) -> None:
        self._forced = False

    def force_from_now_on(self) -> None:
        """Let the next signal end this process at once (its children then end by themselves)."""
        self._forced = True

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._forced:
            os._exit(EXIT_FORCED)
        raise Stopped


@contextmanager
def stopped_by_signals() -> Iterator[Signals]:
    """A context in which the first signal raises Stopped in the main thread; nohup's SIGHUP does not."""
    signals = Signals()
    ignored = [number for number in NUMBERS[2:] if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, signals.handle) for number in NUMBERS if number not in ignored}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -----------------------------------------------------------------------------
# The part of Kafka's protocol that the proxy needs: frames, produce requests, the offered versions.
#
# Clients are offered the versions 3 to 7 of produce requests, which have one layout. Newer versions differ
# only in features that the embedded broker lacks. Requests for the id of a producer are read likewise.


PRODUCE, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 3, 18, 19, 22
NO_CONTROLLER = -1
OLDEST, NEWEST = 3, 7
MAX_FRAME_BYTES = 100 * 1024 * 1024

BUFFER_BYTES = 1024 * 1024
CLIENT = "streamer-up"
TIMEOUT_MS = 30_000

_REQUESTS = {version: getattr(produce, f"ProduceRequest_v{version}") for version in range(OLDEST, NEWEST + 1)}
_RESPONSES = {version: request.RESPONSE_TYPE for version, request in _REQUESTS.items()}
_OFFERED = {PRODUCE: (OLDEST, NEWEST), INIT_PRODUCER_ID: (0, 1)}
_HEAD = struct.Struct(">hhi")
_RANGE = struct.Struct(">hhh")

Records = Sequence[tuple[int, bytes | None]]


class ProtocolError(ConnectionError):
    """A violation of the protocol by the other side, which ends the connection."""


class ProduceResult(NamedTuple):
    """The answer for the records of one partition: an error code, 0 without one, and the first offset."""

    partition: int
    error: int
    offset: int = -1


class Request(NamedTuple):
    api_key: int
    version: int
    correlation_id: int

    @classmethod
    def of(cls, frame: bytes) -> Request:
        if len(frame) < _HEAD.size:
            raise ProtocolError("a request without a header")
        return cls(*_HEAD.unpack_from(frame))


class Produce(NamedTuple):
    head: Request
    client_id: str | None
    transactional_id: str | None
    acks: int
    topics: Sequence[tuple[str, Records]]

    @classmethod
    def of(cls, frame: bytes) -> Produce:
        head, stream = Request.of(frame), BytesIO(frame)
        if head.version not in _REQUESTS:
            raise ProtocolError(f"a produce request of version {head.version}")
        stream.seek(_HEAD.size)
        try:
            client_id = String().decode(stream)
            read = _REQUESTS[head.version].decode(stream)
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"a produce request that cannot be read: {error}") from None
        return cls(head, client_id, read.transactional_id, read.required_acks, read.topics or [])

    def only(self, topics: Sequence[tuple[str, Records]]) -> bytes:
        return _request(self.head, self.client_id, self.transactional_id, -1, topics)

    def response(self, topics: Sequence[tuple[str, Sequence[ProduceResult]]]) -> bytes:
        rest = (-1, 0) if self.head.version >= 5 else (-1,)  # no append time; the log starts at 0
        answers = [(topic, [(*answer, *rest) for answer in answers_there]) for topic, answers_there in topics]
        body = _RESPONSES[self.head.version](topics=answers, throttle_time_ms=0).encode()
        return bytes(Int32.encode(self.head.correlation_id) + body)


def read_answers(response: bytes, version: int) -> list[tuple[str, list[ProduceResult]]]:
    read = _RESPONSES[version].decode(response[4:])
    return [(topic, [ProduceResult(*answer[:3]) for answer in answers]) for topic, answers in read.topics]


def only_offered_versions(response: bytes, version: int) -> bytes:
    """An ApiVersions response that offers only the request versions that the proxy can read."""
    flexible = version >= 3
    (error,) = struct.unpack_from(">h", response, 4)
    at, step = (7, _RANGE.size + 1) if flexible else (10, _RANGE.size)
    if error:
        return response
    changed = bytearray(response)
    count = response[6] - 1 if flexible else struct.unpack_from(">i", response, 6)[0]
    for place in range(at, at + step * count, step):
        if (key := _RANGE.unpack_from(response, place)[0]) in _OFFERED:
            _RANGE.pack_into(changed, place, key, *_OFFERED[key])
    return bytes(changed)


def metadata_request() -> bytes:
    return bytes(_HEAD.pack(METADATA, 1, 1) + String().encode(CLIENT) + MetadataRequest_v1([]).encode())


def names_a_controller(response: bytes) -> bool:
    """Whether a metadata response names a broker and a controller; ValueError if it is invalid."""
    read = MetadataRequest_v1.RESPONSE_TYPE.decode(response[4:])
    return bool(read.brokers) and read.controller_id != NO_CONTROLLER


class Connection:
    """A connection to the embedded broker: one request at a time, as the broker handles them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES))

    async def tell(self, request: bytes) -> None:
        await write_frame(self._writer, request)

    async def ask(self, request: bytes) -> bytes:
        await self.tell(request)
        return await read_frame(self._reader)

    async def create_topic(self, topic: str, partitions: int) -> None:
        request = CreateTopicsRequest_v0([(topic, partitions, 1, [], [])], TIMEOUT_MS)
        frame = _HEAD.pack(CREATE_TOPICS, 0, 0) + String().encode(CLIENT) + request.encode()
        read = request.RESPONSE_TYPE.decode((await self.ask(frame))[4:])
        if any(error for _, error in read.topic_errors):
            raise ProtocolError(f"the broker did not create the topic {topic}: {read.topic_errors}")

    async def append(self, topic: str, batches: Sequence[tuple[int, bytes]]) -> dict[int, int]:
        """Append batches to partitions; returns each partition's first offset."""
        joined: dict[int, list[bytes]] = {}
        for partition, batch in batches:
            joined.setdefault(partition, []).append(batch)
        records = [(partition, b"".join(parts)) for partition, parts in joined.items()]
        response = await self.ask(_request(Request(PRODUCE, NEWEST, 0), CLIENT, None, -1, [(topic, records)]))
        answers = [answer for _, answers in read_answers(response, NEWEST) for answer in answers]
        if refused := [answer for answer in answers if answer.error]:
            raise ProtocolError(f"the embedded broker refused events: {refused}")
        return {answer.partition: answer.offset for answer in answers}

    def close(self) -> None:
        self._writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame, without its length; asyncio.IncompleteReadError at the end of the connection."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 < size <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {size} bytes")
    return await reader.readexactly(size)


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.writelines((struct.pack(">i", len(frame)), frame))
    await writer.drain()


def _request(
    head: Request,
    client_id: str | None,
    transactional_id: str | None,
    acks: int,
    topics: Sequence[tuple[str, Records]],
) -> bytes:
    body: Any = _REQUESTS[head.version](transactional_id, acks, TIMEOUT_MS, topics)
    return bytes(_HEAD.pack(*head) + String().encode(client_id) + body.encode())


# -----------------------------------------------------------------------------
# Does a server answer? Small blocking requests that need no client library and no event loop.


TIMEOUT_SECONDS = 1.0


_PORTS = range(10_000, 32_000)


def free_port() -> int:
    """A free loopback port for a server that starts later.

    It lies below the ports that systems give to outgoing connections, one of which may take it meanwhile.
    """
    return next(port for _ in _PORTS if port_is_free(port := secrets.choice(_PORTS)))


def port_is_free(port: int) -> bool:
    try:
        claimed_port(port).close()
    except EmbeddedError:
        return False
    return True


def claimed_port(port: int) -> socket.socket:
    """A socket bound to this loopback port, to listen on later. Raises EmbeddedError if the port is taken."""
    # Named as TCP: else asyncio does not send small responses at once (TCP_NODELAY).
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise EmbeddedError(
            f"Port {port} of 127.0.0.1 cannot be used ({why}). Stop the program that uses it, or choose "
            "another (--port, --redis-port, --web-port)."
        ) from None
    return listener


def kafka_answers(port: int) -> bool:
    """Whether the broker on this loopback port answers a Metadata request with itself and a controller."""
    request = metadata_request()
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            return names_a_controller(_read(connection, size))
    except (OSError, ValueError, struct.error):
        return False


def redis_answers(port: int) -> bool:
    """Whether the server on this loopback port answers PING with PONG (not while it loads its data)."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return _read(connection, 7) == b"+PONG\r\n"
    except OSError:
        return False


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data
