"""What changed in a run is handed over once, and nothing is collected that nobody takes."""

from __future__ import annotations

from streamer.folding.slots import RunChanges, SlotKey, SummaryChange
from streamer.schemas.wire import RUN, GroupId
from tests.support.events import a_trial, folded

GROUP = GroupId(None, "terminus", "gpt-5")
SLOTS = [SlotKey("", f"t{number}", 1, "terminus", "gpt-5", None, None) for number in range(3)]


def test_what_was_taken_is_not_handed_over_again() -> None:
    changes = RunChanges()
    changes.groups([GROUP])
    changes.scored_trial(SLOTS[0])
    changes.slot(SLOTS[0])
    changes.plan()
    assert changes.take_groups().groups == {GROUP}
    assert list(changes.take_scored()) == [SLOTS[0]]
    assert changes.take_pages() == ({SLOTS[0]: None}, True, False)
    assert changes.take_groups() == (set(), [])
    assert list(changes.take_scored()) == []
    assert changes.take_pages() == ({}, False, False)


def test_of_many_scored_trials_the_latest_are_handed_over_first_and_none_twice() -> None:
    changes = RunChanges()
    for slot in (*SLOTS, SLOTS[0]):
        changes.scored_trial(slot)
    assert changes.scored_waiting == 3
    assert list(changes.take_scored(2)) == [SLOTS[2], SLOTS[1]]
    assert list(changes.take_scored(2)) == [SLOTS[0]]


def test_who_takes_no_scored_trials_and_no_pages_collects_none() -> None:
    changes = RunChanges(scored_trials=False, pages=False)
    changes.scored_trial(SLOTS[0])
    changes.slot(SLOTS[0])
    assert changes.scored_waiting == 0
    assert changes.take_pages().slots == {}


def test_slots_share_the_text_that_they_have_in_common() -> None:
    """A million slots of a few tiers would have a hundred megabytes of equal texts."""
    trials = [a_trial(task_id=task, tier="a tier", subtest="a subtest") for task in ("one", "two")]
    one, two = folded(trials)[0].run("run-1").state.slots
    assert one != two
    assert all(ours is theirs for ours, theirs in zip(one, two, strict=True) if ours == theirs)


def test_a_tombstone_has_the_key_of_its_summary_and_no_value() -> None:
    missing = SummaryChange.tombstone("a|b", RUN, 1, 7)
    assert (missing.kind, missing.key, missing.value, missing.summary, missing.digest) == (
        "run",
        "a%7Cb",
        None,
        None,
        "",
    )


# -----------------------------------------------------------------------------
# What the rows of a group say: which outcomes are final, and the attempts at each task.
