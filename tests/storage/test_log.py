"""What a consumer unpacks and hands on has a bound, whatever the producers packed."""

from __future__ import annotations

import ast
import asyncio
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka.codec import snappy_encode
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

import streamer
from streamer.operate.local import journal
from streamer.operate.local.journal import INVALID, BatchRefused, accepted, unpacked
from streamer.schemas.wire import Unread
from streamer.settings import Settings
from streamer.storage.kafka import TopicMissing
from streamer.storage.log import MAX_HANDED_BYTES, MAX_UNPACKED_BYTES, read_batches, read_topic
from tests.house.repository import ran
from tests.storage.filling import append, fill
from tests.storage.reading import EVENTS, VALUES, at_offset, placed, read
from tests.support.examples import examples
from tests.support.packed import (
    CODECS,
    FALSE_OFFSETS,
    MIB,
    a_batch,
    a_batch_at,
    a_bomb,
    packed,
    record,
    record_batch,
)

PACKING = [codec for codec in CODECS if codec != "none"]


def five_in_a_bomb(codec: str) -> bytes:
    """A batch that claims five records, of which the first is too large."""
    return record_batch(codec, packed(codec, record(0, 60 * MIB)), 5)


@pytest.mark.parametrize("codec", PACKING)
def test_an_oversized_batch_is_one_record_with_the_reason_and_the_next_batches_are_read(codec: str) -> None:
    result = read(a_batch(codec, VALUES), five_in_a_bomb(codec), a_batch(codec, VALUES))
    assert [one.offset for one in result] == [0, 1, 2, 7, 8, 9, 10]
    unread = result[3].value
    assert isinstance(unread, Unread)
    assert unread.reason.code == "unreadable_batch"
    place = "at offsets 3 to 7 of partition 3 unpacks to more than the allowed 33,554,432"
    assert place in unread.reason.message
    assert result[3].timestamp > 0


@pytest.mark.parametrize(
    ("unreadable", "start", "expected"),
    [
        (five_in_a_bomb("zstd"), 2, [4, 5, 6, 7]),
        (five_in_a_bomb("zstd"), 5, [5, 6, 7]),
        *[(a_batch_at("none", (0, 0, 2)), start, [2, 3, 4, 5]) for start in range(3)],
    ],
    ids=["bomb, amid it", "bomb, behind it", *(f"false offsets, from {start}" for start in range(3))],
)
def test_an_unreadable_batch_is_the_same_anywhere(unreadable: bytes, start: int, expected: list[int]) -> None:
    """A consumer that begins in the middle of one gets the whole batch from the broker."""
    result = read(unreadable, a_batch("none", VALUES), start=start)
    assert [one.offset for one in result] == expected
    reasons = [one.value.reason for one in read(unreadable)]
    assert [one.value.reason for one in result[:-3]] == reasons[: len(expected) - 3]


@pytest.mark.parametrize(
    ("unreadable", "behind", "place"),
    [
        (a_bomb("zstd", 60 * MIB), 1, "at offsets 0 to 0 of partition 0 unpacks to more"),
        (a_batch_at("none", (1000, 1001, 2)), 3, "at offsets 0 to 2 of partition 0 has offset 1000"),
    ],
    ids=["bomb", "false offsets"],
)
def test_in_other_topics_an_unreadable_batch_is_left_out_and_logged_once(
    caplog: pytest.LogCaptureFixture, unreadable: bytes, behind: int, place: str
) -> None:
    result = read(unreadable, a_batch("zstd", VALUES), tp=TopicPartition("trials-changelog", 0))
    assert [(one.offset, one.value) for one in result] == list(enumerate(VALUES, behind))
    [line] = caplog.messages
    assert f"Topic trials-changelog: The record batch {place}" in line


def test_a_batch_that_was_damaged_on_its_way_is_an_error_as_ever() -> None:
    broken = bytearray(a_batch("zstd", VALUES))
    broken[-1] ^= 1
    with pytest.raises(Exception, match="Invalid CRC"):
        read(bytes(broken))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("offsets", FALSE_OFFSETS)
