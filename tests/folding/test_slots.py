"""What changed in a run is handed over once, and nothing is collected that nobody takes."""

from __future__ import annotations

from streamer.folding.slots import RunChanges, SlotKey, SummaryChange
from streamer.folding.uncertainty import PASSED, STORED, Roster
from streamer.schemas.base import RUN, GroupId
from tests.support.events import Event, a_start, a_trial, folded

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
# The rows of a run: one for each slot, whatever comes and goes in it.


def roster(*events: Event) -> Roster:
    run = folded(events)[0].run("run-1").state
    run.count()
    return run.scores.roster


def test_each_slot_has_one_row_however_often_its_result_is_corrected() -> None:
    events = [a_trial(revision=n, resolved=n % 2 == 0, cost_usd=n / 4) for n in (1, 2, 3)]
    lineup = roster(*events, a_trial(task_id="other")).lineup(GROUP)
    assert (len(lineup.keys()), lineup.stored.tolist()) == (2, [True, True])
    assert lineup.values("cost_usd")[0] == 0.75
    assert (lineup.count(STORED | PASSED, STORED | PASSED), lineup.count(STORED, STORED | PASSED)) == (1, 1)


def test_the_run_has_all_rows_and_a_group_knows_the_positions_of_the_others() -> None:
    rows = roster(a_start(position=0), a_start(agent="other", position=1))
    assert len(rows.lineup(RUN).keys()) == 2
    assert rows.lineup(GROUP).others() == {1}
    assert rows.lineup(RUN).others() == set()
    assert rows.lineup(GroupId(None, "nobody", "m")).keys() == []
