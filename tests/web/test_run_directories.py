"""Whose directory is whose: named to the server, or followed by `tail`; and which of its files are shown."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from streamer.schemas.events import TrialResult
from streamer.settings import Settings
from streamer.sources import convert
from streamer.sources.tail import LedgerFile, followed, ledger_path
from streamer.web import artifacts
from streamer.web.artifacts import LOOK_AGAIN_SECONDS, NOT_NAMED, CannotBeOpened, RunDirectories
from tests.web.trial_files import FILES, RUN, make_run

TRIAL = "task-1/task-1.1-of-1.files-run"


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


def follow(settings: Settings, root: Path, pool: str | None = None) -> None:
    """What `tail` leaves of a directory that it follows."""
    with LedgerFile(ledger_path(settings, root, pool), root, pool) as ledger:
        ledger.load()


def home(directories: RunDirectories, run_id: str = RUN, shard: str = "") -> Path | None:
    """The directory of a run; None: the server knows none. Any other reason not to say it is an error."""
    try:
        return directories.of(run_id, shard).home
    except CannotBeOpened as error:
        if str(error) != NOT_NAMED:
            raise
        return None


def a_result(**fields: Any) -> TrialResult:
    """A result in the slot of the one trial that lies in the directory of the run."""
    return TrialResult(**{"type": "trial_result", "run_id": RUN, "task_id": "task-1"} | fields)


def test_a_run_is_found_below_a_directory_that_was_named(settings: Settings, tmp_path: Path) -> None:
    runs = make_run(tmp_path)
    for named in (runs, runs / RUN):
        assert home(RunDirectories(settings, [named], Clock())) == (runs / RUN).resolve()


@pytest.mark.parametrize("below", ["task-1", TRIAL, f"{TRIAL}/agent.log"])
def test_nothing_above_a_directory_that_was_named_is_shown(
    settings: Settings, tmp_path: Path, below: str
) -> None:
    assert home(RunDirectories(settings, [make_run(tmp_path) / RUN / below], Clock())) is None


def test_a_run_that_was_pooled_is_found_by_its_shard(settings: Settings, tmp_path: Path) -> None:
    directories = RunDirectories(settings, [make_run(tmp_path)], Clock())
    assert home(directories, "pool", f"{RUN}/2") == (tmp_path / "runs" / RUN).resolve()
    assert home(directories, "pool", f"{RUN}2") is None
    assert home(directories, "pool", "other") is None


def test_what_tail_followed_is_named_for_the_same_deployment_alone(
    settings: Settings, tmp_path: Path
) -> None:
    runs = make_run(tmp_path)
    follow(settings, runs)
    assert home(RunDirectories(settings, [], Clock())) == (runs / RUN).resolve()
    other = settings.model_copy(update={"namespace": "other"})
    assert home(RunDirectories(other, [], Clock())) is None


def test_two_pools_that_share_a_shards_name_have_each_its_own_directory(
    settings: Settings, tmp_path: Path
) -> None:
    pools = {pool: make_run(tmp_path / pool) for pool in ("a", "b")}
    for pool, runs in pools.items():
        follow(settings, runs, pool)
    directories = RunDirectories(settings, [], Clock())
    for pool, runs in pools.items():
        assert home(directories, pool, RUN) == (runs / RUN).resolve()
    for stranger, shard in (("mine", RUN), (RUN, ""), ("a", "")):
        assert home(directories, stranger, shard) is None


def test_where_two_directories_fit_neither_is_shown_until_one_is_gone(
    settings: Settings, tmp_path: Path
) -> None:
    clock = Clock()
    first, second = (make_run(tmp_path / place) for place in ("a", "b"))
    directories = RunDirectories(settings, [first], clock)
    assert home(directories) == (first / RUN).resolve()
    follow(settings, second)
    with pytest.raises(CannotBeOpened, match="Rename or remove all but one"):
        directories.of(RUN, "")
    (first / RUN).rename(tmp_path / "aside")
    clock.now += LOOK_AGAIN_SECONDS
    assert home(directories) == (second / RUN).resolve()


def test_a_run_that_appears_later_is_looked_for_again_but_not_all_the_time(
    settings: Settings, tmp_path: Path
) -> None:
    clock = Clock()
    directories = RunDirectories(settings, [tmp_path / "runs"], clock)
    assert home(directories) is None
    make_run(tmp_path)
    assert home(directories) is None
    clock.now += LOOK_AGAIN_SECONDS
    assert home(directories) is not None


def test_runs_of_other_packages_connectors_are_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edge is the list of what is installed: a run that the connectors of ours do not know."""
    [ours] = [source for source in convert.SOURCES if source.name == "terminal-bench"]
    rest = tuple(source for source in convert.SOURCES if source.name not in ("terminal-bench", "fc-eval"))
    runs = make_run(tmp_path)
    monkeypatch.setattr(convert, "SOURCES", rest)
    assert home(RunDirectories(settings, [runs], Clock())) is None
    monkeypatch.setattr(convert, "load_all", lambda taken: [ours])
    assert home(RunDirectories(settings, [runs], Clock())) == (runs / RUN).resolve()


