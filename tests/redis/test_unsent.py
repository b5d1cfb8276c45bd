"""What waits for Redis: the latest of each key, bounded."""

from __future__ import annotations

from streamer.storage.entries import KeyState, Unsent, entry_of
from tests.support.builders import a_run_change, a_tier_change


def an_entry(run: str, version: int, *, deleted: bool = False, news: bool = True) -> KeyState:
    return entry_of(a_run_change(run, version=version, deleted=deleted), news=news)


def waiting(unsent: Unsent) -> list[tuple[str, int]]:
    return [(entry.run_id, entry.version[1]) for run in unsent.runs() for entry in unsent.of(run)]


def test_the_latest_of_each_key_waits() -> None:
    unsent = Unsent(limit=10)
    for version in (1, 3, 2):
        unsent.put(an_entry("r", version))
    assert waiting(unsent) == [("r", 3)]
    assert len(unsent) == 1


def test_news_that_a_silent_entry_overtook_stay_news() -> None:
    unsent = Unsent(limit=10)
    unsent.put(an_entry("r", 1, news=True))
    unsent.put(an_entry("r", 2, news=False))
    assert unsent.of("r")[0].news


def test_an_entry_that_changed_while_it_was_sent_still_waits() -> None:
    unsent = Unsent(limit=10)
    sent = an_entry("r", 1)
    unsent.put(sent)
    unsent.put(an_entry("r", 2))
    unsent.discard(sent)
    assert waiting(unsent) == [("r", 2)]


def test_when_it_is_full_summaries_go_before_tombstones_oldest_first() -> None:
    unsent = Unsent(limit=2)
    unsent.put(an_entry("deleted", 1, deleted=True))
    for run in ("a", "b", "c"):
        unsent.put(an_entry(run, 1))
    assert waiting(unsent) == [("deleted", 1), ("c", 1)]
    assert (len(unsent), unsent.dropped, unsent.incomplete) == (2, 2, {"a", "b"})


def test_what_waits_is_asked_for_run_by_run() -> None:
    unsent = Unsent(limit=100)
    for run in ("a", "b"):
        unsent.put(an_entry(run, 1))
        unsent.put(entry_of(a_tier_change(run), news=True))
    assert unsent.runs() == ["a", "b"]
    assert [entry.suffix for entry in unsent.of("b")] == ["run", "tier:T0"]
    assert unsent.of("unknown") == []
