"""Unpacking a record batch has a bound on what comes out."""

from __future__ import annotations

import pytest
from aiokafka.codec import snappy_encode

from streamer.schemas.wire import Unread
from streamer.storage.log import MAX_UNPACKED_BYTES
from tests.kafka.reading import VALUES, read
from tests.support.packed import a_batch, a_bomb, packed, record, record_batch


@pytest.mark.parametrize("framed", [False, True])
def test_snappy_is_read_as_the_java_library_frames_it_too(framed: bool) -> None:
    body = b"".join(piece for offset, value in enumerate(VALUES) for piece in record(offset, 0, value))
    found = read(
        record_batch("snappy", snappy_encode(body, xerial_compatible=framed, xerial_blocksize=999), 3)
    )
    assert [one.value for one in found] == VALUES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_the_limit_is_read_and_one_byte_more_is_not(codec: str) -> None:
    overhead = sum(len(piece) for piece in record(0, 0, b"")) + 2 * 3  # two lengths take 4 bytes, not 1
    at = MAX_UNPACKED_BYTES - overhead
    [right] = read(a_bomb(codec, at))
    assert len(right.value) == at
    [beyond] = read(a_bomb(codec, at + 1))
    assert isinstance(beyond.value, Unread)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("damage", [b"no such thing as packed bytes", b"", None])
def test_a_damaged_batch_is_one_record_with_the_reason(codec: str, damage: bytes | None) -> None:
    whole = packed(codec, record(0, 100_000))
    body = whole[: len(whole) // 2] if damage is None else damage
    found = read(record_batch(codec, body, 2), a_batch(codec, VALUES))
    assert [one.offset for one in found] == [1, 2, 3, 4]
    assert isinstance(found[0].value, Unread)


def test_a_batch_with_fewer_records_than_it_claims_is_read_as_far_as_it_goes() -> None:
    body = packed("zstd", [*record(0, 0, b"a"), *record(1, 0, b"b")])
    found = read(record_batch("zstd", body, 9), a_batch("zstd", VALUES))
    assert [one.value for one in found] == [b"a", b"b", b"", *VALUES]
    assert isinstance(found[2].value, Unread)
    assert found[2].offset == 8