def test_the_files_that_the_connector_names_for_the_trial_are_shown(
    settings: Settings, tmp_path: Path
) -> None:
    directories = RunDirectories(settings, [make_run(tmp_path)], Clock())
    pooled = {"run_id": "pool", "shard": RUN, "agent": "named by an option"}
    for event in (a_result(), a_result(**pooled)):
        for name in FILES:
            directories.of(event.run_id, event.shard).check(event, f"{TRIAL}/{name}")


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "run_metadata.json",
        "tb.lock",
        "results.json",
        f"{TRIAL}/results.json",
        f"{TRIAL}/link.log",
        f"{TRIAL}/./agent.log",
        "task-2/task-2.1-of-1.files-run/agent.log",
        "gone/agent.log",
    ],
)
def test_a_path_that_only_an_event_names_is_not_shown(settings: Settings, tmp_path: Path, path: str) -> None:
    """Events are a publisher's: they make neither files of the harness nor those of other trials visible."""
    run = make_run(tmp_path) / RUN
    (run / ".env").write_text("KEY=1")
    other = run / "task-2" / "task-2.1-of-1.files-run"
    other.mkdir(parents=True)
    (other / "results.json").write_text(json.dumps({"task_id": "task-2", "is_resolved": True}))
    (other / "agent.log").write_text("of task-2")
    known = RunDirectories(settings, [run], Clock()).of(RUN, "")
    known.check(a_result(task_id="task-2"), "task-2/task-2.1-of-1.files-run/agent.log")
    with pytest.raises(CannotBeOpened, match="Others are not shown"):
        known.check(a_result(), path)


def test_a_trial_that_stands_only_in_the_file_of_the_run_keeps_its_files(
    settings: Settings, tmp_path: Path
) -> None:
    run = make_run(tmp_path) / RUN
    (run / TRIAL / "results.json").unlink()
    crashed = {"task_id": "task-1", "trial_name": "task-1.1-of-1.files-run", "is_resolved": None}
    (run / "results.json").write_text(json.dumps({"results": [crashed]}))
    RunDirectories(settings, [run], Clock()).of(RUN, "").check(a_result(), f"{TRIAL}/agent.log")


def test_a_list_that_is_no_list_names_nothing(settings: Settings, tmp_path: Path) -> None:
    place = ledger_path(settings, tmp_path, None).parent
    place.mkdir(parents=True)
    for name, content in (("a", ""), ("b", "[]\n"), ("c", '{"followed": 1}\n'), ("d", "\x00\n")):
        (place / f"{name}.ndjson").write_text(content)
    assert followed(settings) == []


def test_while_one_search_goes_on_others_get_what_the_last_one_found(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    directories = RunDirectories(settings, [tmp_path / "runs"], clock)
    assert home(directories) is None
    make_run(tmp_path)
    clock.now += LOOK_AGAIN_SECONDS
    begun, end, found = threading.Event(), threading.Event(), []
    discover = artifacts.discover

    def slow(*arguments: Any, **options: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return discover(*arguments, **options)

    monkeypatch.setattr(artifacts, "discover", slow)
    first = threading.Thread(target=lambda: found.append(home(directories)))
    first.start()
    assert begun.wait(60)
    second = threading.Thread(target=lambda: found.append(home(directories)))
    second.start()
    second.join(30)
    assert found == [None]
    end.set()
    first.join(60)
    assert found == [None, (tmp_path / "runs" / RUN).resolve()]