def test_false_offsets_are_one_record_and_all_behind_is_read(offsets: tuple[int, ...], codec: str) -> None:
    result = read(a_batch(codec, VALUES), a_batch_at(codec, offsets), a_batch(codec, VALUES))
    assert [one.offset for one in result] == [0, 1, 2, 5, 6, 7, 8]
    assert [one.value for one in result if not isinstance(one.value, Unread)] == VALUES * 2
    unread = result[3].value
    assert unread.reason.code == "unreadable_batch"
    place = "The record batch at offsets 3 to 5 of partition 3 of topic team.trial-events has offset "
    assert unread.reason.message.startswith(place)
    assert unread.reason.message.endswith("0, 1, 2 and so on, and send the events again.")


def test_the_first_false_offset_is_named() -> None:
    [unread] = read(a_batch_at("none", (0, 1, 1, 3)))
    assert "has offset 1 in its record 3, behind offset 1; " in unread.value.reason.message
    [unread] = read(a_batch_at("none", (7, 1)))
    assert "has offset 7 in its record 1; " in unread.value.reason.message


def test_gaps_as_compaction_leaves_them_are_no_falsehood() -> None:
    body = packed("zstd", [*record(1, 0, b"a"), *record(5, 0, b"b")])
    compacted = changed(bytearray(record_batch("zstd", body, 2)), ">i", 23, 9)
    result = read(compacted, a_batch("zstd", VALUES))
    assert [one.offset for one in result] == [1, 5, 10, 11, 12]
    assert [one.value for one in result] == [b"a", b"b", *VALUES]


