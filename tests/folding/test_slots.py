"""What changed in a run is handed over once, and nothing is collected that nobody takes."""

from __future__ import annotations

from streamer.folding.slots import RunChanges, SlotKey, SummaryChange
from streamer.folding.uncertainty import UNFINISHED, Evidence
from streamer.schemas.wire import RUN, GroupId
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
# What the rows of a group say: which outcomes are final, and the attempts at each task.


AGENT = GroupId(None, "terminus", "gpt-5")
CRASH = {"resolved": False, "harness": "terminal-bench", "failure_mode": "unknown_agent_error"}


def evidence(*events: Event, finished: bool = False) -> Evidence:
    run = folded(events)[0].run("run-1").state
    run.count()
    open_states = 0 if finished else UNFINISHED
    return Evidence(
        run.groups[AGENT], run.scores.roster.lineup(AGENT), finished=finished, open_states=open_states
    )


def test_passes_and_failures_are_known_and_a_start_is_in_flight() -> None:
    result = evidence(a_trial(), a_trial(task_id="b", resolved=False), a_start(task_id="c"))
    assert (result.known, result.passed, result.in_flight) == (2, 1, 1)
    assert sorted(map(str, result.outcomes())) == ["False", "None", "True"]


def test_a_crash_of_the_infrastructure_is_final_only_when_the_run_has_finished() -> None:
    events = (a_trial(), a_trial(task_id="b", **CRASH), a_start(task_id="c"))
    assert (evidence(*events).known, evidence(*events, finished=True).known) == (1, 2)
    assert evidence(*events, finished=True).in_flight == 0


def test_tasks_are_counted_by_attempts_and_passes() -> None:
    events = [
        a_trial(task_id=task, attempt=attempt, resolved=attempt == 1) for task in "ab" for attempt in (1, 2)
    ]
    result = evidence(*events, a_trial(task_id="c"))
    assert sorted(result.successes) == [(1, 1, 1), (2, 1, 2)]
    left = result.attempted(3)
    assert left is not None
    assert sorted(task.missing for task in left) == [1, 2]
    assert result.attempted(1) is None, "a task has more attempts than planned"
