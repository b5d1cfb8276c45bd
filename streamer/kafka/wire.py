"""As much of Kafka's protocol as the proxy needs: frames, produce requests, the offered versions.

Clients are offered the versions 3 to 7 of produce requests, which have one layout. Everything newer differs
only in what the embedded broker does not have.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka.protocol import produce
from aiokafka.protocol.admin import CreateTopicsRequest_v0
from aiokafka.protocol.metadata import MetadataRequest_v1
from aiokafka.protocol.types import Int32, String

PRODUCE, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 3, 18, 19
NO_CONTROLLER = -1
OLDEST, NEWEST = 3, 7
MAX_FRAME_BYTES = 100 * 1024 * 1024
"""As Apache Kafka's `socket.request.max.bytes`."""

BUFFER_BYTES = 1024 * 1024
CLIENT = "streamer-up"
TIMEOUT_MS = 30_000

_REQUESTS = {version: getattr(produce, f"ProduceRequest_v{version}") for version in range(OLDEST, NEWEST + 1)}
_RESPONSES = {version: request.RESPONSE_TYPE for version, request in _REQUESTS.items()}
_HEAD = struct.Struct(">hhi")
_RANGE = struct.Struct(">hhh")

Records = Sequence[tuple[int, bytes | None]]
"""By partition: what a producer sent."""


class ProtocolError(ConnectionError):
    """The other side said what it may not say; the connection ends."""


class ProduceResult(NamedTuple):
    """The answer for the records of one partition: an error code, 0 without one, and the first offset."""

    partition: int
    error: int
    offset: int = -1


class Request(NamedTuple):
    """The beginning of any request."""

    api_key: int
    version: int
    correlation_id: int

    @classmethod
    def of(cls, frame: bytes) -> Request:
        """The beginning of this one."""
        if len(frame) < _HEAD.size:
            raise ProtocolError("a request without a header")
        return cls(*_HEAD.unpack_from(frame))


class Produce(NamedTuple):
    """A produce request of a version that clients are offered."""

    head: Request
    client_id: str | None
    transactional_id: str | None
    acks: int
    topics: Sequence[tuple[str, Records]]

    @classmethod
    def of(cls, frame: bytes) -> Produce:
        """Read one; ProtocolError if it is invalid."""
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
        """The same request for these topics, to be answered."""
        return _request(self.head, self.client_id, self.transactional_id, -1, topics)

    def response(self, topics: Sequence[tuple[str, Sequence[ProduceResult]]]) -> bytes:
        """The response to it."""
        rest = (-1, 0) if self.head.version >= 5 else (-1,)  # no append time; the log starts at 0
        answers = [(topic, [(*answer, *rest) for answer in found]) for topic, found in topics]
        body = _RESPONSES[self.head.version](topics=answers, throttle_time_ms=0).encode()
        return bytes(Int32.encode(self.head.correlation_id) + body)


def read_answers(response: bytes, version: int) -> list[tuple[str, list[ProduceResult]]]:
    """Answers in a response to a produce request, by topic."""
    read = _RESPONSES[version].decode(response[4:])
    return [(topic, [ProduceResult(*answer[:3]) for answer in answers]) for topic, answers in read.topics]


def only_offered_versions(response: bytes, version: int) -> bytes:
    """A response to ApiVersions that offers the versions of produce requests which the proxy can read."""
    flexible = version >= 3
    (error,) = struct.unpack_from(">h", response, 4)
    at, step = (7, _RANGE.size + 1) if flexible else (10, _RANGE.size)
    if error:
        return response
    changed = bytearray(response)
    count = response[6] - 1 if flexible else struct.unpack_from(">i", response, 6)[0]
    for place in range(at, at + step * count, step):
        if _RANGE.unpack_from(response, place)[0] == PRODUCE:
            _RANGE.pack_into(changed, place, PRODUCE, OLDEST, NEWEST)
    return bytes(changed)


def metadata_request() -> bytes:
    """A request for the brokers and their controller, and for no topics."""
    return bytes(_HEAD.pack(METADATA, 1, 1) + String().encode(CLIENT) + MetadataRequest_v1([]).encode())


def names_a_controller(response: bytes) -> bool:
    """Whether the response to it names a broker and a controller; ValueError if it cannot be read."""
    read = MetadataRequest_v1.RESPONSE_TYPE.decode(response[4:])
    return bool(read.brokers) and read.controller_id != NO_CONTROLLER


class Connection:
    """A connection to the embedded broker: one request at a time, as the broker handles them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to this loopback port."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES))

    async def tell(self, request: bytes) -> None:
        """Send a request that has no response."""
        await write_frame(self._writer, request)

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return its response."""
        await self.tell(request)
        return await read_frame(self._reader)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; ProtocolError if the broker refuses."""
        request = CreateTopicsRequest_v0([(topic, partitions, 1, [], [])], TIMEOUT_MS)
        frame = _HEAD.pack(CREATE_TOPICS, 0, 0) + String().encode(CLIENT) + request.encode()
        read = request.RESPONSE_TYPE.decode((await self.ask(frame))[4:])
        if any(error for _, error in read.topic_errors):
            raise ProtocolError(f"the broker did not create the topic {topic}: {read.topic_errors}")

    async def append(self, topic: str, batches: Sequence[tuple[int, bytes]]) -> dict[int, int]:
        """Append batches to partitions; the offset of the first event of each partition."""
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
        """Disconnect."""
        self._writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame, without its length; asyncio.IncompleteReadError at the end of the connection."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 < size <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {size} bytes")
    return await reader.readexactly(size)


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    """Send one frame."""
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
