"""The journal's files: order, numbers, segments, torn tails, damage, a full disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from streamer.operate.local.journal import HEAD_BYTES, MAGIC, Frame, Journal
from tests.embedded.full_disk import small_disk

FRAMES = [Frame(n % 3, n // 3 * 2, 2, b"batch-%d" % n) for n in range(10)]


def written(directory: Path, frames: list[Frame], **options: int) -> Journal:
    """A journal that one writer wrote and closed, one write per frame."""
    journal = Journal(directory, **options)
    assert list(journal.read(lambda _: None)) is not None
    for frame in frames:
        journal.write([(frame.partition, frame.events, frame.batch)])
    journal.close()
    return journal


def read(directory: Path) -> tuple[list[Frame], list[str]]:
    """Frames and warnings."""
    warnings: list[str] = []
    return list(Journal(directory).read(warnings.append)), warnings


def test_frames_come_back_in_order_over_many_segments_and_writers(tmp_path: Path) -> None:
    written(tmp_path, FRAMES[:4], segment_bytes=1)
    journal = written(tmp_path, FRAMES[4:])
    assert [path.name for path in journal.segments()] == [f"0000000{n}.journal" for n in (1, 2, 3, 4, 5)]
    assert read(tmp_path) == (FRAMES, [])


def test_a_journal_without_events_makes_no_file(tmp_path: Path) -> None:
    assert written(tmp_path, []).segments() == []


def test_a_torn_tail_is_cut_with_one_warning_and_kept_beside(tmp_path: Path) -> None:
    path = written(tmp_path, FRAMES).segments()[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    frames, warnings = read(tmp_path)
    assert frames == FRAMES[:-1]
    assert len(warnings) == 1
    assert "not written to its end" in warnings[0]
    assert path.read_bytes() + path.with_suffix(".cut").read_bytes() == whole[:-5]
    assert read(tmp_path) == (FRAMES[:-1], [])


def test_a_writer_killed_before_its_first_event_leaves_no_damage(tmp_path: Path) -> None:
    (tmp_path / "00000001.journal").write_bytes(MAGIC[:3])
    read(tmp_path)
    written(tmp_path, FRAMES)
    assert read(tmp_path) == (FRAMES, [])


@pytest.mark.parametrize("writers", [1, 2])
@pytest.mark.parametrize("place", ["head", "body"])
def test_damage_is_named_with_its_bytes_and_events_at_every_start(
    tmp_path: Path, writers: int, place: str
) -> None:
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
        assert warnings[1:] == [f"Of the journal in {tmp_path}, 2 events are missing for these reasons."]
    assert path.read_bytes() == damaged


def test_numbers_go_on_behind_damage(tmp_path: Path) -> None:
    path = written(tmp_path, FRAMES[:9]).segments()[0]
    path.write_bytes(path.read_bytes().replace(b"batch-8", b"batcH-8"))
    written(tmp_path, [FRAMES[9]])
    _, warnings = read(tmp_path)
    assert warnings[1:] == [f"Of the journal in {tmp_path}, 2 events are missing for these reasons."]


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    journal = written(tmp_path, FRAMES, segment_bytes=1)
    told: list[tuple[int, int]] = []
    assert list(Journal(tmp_path).read(print, lambda *bytes_read: told.append(bytes_read))) == FRAMES
    total = sum(path.stat().st_size for path in journal.segments())
    assert len(told) == len(FRAMES)
    assert told[-1] == (total, total)


def test_a_write_that_the_disk_refuses_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024 * 1024) as disk:
        journal = written(disk / "journal", FRAMES)
        ballast = disk / "ballast"
        for _ in range(5):
            with pytest.raises(OSError, match="No space left") as refused:
                journal.write([(0, 1, os.urandom(2 * 1024 * 1024))])
            assert refused.value.errno == errno.ENOSPC
        ballast.write_bytes(
            bytes(1024 * 1024 - sum(p.stat().st_size for p in journal.segments()) - 200 * 1024)
        )
        big = os.urandom(300 * 1024)
        with pytest.raises(OSError, match="No space left"):
            journal.write([(0, 1, big)])
        ballast.unlink()
        journal.write([(0, 1, big)])
        journal.close()
        frames, warnings = read(disk / "journal")
        assert frames == [*FRAMES, Frame(0, 8, 1, big)]
        assert warnings == []
