"""The ledger on disk: what is cut off counts for nothing, and a directory has one follower."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.settings import Settings
from streamer.sources.tail import AlreadyFollowed, Followed, LedgerFile, followed, ledger_path
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


def test_what_was_followed_is_remembered_with_its_pool_wherever_one_looks_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for pool in (None, "pool"):
        with LedgerFile(ledger_path(settings, Path("runs"), pool), Path("runs"), pool) as ledger:
            ledger.load()
    monkeypatch.chdir("/")
    wanted = {Followed(tmp_path / "runs", None), Followed(tmp_path / "runs", "pool")}
    assert set(followed(settings)) == wanted


@pytest.mark.parametrize(
    "first",
    [
        *("", "[]\n", '{"followed": 1, "run_id": null}\n', "\x00\n"),
        '{"followed": "runs"}\n',
        '{"followed": "runs", "run_id": null}\n',
        '{"followed": "/runs"}\n',
        '{"followed": "/runs", "run_id": 1}\n',
    ],
)
def test_a_ledger_that_names_no_directory_and_pool_as_one_of_today_does_names_nothing(
    tmp_path: Path, first: str
) -> None:
    """Older versions wrote the directory as the user did, relative to wherever that was, and no pool."""
    settings = Settings(data_dir=tmp_path / "data")
    path = ledger_path(settings, Path("runs"), None)
    path.parent.mkdir(parents=True)
    path.write_text(first)
    assert followed(settings) == []


def test_a_ledger_of_an_older_version_names_its_directory_once_it_is_followed_again(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    path = ledger_path(settings, tmp_path, "pool")
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"followed": "{tmp_path}"}}\n')
    with LedgerFile(path, tmp_path, "pool") as ledger:
        ledger.load()
    assert followed(settings) == [Followed(tmp_path, "pool")]
