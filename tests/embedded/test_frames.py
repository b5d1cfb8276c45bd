"""Frames: what was written is read, and nothing else is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.embedded.frames import MAGIC, Damage, Entry, encode, read_frames

entries = st.builds(
    Entry,
    partition=st.integers(0, 2**32 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    key=st.none() | st.binary(max_size=40),
    value=st.none() | st.binary(max_size=200),
)


def file_of(written: list[Entry]) -> bytes:
    return MAGIC + b"".join(map(encode, written))


def split(data: bytes) -> tuple[list[Entry], list[Damage]]:
    found = list(read_frames(data))
    return [x for x in found if isinstance(x, Entry)], [x for x in found if isinstance(x, Damage)]


@given(st.lists(entries, max_size=20))
def test_what_was_written_is_read_back_null_and_empty_kept_apart(written: list[Entry]) -> None:
    assert split(file_of(written)) == (written, [])


@given(st.lists(entries, min_size=1, max_size=5), st.data())
def test_a_file_cut_anywhere_gives_the_whole_entries_before_the_cut(
    written: list[Entry], data: st.DataObject
) -> None:
    whole = file_of(written)
    cut = data.draw(st.integers(len(MAGIC), len(whole) - 1))
    before = [n for n in range(len(written) + 1) if len(file_of(written[:n])) <= cut][-1]
    read, damages = split(whole[:cut])
    assert read == written[:before]
    rest = cut - len(file_of(written[:before]))
    assert damages == ([Damage(cut - rest, rest)] if rest else [])


@settings(max_examples=200)
@given(st.lists(entries, min_size=1, max_size=5), st.data())
def test_a_flipped_bit_is_reported_and_invents_no_entry(written: list[Entry], data: st.DataObject) -> None:
    damaged = bytearray(file_of(written))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    read, damages = split(bytes(damaged))
    assert len(damages) == 1
    assert all(entry in written for entry in read)
    assert len(read) < len(written)


def test_a_damaged_body_costs_only_its_own_entry() -> None:
    written = [Entry(0, n, b"k", b"v%d" % n) for n in range(3)]
    damaged = bytearray(file_of(written))
    damaged[len(file_of(written[:2])) - 1] ^= 0xFF
    read, damages = split(bytes(damaged))
    assert read == [written[0], written[2]]
    assert damages == [Damage(len(file_of(written[:1])), len(encode(written[1])))]


def test_a_tail_of_zeros_as_a_power_cut_leaves_it_is_damage() -> None:
    whole = file_of([Entry(0, 1, b"k", b"v")])
    assert split(whole + bytes(4096)) == ([Entry(0, 1, b"k", b"v")], [Damage(len(whole), 4096)])


def test_an_empty_file_holds_nothing_and_a_foreign_one_is_all_damage() -> None:
    assert list(read_frames(b"")) == []
    assert list(read_frames(b"hello, world")) == [Damage(0, 12)]
