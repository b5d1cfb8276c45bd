"""The ledger makes the log say what a directory says; the journal survives; settling waits for files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.tail.file_stability import FileStability, Stability, unstable_paths
from streamer.tail.ledger import EventFields, Ledger, wanted
from streamer.tail.ledger_file import AlreadyFollowed, LedgerFile
from tests.support.events import a_plan, a_trial
from tests.support.examples import examples
from tests.support.tailing import digests_of

FILES = st.dictionaries(
    st.sampled_from(["f1", "f2", "f3"]),
    st.tuples(st.sampled_from(["t1", "t2"]), st.integers(0, 3), st.integers(0, 3)),
)
"""File -> (task, time of writing, cost): two files may hold one slot, and times say nothing."""


def results_of(files: dict[str, tuple[str, int, int]]) -> list[tuple[str, EventFields]]:
    return [
        (path, a_trial(task_id=task, revision=revision, cost_usd=float(cost)))
        for path, (task, revision, cost) in sorted(files.items())
    ]


def reconciled(ledger: Ledger, results: Iterable[tuple[str, EventFields]]) -> list[EventFields]:
    """What is to be published so that these results, and no others, stand."""
    groups: dict[object, list[object]] = {}
    for path, event in results:
        new = wanted(event, path)
        groups.setdefault(new.key, []).append(new)
    events = [event for group in groups.values() for event in ledger.resolve(group)]  # type: ignore[arg-type]
    gone = [key for key, _ in ledger.filled() if key not in groups]
    return [*ledger.retracted(), *events, *(ledger.retract(key) for key in gone)]


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


def test_a_journal_remembers_and_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    results = results_of({"f1": ("t1", 1, 1), "f2": ("t2", 2, 2)})
    with LedgerFile(path, tmp_path) as journal:
        ledger = journal.load()
        events = reconciled(ledger, results)
        journal.append(ledger.lines)
    with path.open("ab") as file:
        file.write(b'{"key": ["run-1", "", "t1", 1, "terminus"')
    for _ in range(2):
        with LedgerFile(path, tmp_path) as journal:
            ledger = journal.load()
            assert len(list(ledger.filled())) == 2
            assert reconciled(ledger, results) == events


def test_a_directory_has_one_follower(tmp_path: Path) -> None:
    path = tmp_path / "journal.ndjson"
    with (
        LedgerFile(path, tmp_path),
        pytest.raises(AlreadyFollowed, match="end that first"),
        LedgerFile(path, tmp_path),
    ):
        pass
    with LedgerFile(path, tmp_path) as journal:
        assert journal.problem is None


def test_a_journal_that_cannot_be_kept_is_a_problem_and_not_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with LedgerFile(tmp_path / "file" / "journal.ndjson", tmp_path) as journal:
        ledger = journal.load()
        reconciled(ledger, results_of({"f1": ("t1", 1, 1)}))
        journal.append(ledger.lines)
        assert "cannot keep" in (journal.problem or "")


def test_a_file_is_unstable_until_it_parses_or_stays_still(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"a": ')
    now = 100.0
    written = os.stat(path).st_ctime
    settling = FileStability(5.0, clock=lambda: now, wall=lambda: written + 1.0)

    def verdict(begun: float) -> Stability:
        return settling.judge([path], begun)[path]

    assert verdict(begun=99.0) is Stability.CHANGED
    now = 104.0
    assert verdict(begun=103.0) is Stability.WRITING
    path.write_text('{"a": 1, ')
    assert verdict(begun=103.0) is Stability.CHANGED
    now = 108.0
    assert verdict(begun=107.0) is Stability.WRITING
    now = 109.0
    assert verdict(begun=107.0) is Stability.STANDS
    path.write_text('{"a": 1}')
    assert verdict(begun=108.0) is Stability.CHANGED
    now = 110.0
    assert verdict(begun=109.5) is Stability.FRESH
    path.unlink()
    assert verdict(begun=109.9) is Stability.GONE


def test_a_file_that_was_broken_long_ago_is_not_waited_for(tmp_path: Path) -> None:
    path, gone = tmp_path / "results.json", tmp_path / "gone"
    path.write_text("{")
    later = os.stat(path).st_ctime + 60.0
    settling = FileStability(5.0, clock=lambda: 0.0, wall=lambda: later)
    assert settling.judge([path, gone], begun=0.0) == {path: Stability.FRESH, gone: Stability.GONE}
    assert unstable_paths({path: Stability.FRESH, gone: Stability.GONE}) == {gone}
