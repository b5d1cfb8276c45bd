"""The ledger on disk: what is cut off counts for nothing, and a directory has one follower."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.tail.ledger_file import AlreadyFollowed, LedgerFile
from tests.tail.reconciling import reconciled, results_of


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
