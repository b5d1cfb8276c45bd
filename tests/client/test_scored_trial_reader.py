"""What a record of the topic of scored trials changes in one run."""

from __future__ import annotations

from types import SimpleNamespace

import orjson

from streamer.client.feeds import ScoredTrialReader


def a_record(version: tuple[int, int] | None, key: str | None = "r|slot", offset: int = 0) -> SimpleNamespace:
    """A scored trial of this version; None: a tombstone."""
    value = version and orjson.dumps({"epoch": version[0], "state_version": version[1]})
    return SimpleNamespace(key=key and key.encode(), offset=offset, value=value)


def test_a_late_writers_trial_changes_nothing() -> None:
    reader = ScoredTrialReader("r")
    taken = [
        reader.change(a_record(version)) is not None for version in ((1, 5), (1, 4), (1, 5), (2, 0), (1, 9))
    ]
    assert taken == [True, False, True, True, False]


def test_a_deleted_slot_stays_empty_when_a_late_writer_fills_it() -> None:
    reader = ScoredTrialReader("r")
    assert reader.change(a_record((1, 5)))
    deletion = reader.change(a_record(None))
    assert deletion
    assert (deletion.trial, deletion.version) == (None, None)
    assert reader.change(a_record((1, 4))) is None
    assert reader.change(a_record((1, 6)))


def test_only_the_run_itself_is_read() -> None:
    reader = ScoredTrialReader("r/1")
    assert [
        reader.change(a_record((1, 1), key)) is not None
        for key in ("r%2F1|slot", "r%2F1x|slot", "r|slot", None)
    ] == [True, False, False, False]


def test_slots_are_guarded_apart_and_a_change_says_where_it_stands() -> None:
    reader = ScoredTrialReader("r")
    assert reader.change(a_record((1, 5), "r|one"))
    change = reader.change(a_record((1, 4), "r|other", offset=7))
    assert change
    assert (change.key, change.offset, change.version) == (b"r|other", 7, (1, 4))
