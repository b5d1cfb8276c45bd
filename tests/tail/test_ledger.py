"""The ledger makes the log say what a directory says; the journal survives; settling waits for files."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamer.sources.tail import EventFields, Ledger, wanted
from tests.support.events import a_plan
from tests.support.examples import examples
from tests.support.tailing import digests_of
from tests.tail.reconciling import reconciled, results_of

FILES = st.dictionaries(
    st.sampled_from(["f1", "f2", "f3"]),
    st.tuples(st.sampled_from(["t1", "t2"]), st.integers(0, 3), st.integers(0, 3)),
)
"""File -> (task, time of writing, cost): two files may hold one slot, and times say nothing."""


def reopened(ledger: Ledger) -> Ledger:
    """As the journal has it after the end of the process."""
    again = Ledger()
    for line in ledger.dump():
        again.restore(line)
    return again


@examples(150)
@given(st.lists(st.tuples(FILES, st.booleans(), st.integers(0, 9)), max_size=6), FILES)
def test_whatever_a_directory_said_before_and_however_often_its_tail_was_killed_the_last_word_counts(
    history: list[tuple[dict[str, tuple[str, int, int]], bool, int]], last: dict[str, tuple[str, int, int]]
) -> None:
    """A kill loses any part of what was noted and not yet published; the next start makes up for it."""
    plan = a_plan(tasks=2)
    log: list[EventFields] = [plan]
    ledger = Ledger()
    for files, killed, arrived in history:
        events = reconciled(ledger, results_of(files))
        log += events[:arrived] if killed else events
        if killed:
            ledger = reopened(ledger)
    log += reconciled(ledger, results_of(last))
    wanted_digests = digests_of([plan, *(event for _, event in results_of(last))])
    assert digests_of(log) == wanted_digests


def test_resolved_results_are_published_once() -> None:
    ledger = Ledger()
    results = results_of({"f1": ("t1", 1, 1), "f2": ("t1", 2, 2)})
    assert len(reconciled(ledger, results)) == 2
    assert reconciled(ledger, results) == []
    again = reopened(ledger)
    assert reconciled(again, results) == [results[1][1]]


def a_start(**fields: Any) -> EventFields:
    event = {"type": "trial_started", "run_id": "run-1", "task_id": "t1", "agent": "terminus", "model": "m"}
    return event | {"revision": 5} | fields


def test_a_start_is_published_once_and_a_restart_knows_it() -> None:
    ledger = Ledger()
    assert list(ledger.start(wanted(a_start(), "t1"))) == [a_start()]
    assert list(ledger.start(wanted(a_start(revision=9), "t1"))) == []
    assert list(reopened(ledger).start(wanted(a_start(), "t1"))) == []
    ((key, path),) = reopened(ledger).begun()
    assert (key[1].task_id, path) == ("t1", "t1")


def test_a_start_counts_for_nothing_where_a_result_stands() -> None:
    ledger = Ledger()
    (event,) = reconciled(ledger, results_of({"f1": ("t1", 1, 1)}))
    start = {name: event[name] for name in ("run_id", "task_id", "agent", "model")}
    assert list(ledger.start(wanted({"type": "trial_started", "revision": 9, **start}, "t1"))) == []
    assert list(ledger.begun()) == []


def test_a_start_after_a_withdrawal_lies_above_it() -> None:
    ledger = Ledger()
    first = wanted(a_start(), "t1")
    assert len(list(ledger.start(first))) == 1
    assert ledger.retract(first.key)["revision"] == 5
    assert list(reopened(ledger).retracted()) != []
    again = reopened(ledger)
    assert [event["revision"] for event in again.start(first)] == [6]
    assert list(reopened(again).start(first)) == []


def test_a_plan_is_published_when_it_says_something_else() -> None:
    ledger = Ledger()
    published = [
        event
        for plan in (
            a_plan(tasks=2, revision=5),
            a_plan(tasks=2, revision=7),
            a_plan(tasks=3, revision=5),
            a_plan(tasks=3, revision=4),
        )
        for event in ledger.plan(plan)
    ]
    assert [(event["tasks"], event["revision"]) for event in published] == [(2, 5), (3, 6)]
    assert list(reopened(ledger).plan(a_plan(tasks=3, revision=9))) == [a_plan(tasks=3, revision=6)]