@pytest.mark.parametrize("false", [19_999, 20_000, 39_999])
def test_of_a_huge_batch_what_is_in_front_of_a_false_offset_may_be_read(false: int) -> None:
    offsets = list(range(40_000))
    assert [one.offset for one in read(a_batch_at("lz4", offsets, b""))] == offsets
    offsets[false] = 0
    *result, unread, behind = read(a_batch_at("lz4", offsets, b""), a_batch("lz4", [b"next"]))
    assert [one.offset for one in result] == offsets[: false // 20_000 * 20_000]
    assert (unread.offset, behind.offset, behind.value) == (39_999, 40_000, b"next")
    assert f"has offset 0 in its record {false + 1}, behind offset {false - 1}" in unread.value.reason.message


def test_a_header_whose_name_is_no_text_makes_a_batch_unreadable_and_stops_nobody() -> None:
    body = b"".join(record(0, 0, b"v"))[:-1] + b"\x02\x02\xff\x00"  # one header, its name \xff
    result = read(record_batch("none", bytes([body[0] + 6]) + body[1:], 1), a_batch("none", VALUES))
    assert [one.offset for one in result] == [0, 1, 2, 3]
    assert isinstance(result[0].value, Unread)


@pytest.mark.parametrize("codec", [0, 1])
def test_batches_of_the_old_format_which_do_not_say_where_they_begin_are_read(codec: int) -> None:
    builder = LegacyRecordBatchBuilder(1, codec, 10**6)
    for number in range(3):
        builder.append(number, 1_700_000_000_000, None, b"%d" % number)
    old = bytes(builder.build())
    old = at_offset(old, 2) if codec else old  # a packed one has the offset of its last record
    result = list(fetcher.PartitionRecords(EVENTS, MemoryRecords(old), [], 0, None, None, True, 0))
    assert [(one.offset, one.value) for one in result] == [(0, b"0"), (1, b"1"), (2, b"2")]


deltas = st.one_of(st.integers(-3, 8), st.sampled_from([2**31, -(2**40), 2**62, 2**63 - 1]))


@examples(2_000)
@given(st.data(), st.sampled_from(list(CODECS)))
def test_no_batch_stops_reading_or_hides_what_is_behind_it(data: st.DataObject, codec: str) -> None:
    count = data.draw(st.integers(1, 4))
    body = bytearray()
    for place in range(count):
        delta = data.draw(st.one_of(st.just(place), deltas))
        body += b"".join(record(delta, 0, data.draw(st.binary(max_size=4))))
    if data.draw(st.booleans()):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    made = record_batch(codec, packed(codec, [bytes(body)]), count)
    result = read(made, a_batch("none", [b"behind"]))
    offsets = [one.offset for one in result]
    assert offsets == sorted(set(offsets))
    assert (offsets[-1], result[-1].value) == (count, b"behind")
    assert sum(isinstance(one.value, Unread) for one in result) <= 1
    try:
        accepted(made)
    except BatchRefused:
        return
    assert offsets == list(range(count + 1))


class Assigned:
    """As much of an assignment as a fetch result looks at."""

    active = True

    def __init__(self) -> None:
        self.paused, self.position = False, 0

    def state_value(self, tp: Any) -> Assigned:
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


def handed(batches: list[bytes], most: int | None) -> list[list[int]]:
    """Offsets that each call hands on, until all is handed on."""
    result = fetcher.FetchResult(EVENTS, assignment=Assigned(), partition_records=placed(*batches), backoff=0)
    calls = []
    while result.has_more():
        calls.append([one.offset for one in result.getall(most)])
    return calls


def test_one_call_hands_on_a_bounded_number_of_bytes_and_nothing_is_lost() -> None:
    batches = [a_batch("zstd", [bytes(MIB)] * 20) for _ in range(4)]
    calls = handed(batches, None)
    assert [offset for call in calls for offset in call] == list(range(80))
    assert max(map(len, calls)) * MIB == MAX_HANDED_BYTES


def test_one_call_hands_on_as_many_records_as_it_was_asked_for() -> None:
    assert [len(call) for call in handed([a_batch("lz4", [b"x"] * 10)], 4)] == [4, 4, 2]


_WITHIN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1024 ** 3, 1024 ** 3))
from tests.storage.reading import read, VALUES
from tests.support.packed import a_batch
found = read(open(sys.argv[1], "rb").read(), a_batch("zstd", VALUES))
status = open("/proc/self/status").read()  # ru_maxrss would be that of the process that started this one
print([one.offset for one in found], status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_record_of_1000_mib_is_met_within_half_a_gib(codec: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(a_bomb(codec, 1000 * MIB))
    assert file.stat().st_size < 5 * MIB
    offsets, peak_kib = ran(sys.executable, "-c", _WITHIN, file).stdout.rsplit(" ", 1)
    assert offsets == "[0, 1, 2, 3]"
    assert int(peak_kib) * 1024 < 512 * MIB


def test_everything_here_reads_with_that_consumer() -> None:
    """An import of aiokafka's own would work, and read without a bound where nothing else imports ours."""
    package = Path(streamer.__file__).parent
    elsewhere = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "aiokafka"
        if any(name.name == "AIOKafkaConsumer" for name in node.names)
    }
    assert elsewhere == {"storage/log.py"}


# -----------------------------------------------------------------------------
# Reading a topic to its end, on the embedded broker and on a real Kafka.


def test_every_record_is_read_with_its_place_time_and_bytes(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [])
    assert list(read_topic(settings, namespace)) == []
    asyncio.run(append(settings, namespace, [(0, 1), (1, 2), (0, 50)]))
    records = list(read_topic(settings, namespace))
    assert [r.offset for r in records if r.partition == 0] == list(range(51))
    [_, last] = [record for record in records if record.partition == 1]
    assert (last.topic, last.offset) == (namespace, 1)
    assert (last.key, last.value, last.timestamp) == (b"k", b"1", 1_700_000_000_001)
    reading = read_topic(settings, namespace)
    next(reading)
    reading.close()  # type: ignore[attr-defined]


def test_only_the_named_partitions_are_read(settings: Settings, namespace: str) -> None:
    fill(settings, namespace, [(0, 3), (2, 4)])

    async def read() -> set[int]:
        batches = read_batches(settings, namespace, [2])
        return {record.partition async for batch in batches for record in batch}

    assert asyncio.run(read()) == {2}


def test_a_missing_topic_is_named_and_not_created(settings: Settings, namespace: str) -> None:
    for _ in range(2):
        with pytest.raises(TopicMissing, match=namespace):
            list(read_topic(settings, namespace))


def batch(count: int = 1, *, codec: int = 0, transactional: int = 0, value: bytes = b"v") -> bytearray:
    """A record batch as a producer packs it."""
    builder = DefaultRecordBatchBuilder(2, codec, transactional, -1, -1, -1, 10**9)
    for number in range(count):
        builder.append(number, 1_700_000_000_000, b"k", value, [])
    return bytearray(builder.build())


def changed(records: bytearray, layout: str, at: int, number: int, *, checksum: bool = True) -> bytes:
    struct.pack_into(layout, records, at, number)
    if checksum:
        struct.pack_into(">I", records, 17, calc_crc32c(bytes(records[21:])))
    return bytes(records)


REFUSED = {
    "none": (None, INVALID),
    "an empty one": (b"", INVALID),
    "of an old format": (changed(batch(), ">b", 16, 1), journal.UNSUPPORTED_FORMAT),
    "with a wrong checksum": (changed(batch(), ">h", 21, 4, checksum=False), journal.CORRUPT),
    "of a transaction": (bytes(batch(transactional=1)), INVALID),
    "of control records": (changed(batch(), ">h", 21, 0x20), INVALID),
    "of another length": (bytes(batch()) + b"more", INVALID),
    "two in one": (bytes(batch()) * 2, INVALID),
    "with fewer records than it says": (changed(batch(), ">i", 57, 2), INVALID),
    "with a hole in its offsets": (changed(batch(), ">i", 23, 9), INVALID),
    "of an unknown codec": (changed(batch(), ">h", 21, 7), INVALID),
    "that does not unpack": (changed(batch(), ">h", 21, 2), INVALID),
    "that unpacks to garbage": (record_batch("zstd", packed("zstd", [b"garbage"]), 1), INVALID),
    "a bomb": (a_bomb("gzip", 2 * MAX_UNPACKED_BYTES), journal.TOO_LARGE),
    **{
        f"with the offsets {offsets} of its records, {codec}": (a_batch_at(codec, offsets), INVALID)
        for offsets in FALSE_OFFSETS
        for codec in CODECS
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_that_no_consumer_could_read_is_refused_with_its_code(what: str) -> None:
    records, code = REFUSED[what]
    with pytest.raises(BatchRefused) as refused:
        accepted(records)
    assert refused.value.code == code


def test_a_batch_may_begin_at_any_offset_since_the_broker_gives_it_its_own() -> None:
    assert accepted(at_offset(a_batch("zstd", VALUES), 7)).events == len(VALUES)
    with pytest.raises(BatchRefused):
        accepted(at_offset(a_batch("zstd", VALUES), 2**63 - 2))


@pytest.mark.parametrize("codec", journal.CODECS.values())
def test_what_compression_hardly_makes_smaller_is_kept_unpacked(codec: int) -> None:
    single = bytes(batch(codec=codec, value=os.urandom(500)))
    many = bytes(batch(100, codec=codec, value=b"the same words in each of them" * 20))
    assert DefaultRecordBatch(accepted(single).data).compression_type == 0
    assert DefaultRecordBatch(accepted(many).data).compression_type == codec
    for sent in (single, many):
        kept = accepted(sent).data
        assert DefaultRecordBatch(kept).validate_crc()
        assert accepted(kept).data == kept
        assert [(r.offset, r.value) for r in unpacked(kept)] == [(r.offset, r.value) for r in unpacked(sent)]


@pytest.mark.parametrize("framed", [False, True])
def test_snappy_is_read_as_the_java_library_frames_it_too(framed: bool) -> None:
    body = b"".join(piece for offset, value in enumerate(VALUES) for piece in record(offset, 0, value))
    encoded = snappy_encode(body, xerial_compatible=framed, xerial_blocksize=999)
    assert [one.value for one in read(record_batch("snappy", encoded, 3))] == VALUES


@pytest.mark.parametrize("codec", PACKING)
def test_a_batch_that_unpacks_to_the_limit_is_read_and_one_byte_more_is_not(codec: str) -> None:
    overhead = sum(len(piece) for piece in record(0, 0, b"")) + 2 * 3  # two lengths take 4 bytes, not 1
    at = MAX_UNPACKED_BYTES - overhead
    [right] = read(a_bomb(codec, at))
    assert len(right.value) == at
    [beyond] = read(a_bomb(codec, at + 1))
    assert isinstance(beyond.value, Unread)


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("damage", [b"no such thing as packed bytes", b"", None])
def test_a_damaged_batch_is_one_record_with_the_reason(codec: str, damage: bytes | None) -> None:
    whole = packed(codec, record(0, 100_000))
    body = whole[: len(whole) // 2] if damage is None else damage
    result = read(record_batch(codec, body, 2), a_batch(codec, VALUES))
    assert [one.offset for one in result] == [1, 2, 3, 4]
    assert isinstance(result[0].value, Unread)


def test_a_batch_with_fewer_records_than_it_claims_is_read_as_far_as_it_goes() -> None:
    body = packed("zstd", [*record(0, 0, b"a"), *record(1, 0, b"b")])
    result = read(record_batch("zstd", body, 9), a_batch("zstd", VALUES))
    assert [one.value for one in result] == [b"a", b"b", b"", *VALUES]
    assert isinstance(result[2].value, Unread)
    assert result[2].offset == 8
