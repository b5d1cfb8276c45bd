"""What a consumer unpacks and hands on has a bound, whatever the producers packed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

import streamer
from streamer.schemas.wire import Unread
from streamer.storage.log import MAX_HANDED_BYTES
from tests.kafka.reading import EVENTS, VALUES, at_offset, read
from tests.support.packed import CODECS, MIB, a_batch, a_bomb, packed, record, record_batch


@pytest.mark.parametrize("codec", CODECS)
def test_a_usual_batch_is_read_as_ever(codec: str) -> None:
    found = read(a_batch(codec, VALUES), a_batch(codec, VALUES))
    assert [(one.offset, one.value) for one in found] == list(enumerate(VALUES * 2))
    assert not any(isinstance(one.value, Unread) for one in found)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_an_oversized_batch_is_one_record_with_the_reason_and_the_next_batches_are_read(codec: str) -> None:
    bomb = record_batch(codec, packed(codec, record(0, 60 * MIB)), 5)
    found = read(a_batch(codec, VALUES), bomb, a_batch(codec, VALUES))
    assert [one.offset for one in found] == [0, 1, 2, 7, 8, 9, 10]
    unread = found[3].value
    assert isinstance(unread, Unread)
    assert unread.reason.code == "unreadable_batch"
    assert "at offsets 3 to 7 of partition 3 unpacks to more than 33,554,432 bytes" in unread.reason.message
    assert found[3].timestamp > 0


def test_an_unreadable_batch_is_found_again_at_any_of_its_offsets() -> None:
    """A consumer that begins in the middle of one gets the whole batch from the broker."""
    bomb = record_batch("zstd", packed("zstd", record(0, 60 * MIB)), 5)
    assert [one.offset for one in read(bomb, start=2)] == [4]
    assert [one.offset for one in read(bomb, a_batch("zstd", VALUES), start=5)] == [5, 6, 7]


def test_in_other_topics_an_unreadable_batch_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    tables = TopicPartition("trials-changelog", 0)
    found = read(a_bomb("zstd", 60 * MIB), a_batch("zstd", VALUES), tp=tables)
    assert [one.value for one in found] == VALUES
    assert "Topic trials-changelog: The record batch at offsets 0 to 0" in caplog.text


def test_a_batch_that_was_damaged_on_its_way_is_an_error_as_ever() -> None:
    broken = bytearray(a_batch("zstd", VALUES))
    broken[-1] ^= 1
    with pytest.raises(Exception, match="Invalid CRC"):
        read(bytes(broken))


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
    placed, offset = [], 0
    for batch in batches:
        placed.append(at_offset(batch, offset))
        offset += int.from_bytes(batch[23:27], "big") + 1
    records = fetcher.PartitionRecords(EVENTS, MemoryRecords(b"".join(placed)), [], 0, None, None, True, 0)
    result = fetcher.FetchResult(EVENTS, assignment=Assigned(), partition_records=records, backoff=0)
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
from tests.kafka.reading import read, VALUES
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
    ended = subprocess.run(
        [sys.executable, "-c", _WITHIN, str(file)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == 0, ended.stderr
    offsets, peak_kib = ended.stdout.rsplit(" ", 1)
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
