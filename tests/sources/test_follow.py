"""Which parts are read again, and when: none of them alone keeps the machine busy."""

from __future__ import annotations

from pathlib import Path

from streamer.sources.tail.follow import AGAIN_SECONDS, REST, ReadQueue


class Parts:
    """Parts under a clock of our own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pending = ReadQueue(clock=lambda: self.now)

    def read(self, part: Path, seconds: float = 0.0, *, again: bool = False) -> None:
        begun = self.now
        self.now += seconds
        self.pending.was_read(part, begun, again=again)


def test_what_changed_is_read_before_what_was_found_and_a_plan_after_both() -> None:
    parts = Parts()
    parts.pending.changed(Path("plan"), last=True)
    parts.pending.add(Path("found"))
    parts.now += 1.0
    parts.pending.changed(Path("changed"))
    assert parts.pending.ready() == [Path("changed"), Path("found"), Path("plan")]


def test_a_part_is_read_once_more_after_it_changed_and_then_no_more() -> None:
    parts, part = Parts(), Path("part")
    parts.pending.changed(part)
    parts.read(part)
    assert parts.pending.ready() == []
    assert not parts.pending.is_quiet(part)
    parts.now += AGAIN_SECONDS
    assert parts.pending.ready() == [part]
    assert parts.pending.is_quiet(part)
    parts.read(part)
    parts.now += 1_000.0
    assert parts.pending.ready() == []


def test_a_part_that_takes_long_and_changes_all_the_time_rests_between_readings() -> None:
    parts, part = Parts(), Path("results.json")
    parts.pending.changed(part)
    parts.read(part, seconds=2.0)
    parts.pending.changed(part)
    assert parts.pending.ready() == []
    parts.now += 2.0 * REST
    assert parts.pending.ready() == [part]


def test_a_part_that_is_being_written_is_read_until_it_is_not() -> None:
    parts, part = Parts(), Path("part")
    parts.pending.add(part)
    for _ in range(5):
        assert parts.pending.ready() == [part]
        parts.read(part, again=True)
        assert parts.pending.ready() == []
        parts.now += AGAIN_SECONDS
    parts.read(part)
    assert parts.pending.ready() == []
