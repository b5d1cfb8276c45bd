"""The journal's files: order, numbers, segments, torn tails, damage, a full disk."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.operate.local.broker import DurableBroker
from streamer.operate.local.journal import (
    COUNTS,
    FRAME_START,
    HEAD_BYTES,
    MAGIC,
    MAGIC_1,
    MAX_BATCH_BYTES,
    Damage,
    Frame,
    Head,
    Journal,
    accepted,
    encode,
    holds_its_events,
    one_record,
    read_frames,
    unpacked,
)
from streamer.operate.local.processes import EmbeddedError
from tests.operate.journaled import durable, small_disk, values
from tests.support.examples import examples
from tests.support.packed import a_batch
from tests.support.peers import peer_environment, run_in_peer

FRAMES = [Frame(n % 3, n // 3 * 2, 2, b"batch-%d" % n) for n in range(10)]


def written(directory: Path, frames: list[Frame], **options: int) -> Journal:
    journal = Journal(directory, **options)
    list(journal.read(lambda _: None))  # it is read to its end before the first write
    for frame in frames:
        journal.write([(frame.partition, frame.events, frame.batch)])
    journal.close()
    return journal


def read(directory: Path, *more: Any) -> tuple[list[Frame], list[str]]:
    warnings: list[str] = []
    return list(Journal(directory).read(warnings.append, *more)), warnings


def test_frames_come_back_in_order_over_segments_and_writers_and_progress_is_told(tmp_path: Path) -> None:
    assert written(tmp_path, []).segments() == [], "without events there is no file"
    written(tmp_path, FRAMES[:4], segment_bytes=1)
    journal = written(tmp_path, FRAMES[4:])
    segments = journal.segments()
    assert [path.name for path in segments] == [f"0000000{n}.journal" for n in (1, 2, 3, 4, 5)]
    told: list[tuple[int, int]] = []
    assert read(tmp_path, lambda *read: told.append(read)) == (FRAMES, [])
    total = sum(path.stat().st_size for path in segments)
    assert (len(told), told[-1]) == (len(segments), (total, total))


def test_a_torn_tail_is_cut_with_one_warning_and_kept_beside(tmp_path: Path) -> None:
    """The writer was killed while it wrote: nobody was told that the last frame is there."""
    path = written(tmp_path, FRAMES[:-1]).segments()[0]
    torn = path.read_bytes() + encode(FRAMES[-1])[:-5]
    path.write_bytes(torn)
    frames, [warning] = read(tmp_path)
    assert frames == FRAMES[:-1]
    assert "It was not acknowledged either." in warning
    assert path.read_bytes() + path.with_suffix(".cut").read_bytes() == torn
    assert read(tmp_path) == (FRAMES[:-1], [])


LAST_FRAME_BYTES = len(encode(FRAMES[-1]))


@pytest.mark.parametrize(("less", "lines"), [(5, 2), (LAST_FRAME_BYTES, 1)])
def test_an_acknowledged_end_that_is_cut_is_missing_for_good(tmp_path: Path, less: int, lines: int) -> None:
    path = written(tmp_path, FRAMES).segments()[0]
    path.write_bytes(path.read_bytes()[:-less])
    frames, warnings = read(tmp_path)
    assert frames == FRAMES[:-1]
    assert len(warnings) == lines
    assert not any("not acknowledged" in line for line in warnings)
    missing = f"2 acknowledged events of partition 0 are missing from the journal in {tmp_path}: "
    assert warnings[-1].startswith(missing)
    again = Frame(0, 8, 2, b"again")
    assert read(tmp_path)[1] == warnings[-1:]
    written(tmp_path, [again])
    assert read(tmp_path) == ([*FRAMES[:-1], again], warnings[-1:])


@pytest.mark.parametrize(("gone", "partitions"), [([4], [1]), ([8, 9], [0, 2])])
def test_missing_segments_are_told_by_partition(
    tmp_path: Path, gone: list[int], partitions: list[int]
) -> None:
    segments = written(tmp_path, FRAMES, segment_bytes=1).segments()
    for number in gone:
        segments[number].unlink()
    frames, warnings = read(tmp_path)
    assert frames == [frame for number, frame in enumerate(FRAMES) if number not in gone]
    missing = [f"2 acknowledged events of partition {number}" for number in partitions]
    assert [line.partition(" are missing")[0] for line in warnings] == missing


def test_a_journal_without_counts_is_read_and_counted_from_then_on(tmp_path: Path) -> None:
    """As earlier releases leave it."""
    written(tmp_path, FRAMES[:5])
    (tmp_path / COUNTS).unlink()
    assert read(tmp_path) == (FRAMES[:5], [])
    written(tmp_path, FRAMES[5:])
    assert json.loads((tmp_path / COUNTS).read_bytes()) == {"version": 1, "events": {"0": 8, "1": 6, "2": 6}}


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "cannot be read"), (b"[]", "cannot"), (b'{"version": 2}', "has version 2")]
)
def test_counts_that_say_nothing_are_told_and_written_anew(tmp_path: Path, content: bytes, why: str) -> None:
    written(tmp_path, FRAMES)
    (tmp_path / COUNTS).write_bytes(content)
    frames, [warning] = read(tmp_path)
    assert frames == FRAMES
    assert why in warning
    written(tmp_path, [Frame(0, 8, 2, b"new")])
    assert read(tmp_path)[1] == []


def test_a_file_that_can_be_no_segment_is_not_read(tmp_path: Path) -> None:
    """40 GiB, of which the disk holds nothing; the events behind it are read, and numbers go on."""
    journal = written(tmp_path, FRAMES, segment_bytes=1)
    huge = journal.segments()[4]
    os.truncate(huge, 40 * 2**30)
    told: list[tuple[int, int]] = []
    frames, warnings = read(tmp_path, lambda *read: told.append(read))
    assert frames == [*FRAMES[:4], *FRAMES[5:]]
    assert f"The journal {huge} has 42,949,672,960 bytes" in warnings[0]
    assert "Restore the file from a copy" in warnings[0]
    assert warnings[1:] == [f"The journal in {tmp_path} lacks 2 events for these reasons."]
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("batch", [b"", b"no batch at all", bytes(100)])
def test_a_whole_frame_whose_batch_is_none_is_damage_of_this_frame(tmp_path: Path, batch: bytes) -> None:
    good = [Frame(0, n, 1, one_record(1, b"key", b"%d" % n)) for n in (0, 2)]
    path = written(tmp_path, [good[0], Frame(0, 1, 1, batch), good[1]]).segments()[0]
    warnings: list[str] = []
    assert list(Journal(tmp_path).read(warnings.append, is_good=holds_its_events)) == good
    at = len(MAGIC) + len(encode(good[0]))
    end = at + HEAD_BYTES + len(batch)
    assert f"{path} is damaged from byte {at} to {end} ({end - at} bytes). 1 event there" in warnings[0]
    assert warnings[1:] == [f"The journal in {tmp_path} lacks 1 event for these reasons."]


def test_a_batch_with_other_events_or_another_checksum_is_damage_and_one_beyond_the_limit_is_not() -> None:
    """A large one is accepted packed, kept unpacked, and then has more bytes than a producer may send."""
    small = one_record(1, b"key", b"value")
    others = Frame(0, 0, 2, small), Frame(0, 0, 1, small.replace(b"value", b"vAlue"))
    assert [holds_its_events(one) for one in (Frame(0, 0, 1, small), *others)] == [True, False, False]
    batch = accepted(a_batch("gzip", [os.urandom(11 * 2**20), bytes(8 * 2**20)]))
    assert len(batch.data) > MAX_BATCH_BYTES
    assert holds_its_events(Frame(0, 0, batch.events, batch.data))


def test_a_writer_killed_before_its_first_event_leaves_no_damage(tmp_path: Path) -> None:
    (tmp_path / "00000001.journal").write_bytes(MAGIC[:3])
    read(tmp_path)
    written(tmp_path, FRAMES)
    assert read(tmp_path) == (FRAMES, [])


@pytest.mark.parametrize("writers", [1, 2])
@pytest.mark.parametrize("place", ["head", "body"])
def test_damage_is_named_with_its_bytes_and_events(tmp_path: Path, writers: int, place: str) -> None:
    path = written(tmp_path, FRAMES[:5]).segments()[0]
    if writers == 2:
        written(tmp_path, FRAMES[5:])
    damaged = bytearray(path.read_bytes())
    body = damaged.index(b"batch-1")
    damaged[body if place == "body" else body - HEAD_BYTES + 20] ^= 0x40
    path.write_bytes(damaged)
    for _ in range(2):
        frames, warnings = read(tmp_path)
        assert frames == [frame for frame in FRAMES[: 5 * writers] if frame.batch != b"batch-1"]
        assert f"{path} is damaged from byte {body - HEAD_BYTES} to {body + 7} (39 bytes)" in warnings[0]
        assert warnings[1:] == [f"The journal in {tmp_path} lacks 2 events for these reasons."]
    assert path.read_bytes() == damaged


def test_numbers_go_on_behind_damage(tmp_path: Path) -> None:
    path = written(tmp_path, FRAMES[:9]).segments()[0]
    path.write_bytes(path.read_bytes().replace(b"batch-8", b"batcH-8"))
    written(tmp_path, [FRAMES[9]])
    _, warnings = read(tmp_path)
    assert warnings[1:] == [f"The journal in {tmp_path} lacks 2 events for these reasons."]


def test_a_write_that_the_disk_refuses_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024 * 1024) as disk:
        journal = written(disk / "journal", FRAMES)
        ballast = disk / "ballast"
        for _ in range(5):
            with pytest.raises(OSError, match="No space left") as refused:
                journal.write([(0, 1, os.urandom(2 * 1024 * 1024))])
            assert refused.value.errno == errno.ENOSPC
        used = sum(path.stat().st_size for path in journal.segments())
        ballast.write_bytes(bytes(1024 * 1024 - used - 200 * 1024))
        big = os.urandom(300 * 1024)
        with pytest.raises(OSError, match="No space left"):
            journal.write([(0, 1, big)])
        ballast.unlink()
        journal.write([(0, 1, big)])
        journal.close()
        assert read(disk / "journal") == ([*FRAMES, Frame(0, 8, 1, big)], [])


# -----------------------------------------------------------------------------
# Frames: what was written is read, damage costs only what it hits, and nothing is invented.


VERSION_1 = Path(__file__).with_name("data") / "journal-1" / "00000001.journal"

UP_TO_32, UP_TO_64 = (st.integers(0, 2**bits - 1) for bits in (32, 64))
frames = st.builds(Frame, UP_TO_32, UP_TO_64, UP_TO_32, st.binary(max_size=200))


def file_of(written: list[Frame]) -> bytes:
    return MAGIC + b"".join(map(encode, written))


def split(data: bytes) -> tuple[list[Frame], list[Damage]]:
    result = list(read_frames(data))
    return [x for x in result if isinstance(x, Frame)], [x for x in result if isinstance(x, Damage)]


@given(st.lists(frames, max_size=20))
def test_what_was_written_is_read_back(written: list[Frame]) -> None:
    assert split(file_of(written)) == (written, [])


@given(st.lists(frames, min_size=1, max_size=5), st.data())
def test_a_file_cut_anywhere_has_whole_frames_and_a_torn_end(
    written: list[Frame], data: st.DataObject
) -> None:
    whole = file_of(written)
    cut = data.draw(st.integers(len(MAGIC), len(whole) - 1))
    before = [n for n in range(len(written) + 1) if len(file_of(written[:n])) <= cut][-1]
    rest = cut - len(file_of(written[:before]))
    torn = [Damage(cut - rest, rest, torn=True, head=None)] if rest else []
    assert split(whole[:cut]) == (written[:before], torn)


@examples(200)
@given(st.lists(frames, min_size=1, max_size=5), st.data())
def test_a_flipped_bit_costs_the_frame_that_it_hits_alone(written: list[Frame], data: st.DataObject) -> None:
    damaged = bytearray(file_of(written))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    hit = [n for n in range(len(written)) if len(file_of(written[:n])) <= at < len(file_of(written[: n + 1]))]
    read, damages = split(bytes(damaged))
    assert read == [frame for n, frame in enumerate(written) if n not in hit]
    assert [damage.torn for damage in damages] == [False]


WRITTEN = [Frame(3, n * 10, 10, b"batch-%d" % n) for n in range(3)]
FIRST, SECOND, _ = map(encode, WRITTEN)
GARBAGE = b"?" + FRAME_START + bytes(100) + FRAME_START * 20
SECOND_AT = len(MAGIC + FIRST)


@pytest.mark.parametrize(
    ("data", "frames", "damages"),
    [
        (b"", [], []),
        (b"hello, world", [], [Damage(0, 12, False, None)]),
        (
            file_of(WRITTEN).replace(b"batch-1", b"batcH-1"),
            WRITTEN[::2],
            [Damage(SECOND_AT, len(SECOND), False, Head(3, 10, 10))],
        ),
        (MAGIC + FIRST + GARBAGE + SECOND, WRITTEN[:2], [Damage(SECOND_AT, len(GARBAGE), False, None)]),
        (MAGIC + FIRST + bytes(4096), WRITTEN[:1], [Damage(SECOND_AT, 4096, False, None)]),
        (b"X" + file_of(WRITTEN)[1:], WRITTEN, [Damage(0, len(MAGIC), False, None)]),
    ],
    ids=["empty", "foreign", "a body", "garbage with marks in it", "zeros of a power cut", "the beginning"],
)
def test_damage_is_told_with_its_events_and_costs_no_other(
    data: bytes, frames: list[Frame], damages: list[Damage]
) -> None:
    assert split(data) == (frames, damages)


def events_of(data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(f.partition, r.key, r.value) for f in split(data)[0] for r in unpacked(f.batch)]


def test_a_file_of_the_version_before_is_read_whole() -> None:
    data = VERSION_1.read_bytes()
    assert data.startswith(MAGIC_1)
    result = b'{"type": "trial_result", "number": %d}'
    numbered = [(n % 3, b"run-%d" % (n % 5), result % n) for n in range(20)]
    odd = [(2, None, b"no key"), (2, b"no value", None), (1, b"", b""), (1, b"no time", bytes(range(256)))]
    assert events_of(data) == numbered + odd
    assert split(data)[1] == []
    times = [record.timestamp for frame in split(data)[0] for record in unpacked(frame.batch)]
    assert (*times[:2], times[-1]) == (1_700_000_000_000, 1_700_000_000_001, -1)
    assert len(events_of(b"X" + data[1:])) == 24, "with a damaged beginning"


@pytest.mark.parametrize("byte", range(8, 16))
def test_a_flipped_length_in_a_file_of_the_version_before_costs_one_event(byte: int) -> None:
    data = bytearray(VERSION_1.read_bytes())
    whole = events_of(bytes(data))
    for bit in range(8):
        damaged = bytearray(data)
        damaged[byte] ^= 1 << bit
        assert events_of(bytes(damaged)) == whole[1:]
        assert len(split(bytes(damaged))[1]) == 1


def test_a_file_of_the_journal_that_cannot_be_read_is_named() -> None:
    alive, ended = SimpleNamespace(child=SimpleNamespace(alive=True)), Thread()
    denied = PermissionError(13, "Permission denied", "journal/00000001.journal")
    for failure, says in ((denied, "journal/00000001.journal"), (ValueError("odd"), "must stop: ValueError")):
        broker: Any = SimpleNamespace(_broker=alive, _thread=ended, _failure=failure)
        with pytest.raises((OSError, EmbeddedError), match=says):
            DurableBroker.check(broker)


KAFKA_PYTHON = """
import sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1])
print(producer.config["enable_idempotence"])
sent = [producer.send("trial-events", b"%d" % number, partition=number % 3) for number in range(300)]
print(len([one.get(30) for one in sent]))
"""


@pytest.mark.peer
def test_a_client_that_is_idempotent_by_default_is_served(tmp_path: Path) -> None:
    peer = peer_environment("kafka-python==3.0.12", with_base=False)
    with durable(tmp_path) as broker:
        done = run_in_peer(peer, "python", "-c", KAFKA_PYTHON, broker.bootstrap, cwd=tmp_path)
        assert done.stdout.split() == ["True", "300"], done.stderr
    with durable(tmp_path) as broker:
        assert sorted(values(broker, 300).values(), key=int) == [b"%d" % number for number in range(300)]
