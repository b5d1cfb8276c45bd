"""Kafka's protocol as far as the proxy needs it: what cannot be read ends the connection."""

from __future__ import annotations

import asyncio
import struct

import pytest

from streamer.operate.local.processes import (
    MAX_FRAME_BYTES,
    NEWEST,
    OLDEST,
    PRODUCE,
    Produce,
    ProduceResult,
    ProtocolError,
    Request,
    only_offered_versions,
    read_answers,
    read_frame,
)

TOPICS = [("events", [(0, b"batch"), (3, None)]), ("other", [(1, b"")])]


def a_request(version: int) -> Produce:
    return Produce(Request(PRODUCE, version, 5), "client", None, -1, TOPICS)


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_a_produce_request_reads_back_in_every_version(version: int) -> None:
    request = a_request(version)
    read = Produce.of(request.only(TOPICS))
    assert (read.head, read.client_id, read.acks) == (request.head, "client", -1)
    assert [(topic, list(records)) for topic, records in read.topics] == TOPICS


@pytest.mark.parametrize("version", range(OLDEST, NEWEST + 1))
def test_an_answer_reads_back_in_every_version(version: int) -> None:
    answers = [("events", [ProduceResult(0, 0, 7), ProduceResult(3, 2)])]
    response = a_request(version).response(answers)
    assert response[:4] == struct.pack(">i", 5)
    assert read_answers(response, version) == answers


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00",
        struct.pack(">hhi", PRODUCE, NEWEST + 1, 5),
        struct.pack(">hhi", PRODUCE, OLDEST - 1, 5),
        a_request(NEWEST).only(TOPICS)[:-4],
    ],
)
def test_what_is_no_produce_request_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        Produce.of(frame)


@pytest.mark.parametrize(
    ("size", "allowed"), [(0, False), (-1, False), (MAX_FRAME_BYTES + 1, False), (4, True)]
)
async def test_a_frame_is_read_unless_its_length_is_impossible(size: int, allowed: bool) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(struct.pack(">i", size) + b"data")
    if allowed:
        assert await read_frame(reader) == b"data"
        return
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes"):
        await read_frame(reader)


def test_clients_are_offered_only_the_versions_that_the_proxy_reads() -> None:
    ranges = [(PRODUCE, 0, 11), (3, 0, 12)]
    old = struct.pack(">ihi", 1, 0, len(ranges)) + b"".join(struct.pack(">hhh", *one) for one in ranges)
    offered = only_offered_versions(old, 0)
    assert struct.unpack_from(">hhhhhh", offered, 10) == (PRODUCE, OLDEST, NEWEST, 3, 0, 12)
    flexible = struct.pack(">ihB", 1, 0, len(ranges) + 1)
    flexible += b"".join(struct.pack(">hhhB", *one, 0) for one in ranges)
    assert struct.unpack_from(">hhh", only_offered_versions(flexible, 3), 7) == (PRODUCE, OLDEST, NEWEST)
    refused = struct.pack(">ihi", 1, 35, 0)
    assert only_offered_versions(refused, 0) == refused
