"""Whose directory is whose: named to the server, or followed by `tail` on this machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from streamer.settings import Settings
from streamer.tail.ledger_file import LedgerFile, followed, ledger_path
from streamer.web import run_directories
from streamer.web.run_directories import LOOK_AGAIN_SECONDS, RunDirectories
from tests.web.trial_files import RUN, make_run


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def follow(settings: Settings, root: Path) -> None:
    """What `tail` leaves of a directory that it follows."""
    with LedgerFile(ledger_path(settings, root, None), root) as ledger:
        ledger.load()


def test_a_run_is_found_below_a_directory_that_was_named(settings: Settings, tmp_path: Path) -> None:
    runs = make_run(tmp_path)
    for named in (runs, runs / RUN):
        assert RunDirectories(settings, [named], Clock()).of(RUN, "") == (runs / RUN).resolve()


def test_a_run_that_was_pooled_is_found_by_its_shard(settings: Settings, tmp_path: Path) -> None:
    directories = RunDirectories(settings, [make_run(tmp_path)], Clock())
    assert directories.of("pool", f"{RUN}/2") == (tmp_path / "runs" / RUN).resolve()
    assert directories.of("pool", "other") is None


def test_what_tail_followed_is_named_for_the_same_deployment_alone(
    settings: Settings, tmp_path: Path
) -> None:
    runs = make_run(tmp_path)
    follow(settings, runs)
    assert followed(settings) == [runs]
    assert RunDirectories(settings, [], Clock()).of(RUN, "") == (runs / RUN).resolve()
    other = settings.model_copy(update={"namespace": "other"})
    assert RunDirectories(other, [], Clock()).of(RUN, "") is None


def test_a_directory_that_is_named_relative_to_another_place_is_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    follow(settings, Path("runs"))
    monkeypatch.chdir("/")
    assert followed(settings) == [tmp_path / "runs"]


def test_a_run_that_appears_later_is_looked_for_again_but_not_all_the_time(
    settings: Settings, tmp_path: Path
) -> None:
    clock = Clock()
    directories = RunDirectories(settings, [tmp_path / "runs"], clock)
    assert directories.of(RUN, "") is None
    make_run(tmp_path)
    assert directories.of(RUN, "") is None
    clock.now += LOOK_AGAIN_SECONDS
    assert directories.of(RUN, "") is not None


def test_a_list_that_is_no_list_names_nothing(settings: Settings, tmp_path: Path) -> None:
    place = ledger_path(settings, tmp_path, None).parent
    place.mkdir(parents=True)
    for name, content in (("a", ""), ("b", "[]\n"), ("c", '{"followed": 1}\n'), ("d", "\x00\n")):
        (place / f"{name}.ndjson").write_text(content)
    assert followed(settings) == []


def test_while_one_search_goes_on_others_get_what_the_last_one_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = RunDirectories(settings, [make_run(tmp_path)], Clock())
    begun, end, found = threading.Event(), threading.Event(), []
    discover = run_directories.discover

    def slow(*arguments: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return discover(*arguments)

    monkeypatch.setattr(run_directories, "discover", slow)
    first = threading.Thread(target=lambda: found.append(directories.of(RUN, "")))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=lambda: found.append(directories.of(RUN, "")))
    second.start()
    second.join(30)
    assert found == [None]
    end.set()
    first.join(60)
    assert found == [None, (tmp_path / "runs" / RUN).resolve()]
