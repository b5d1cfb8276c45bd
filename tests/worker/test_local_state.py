"""Directories of workers that keep their tables on local disk."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from streamer.settings import Settings
from streamer.worker.tables import StateUnavailable, held_directory


def test_workers_that_share_a_data_directory_have_places_of_their_own(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store="rocksdb")
    with held_directory(settings, "log") as first, held_directory(settings, "log") as second:
        assert first != second
    with held_directory(settings, "log") as third:
        assert third == first


def test_what_was_recovered_from_another_log_is_removed(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store="rocksdb")
    with held_directory(settings, "old") as old:
        (old / "row").touch()
        with held_directory(settings, "new"):
            assert (old / "row").exists()
    with held_directory(settings, "new"):
        assert not old.exists()


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(StateUnavailable, match=r"pip install \'trialstream\[rocksdb\]\'"),
        held_directory(Settings(data_dir=tmp_path), "log"),
    ):
        pass
