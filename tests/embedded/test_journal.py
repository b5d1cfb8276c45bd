"""The journal's files: order, segments, torn tails, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.embedded.errors import EmbeddedError
from streamer.embedded.frames import MAGIC, Entry
from streamer.embedded.journal import Journal
from streamer.embedded.locks import locked

ENTRIES = [Entry(n % 3, n, b"run", b"value-%d" % n) for n in range(10)]


def written(directory: Path, entries: list[Entry], **options: int) -> Journal:
    """A journal that one writer wrote and closed, one append per entry."""
    journal = Journal(directory, **options)
    for entry in entries:
        journal.append([entry])
    journal.close()
    return journal


def read(directory: Path) -> tuple[list[Entry], list[str]]:
    """Entries and warnings."""
    warnings: list[str] = []
    return list(Journal(directory).read(warnings.append)), warnings


def test_entries_come_back_in_order_over_many_segments_and_writers(tmp_path: Path) -> None:
    written(tmp_path, ENTRIES[:4], segment_bytes=1)
    journal = written(tmp_path, ENTRIES[4:])
    assert [path.name for path in journal.segments()] == [f"0000000{n}.journal" for n in (1, 2, 3, 4, 5)]
    assert read(tmp_path) == (ENTRIES, [])


def test_what_is_appended_can_be_read_before_it_is_synced(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(ENTRIES)
    assert journal.dirty
    assert read(tmp_path) == (ENTRIES, [])
    journal.close()
    assert not journal.dirty


def test_a_journal_without_entries_makes_no_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([])
    journal.close()
    assert journal.segments() == []


def test_a_torn_tail_is_cut_with_one_warning_and_kept_beside(tmp_path: Path) -> None:
    path = written(tmp_path, ENTRIES).segments()[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    entries, warnings = read(tmp_path)
    assert entries == ENTRIES[:-1]
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert path.read_bytes() + path.with_suffix(".cut").read_bytes() == whole[:-5]
    assert read(tmp_path) == (ENTRIES[:-1], [])


def test_a_writer_killed_before_its_first_entry_leaves_no_damage(tmp_path: Path) -> None:
    (tmp_path / "00000001.journal").write_bytes(MAGIC[:3])
    assert read(tmp_path)[0] == []
    written(tmp_path, ENTRIES)
    assert read(tmp_path) == (ENTRIES, [])


@pytest.mark.parametrize("writers", [1, 2])
def test_damage_in_the_middle_is_named_at_every_start_and_never_cut(tmp_path: Path, writers: int) -> None:
    path = written(tmp_path, ENTRIES[:5]).segments()[0]
    if writers == 2:
        written(tmp_path, ENTRIES[5:])
    damaged = path.read_bytes().replace(b"value-2", b"valuE-2")
    path.write_bytes(damaged)
    for _ in range(2):
        entries, warnings = read(tmp_path)
        assert entries == [entry for entry in ENTRIES[: 5 * writers] if entry.value != b"value-2"]
        assert len(warnings) == 1
        assert f"{path} is damaged" in warnings[0]
    assert path.read_bytes() == damaged


def test_a_second_process_is_told_who_has_the_lock(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "lock", "The journal"),
        pytest.raises(EmbeddedError, match=r"The journal .* is in use by process \d+"),
        locked(tmp_path / "lock", "The journal"),
    ):
        pass
    with locked(tmp_path / "lock", "The journal"):
        pass
